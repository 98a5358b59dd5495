package dashboard

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// What scrolls can be scrolled without a mouse.
func TestScrollsByKeyboard(t *testing.T) {
	t.Parallel()
	scrolls := regexp.MustCompile(`<[^>]*class="scroll[^>]*>`)
	err := fs.WalkDir(templateFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(templateFiles, path)
		for _, tag := range scrolls.FindAllString(string(content), -1) {
			if !strings.Contains(tag, `tabindex="0"`) {
				t.Errorf("%s: %s cannot have the focus", path, tag)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A cell says what it is: on a phone there is no head above it. Only what holds buttons speaks for itself.
func TestCellsHaveNames(t *testing.T) {
	t.Parallel()
	tables, head := regexp.MustCompile(`(?s)<table(?: class="([a-z]+)")?>.*?</table>`), regexp.MustCompile(`<th[ >]`)
	cells := regexp.MustCompile(`<td([^>]*)>`)
	count := 0
	err := fs.WalkDir(templateFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(templateFiles, path)
		for _, table := range tables.FindAllStringSubmatch(string(content), -1) {
			if table[1] == "balances" { // its rows have heads
				continue
			}
			count++
			_, body, _ := strings.Cut(table[0], "<tbody>")
			buttons := strings.Count(table[0], `<th><span class="hidden">{{t "common.actions"}}`)
			named, all := strings.Count(body, "<td data-label="), len(cells.FindAllString(body, -1))
			if named+buttons != all || all != len(head.FindAllString(table[0], -1)) {
				t.Errorf("%s: %d of %d cells have names, %d hold buttons: %.80s", path, named, all, buttons, table[0])
			}
		}
		return err
	})
	if err != nil || count < 20 {
		t.Fatal(count, err)
	}
}
