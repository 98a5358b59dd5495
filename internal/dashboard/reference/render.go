package reference

import (
	"embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed templates
var files embed.FS

// Words returns the text for a key in the reader's language. It is asked for what stands around the document's own texts.
type Words func(key string) string

var templates = template.Must(template.New("").Funcs(functions(nil)).ParseFS(files, "templates/*.html"))

func functions(words Words) template.FuncMap {
	return template.FuncMap{
		"t":  words,
		"of": func(v view, o *Operation) operationView { return operationView{v.Reference.Prefix, o} },
	}
}

// view is what the templates see.
type view struct {
	Reference *Reference
	Page      *Page
}

type operationView struct {
	Prefix    string
	Operation *Operation
}

// Render returns the content of a page, without what the dashboard puts around it. Its curl lines hold [BaseURL] as it is:
// see [Address].
func (r *Reference) Render(p *Page, words Words) (template.HTML, error) {
	t, err := templates.Clone()
	if err != nil {
		return "", fmt.Errorf("reference: %w", err)
	}
	var b strings.Builder
	if err := t.Funcs(functions(words)).ExecuteTemplate(&b, "page", view{r, p}); err != nil {
		return "", fmt.Errorf("reference: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // html/template made it
}

// Address returns content with the address at which the reader reaches the API in its curl lines.
func Address(content template.HTML, base string) template.HTML {
	return template.HTML(strings.ReplaceAll(string(content), BaseURL, template.HTMLEscapeString(base))) //nolint:gosec // escaped
}
