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
