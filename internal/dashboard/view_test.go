package dashboard

import "testing"

// A page is read when it is first looked at, which must not be when its mistake is found.
func TestPagesCanBeRead(t *testing.T) {
	t.Parallel()
	for l, all := range loadPages() {
		if len(all) == 0 {
			t.Errorf("%s: no pages", l)
		}
		for name, page := range all {
			if page().Lookup("layout") == nil {
				t.Errorf("%s: page %s has no layout", l, name)
			}
		}
	}
}
