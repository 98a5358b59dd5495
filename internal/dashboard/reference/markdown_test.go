package reference

import (
	"html/template"
	"regexp"
	"strings"
	"testing"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"paragraphs", "a\nb\n\nc", "<p>a b</p>\n<p>c</p>\n"},
		{"text that looks like HTML", "a <b> & `<c>`", "<p>a &lt;b&gt; &amp; <code>&lt;c&gt;</code></p>\n"},
		{"strong around code", "**504 `x` is *so* special**", "<p><strong>504 <code>x</code> is <em>so</em> special</strong></p>\n"},
		{"stars in code", "`a*b*c` **d**", "<p><code>a*b*c</code> <strong>d</strong></p>\n"},
		{"a list", "a:\n- b\n  c\n- d\n\ne", "<p>a:</p>\n<ul>\n<li>b c</li>\n<li>d</li>\n</ul>\n<p>e</p>\n"},
		{"a heading", "## Keys and scopes\na", "<h2 id=\"keys-and-scopes\">Keys and scopes</h2>\n<p>a</p>\n"},
		{
			"a table", "| a | | `b` |\n|---|---|---|\n| 1 | 2 | **3** |",
			"<div class=\"scroll\" tabindex=\"0\"><table>\n<tr><th>a</th><td></td><th><code>b</code></th></tr>\n" +
				"<tr><td>1</td><td>2</td><td><strong>3</strong></td></tr>\n</table></div>\n",
		},
	} {
		if got := markdown(c.text); got != template.HTML(c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

var ours = regexp.MustCompile(`</?(p|ul|li|strong|em|code|table|tr|th|td)>|<h2 id="[a-z0-9-]*">|</h2>|<div class="scroll" tabindex="0">|</div>`)

// No text makes a tag that is not ours.
func FuzzMarkdown(f *testing.F) {
	f.Add("a <script> `b\n- c\n|d|\n|-\n|<e>|\n## *f**g***")
	f.Fuzz(func(t *testing.T, text string) {
		if rest := ours.ReplaceAllString(string(markdown(text)), ""); strings.ContainsAny(rest, "<>") {
			t.Errorf("%q became %q", text, markdown(text))
		}
	})
}
