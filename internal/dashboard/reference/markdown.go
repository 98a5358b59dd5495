package reference

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
)

// markdown turns the Markdown of a document into HTML. It knows what the document uses: paragraphs, lists, tables, one
// level of headings, code, strong and emphasized text. All else is text. Headings become h2 with an id.
func markdown(text string) template.HTML {
	var b strings.Builder
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for len(lines) > 0 {
		n := 1
		switch line := lines[0]; {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, headingMark):
			title := strings.TrimPrefix(line, headingMark)
			fmt.Fprintf(&b, "<h2 id=%q>%s</h2>\n", anchor(title), inline(title))
		case isItem(line):
			n = writeList(&b, lines)
		case strings.HasPrefix(line, "|"):
			n = writeTable(&b, lines)
		default:
			n = countWhile(lines, func(l string) bool {
				return strings.TrimSpace(l) != "" && !isItem(l) && !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, headingMark)
			})
			fmt.Fprintf(&b, "<p>%s</p>\n", inline(strings.Join(lines[:n], " ")))
		}
		lines = lines[n:]
	}
	return template.HTML(b.String()) //nolint:gosec // every text in it went through inline
}

// Marks at the beginning of a line.
const (
	headingMark = "## "
	itemMark    = "- "
)

func isItem(line string) bool { return strings.HasPrefix(line, itemMark) }

// countWhile returns how many lines from the first on fulfil is; at least one.
func countWhile(lines []string, is func(string) bool) int {
	n := 1
	for n < len(lines) && is(lines[n]) {
		n++
	}
	return n
}

// writeList writes the list at the beginning of lines, and returns how many lines it has. What is indented goes on.
func writeList(b *strings.Builder, lines []string) int {
	n := countWhile(lines, func(l string) bool { return isItem(l) || strings.HasPrefix(l, "  ") })
	var items []string
	for _, line := range lines[:n] {
		if isItem(line) {
			items = append(items, strings.TrimPrefix(line, itemMark))
		} else {
			items[len(items)-1] += " " + strings.TrimSpace(line)
		}
	}
	b.WriteString("<ul>\n")
	for _, item := range items {
		fmt.Fprintf(b, "<li>%s</li>\n", inline(item))
	}
	b.WriteString("</ul>\n")
	return n
}

// writeTable writes the table at the beginning of lines, and returns how many lines it has. The second line only draws.
func writeTable(b *strings.Builder, lines []string) int {
	n := countWhile(lines, func(l string) bool { return strings.HasPrefix(l, "|") })
	b.WriteString("<div class=\"scroll\" tabindex=\"0\"><table>\n")
	for i, line := range lines[:n] {
		cell := "td"
		switch i {
		case 0:
			cell = "th"
		case 1:
			continue
		}
		b.WriteString("<tr>")
		for text := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			text = strings.TrimSpace(text)
			if cell == "th" && text == "" {
				b.WriteString("<td></td>") // a heading of nothing is none
				continue
			}
			fmt.Fprintf(b, "<%s>%s</%s>", cell, inline(text), cell)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table></div>\n")
	return n
}

var (
	codeText   = regexp.MustCompile("`([^`]+)`")
	strongText = regexp.MustCompile(`\*\*(.+?)\*\*`)
	emText     = regexp.MustCompile(`\*([^*]+)\*`)
)

// inline turns code, strong and emphasized text into HTML. What is code is nothing else.
func inline(text string) template.HTML {
	// Code is taken out first and put back last, so that its stars stay stars and strong text may hold it.
	var codes []string
	text = codeText.ReplaceAllStringFunc(strings.ReplaceAll(text, codePlace, ""), func(code string) string {
		codes = append(codes, "<code>"+template.HTMLEscapeString(strings.Trim(code, "`"))+"</code>")
		return codePlace
	})
	text = template.HTMLEscapeString(text)
	text = strongText.ReplaceAllString(text, "<strong>$1</strong>")
	text = emText.ReplaceAllString(text, "<em>$1</em>")
	for _, code := range codes {
		text = strings.Replace(text, codePlace, code, 1)
	}
	return template.HTML(text) //nolint:gosec // escaped before anything of ours was put in
}

// codePlace stands where code was taken out. No text has it.
const codePlace = "\x01"

var notInAnchor = regexp.MustCompile(`[^a-z0-9]+`)

// anchor returns the id of a heading.
func anchor(title string) string {
	return strings.Trim(notInAnchor.ReplaceAllString(strings.ToLower(title), "-"), "-")
}
