package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/config"
)

// The commands in docs/operating.md are run as they stand there, in order, with what the ones before them printed put in
// for the dots.
func TestDocumentedCommandsWork(t *testing.T) {
	t.Parallel()
	commands := documentedCommands(t)
	if len(commands) < 15 {
		t.Fatalf("found only %d commands", len(commands))
	}
	data := filepath.Join(t.TempDir(), "data")
	seen := map[string]string{} // what was printed last, by the placeholder it stands for
	prints := map[string]*regexp.Regexp{
		"acc_...":  regexp.MustCompile(`acc_[0-9a-z]{8}`),
		"hld_...":  regexp.MustCompile(`hld_[0-9a-z]{26}`),
		"whk_...":  regexp.MustCompile(`whk_[0-9a-z]{26}`),
		"0123abcd": regexp.MustCompile(`bp_([0-9a-f]{8})_`),
	}
	for _, line := range commands {
		for placeholder, value := range seen {
			line = strings.ReplaceAll(line, placeholder, value)
		}
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append(words(line)[1:], "--data", data), &stdout, &stderr)
		if status != 0 {
			t.Fatalf("%s: status %d: %s", line, status, stderr.String())
		}
		for placeholder, printed := range prints {
			if found := printed.FindStringSubmatch(stdout.String()); found != nil {
				seen[placeholder] = found[len(found)-1]
			}
		}
	}
}

func documentedCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(read(t, "docs/operating.md"), -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// words splits a command line at spaces outside double quotes.
func words(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Every flag and variable of serve stands in the table of settings, and every command among the examples.
func TestEverythingIsDocumented(t *testing.T) {
	t.Parallel()
	operating := read(t, "docs/operating.md")
	for _, part := range []any{config.Store{}, config.Serve{}} {
		for field := range reflect.TypeOf(part).Fields() {
			name := field.Tag.Get("name")
			if name == "" {
				name = strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(field.Name, "$1-$2"))
			}
			if !strings.Contains(operating, "`--"+name+"`") {
				t.Errorf("docs/operating.md does not name --%s", name)
			}
		}
	}
	examples := documentedCommands(t)
	for _, path := range commandPaths(reflect.TypeFor[commands](), "ponte") {
		// They need or are a running server, or something that only one can have made.
		undocumented := []string{
			"ponte serve", "ponte simulator", "ponte bench", "ponte charge show", "ponte charge cancel", "ponte charge dismiss", "ponte infraction dismiss", "ponte deposit dismiss", "ponte listen", "ponte event show", "ponte user reset", "ponte user remove",
		}
		if slices.Contains(undocumented, path) {
			continue
		}
		if !slices.ContainsFunc(examples, func(c string) bool { return strings.HasPrefix(c+" ", path+" ") }) {
			t.Errorf("docs/operating.md has no example of %s", path)
		}
	}
}

// commandPaths returns every command of a struct of commands.
func commandPaths(of reflect.Type, prefix string) []string {
	var out []string
	for field := range of.Fields() {
		if _, ok := field.Tag.Lookup("cmd"); !ok {
			continue
		}
		path := prefix + " " + strings.ToLower(field.Name)
		if inner := commandPaths(field.Type, path); len(inner) > 0 {
			out = append(out, inner...)
		} else {
			out = append(out, path)
		}
	}
	return out
}

// Links between the documents lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/dashboard.md", "docs/decisions.md", "docs/operating.md", "docs/performance.md", "docs/states.md", "docs/webhooks.md"} {
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", "..", filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
