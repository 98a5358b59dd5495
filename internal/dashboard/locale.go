package dashboard

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
)

// locale is a language that the pages are written in.
type locale string

const (
	localePT locale = "pt-BR" // the default
	localeEN locale = "en"
)

var locales = []locale{localePT, localeEN}

// folders are where the texts of each locale are, a file an area.
var folders = map[locale]string{localePT: "locale/pt", localeEN: "locale/en"}

//go:embed locale
var localeFiles embed.FS

// catalogues are all texts by their keys. A key is the name of its file, a dot, and a name in it.
var catalogues = func() map[locale]map[string]string {
	all := map[locale]map[string]string{}
	for l, folder := range folders {
		texts, err := readCatalogue(folder)
		if err != nil {
			panic(fmt.Sprintf("dashboard: %v", err)) // the files are part of the binary
		}
		all[l] = texts
	}
	return all
}()

func readCatalogue(folder string) (map[string]string, error) {
	names, err := fs.Glob(localeFiles, path.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, name := range names {
		content, err := fs.ReadFile(localeFiles, name)
		if err != nil {
			return nil, err
		}
		var texts map[string]string
		if err := json.Unmarshal(content, &texts); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		area := path.Base(name[:len(name)-len(".json")])
		for key, text := range texts {
			all[area+"."+key] = text
		}
	}
	return all, nil
}

// has reports whether there is a text.
func (l locale) has(key string) bool { return catalogues[l][key] != "" }

// text returns a text with its arguments put in. One that is missing shows its key: a test finds it before people do.
func (l locale) text(key string, args ...any) string {
	text, ok := catalogues[l][key]
	switch {
	case !ok:
		return "[" + key + "]"
	case len(args) == 0:
		return text
	}
	return fmt.Sprintf(text, args...)
}
