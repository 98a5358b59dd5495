package sqldb

import (
	"math/bits"
	"strconv"
	"strings"
)

// An INSERT of SQLite opens a cursor on each index of its table, makes ready, and closes all of them again, which costs
// half as much as the row. So rows of one text that a leader runs for several writers go by one INSERT, as they do on
// PostgreSQL, see rows.go.

// liteRowsMax is how many rows one INSERT has at most. Their number is a power of two, so that a few statements are kept for
// any number of rows.
const liteRowsMax = 16

// liteJoiner makes one INSERT of several, and knows the texts that it has seen. The leader uses it.
type liteJoiner struct {
	known map[string]*shape
	texts map[liteRows]string
}

// liteRows names the INSERT of so many rows.
type liteRows struct {
	sql  string // of one
	rows int
}

func newLiteJoiner() *liteJoiner {
	return &liteJoiner{known: map[string]*shape{}, texts: map[liteRows]string{}}
}

// join returns the statements of several writers.
func (j *liteJoiner) join(some []*turn) []statement {
	if len(some) == 1 {
		return some[0].list
	}
	lists := make([][]statement, 0, len(some))
	for _, t := range some {
		lists = append(lists, t.list)
	}
	return join(lists, j.shapeOf, j.write)
}

func (j *liteJoiner) shapeOf(one statement) *shape {
	s, ok := j.known[one.sql]
	if !ok {
		s = newLiteShape(one.sql)
		j.known[one.sql] = s
	}
	return s.of(one)
}

// newLiteShape looks at a text. An UPDATE is not joined: to find its row is all its work.
func newLiteShape(text string) *shape {
	s := tableOf(text)
	if values := plainInsert.FindStringSubmatch(text); values != nil {
		s.text = text
		for _, p := range placeholder.FindAllString(values[2], -1) {
			s.args = max(s.args, number(p))
		}
	}
	return s
}

// write appends the statements of a slot.
func (j *liteJoiner) write(s *slot, list []statement) []statement {
	for rest := s.members; len(rest) > 0; {
		rows := 1
		if s.text != "" {
			rows = min(liteRowsMax, 1<<(bits.Len(uint(len(rest)))-1))
		}
		list = append(list, j.ofRows(rest[:rows], s.args))
		rest = rest[rows:]
	}
	return list
}

// ofRows returns one statement that does what some of one text do.
func (j *liteJoiner) ofRows(some []statement, args int) statement {
	if len(some) == 1 {
		return some[0]
	}
	name := liteRows{some[0].sql, len(some)}
	text, ok := j.texts[name]
	if !ok {
		text = name.text(args)
		j.texts[name] = text
	}
	all := make([]any, 0, len(some)*args)
	for _, one := range some {
		all = append(all, one.args...)
	}
	return statement{sql: text, args: all}
}

// text writes the INSERT. One that fails leaves rows behind, for which SQLite need not keep copies of the pages: whoever
// runs several undoes all of them.
func (r liteRows) text(args int) string {
	parts := plainInsert.FindStringSubmatch(r.sql)
	rows := make([]string, r.rows)
	for i := range rows {
		rows[i] = placeholder.ReplaceAllStringFunc("("+parts[2]+")", func(p string) string { return "$" + strconv.Itoa(i*args+number(p)) })
	}
	return strings.Replace(parts[1], "INSERT INTO", "INSERT OR FAIL INTO", 1) + "VALUES " + strings.Join(rows, ", ")
}
