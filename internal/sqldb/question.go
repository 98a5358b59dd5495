package sqldb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A creation takes its locks and then asks whether it has happened before. On PostgreSQL the question travels with the
// locks, and those of one text that travel together are one statement: a question of its own costs PostgreSQL several times
// what it takes to answer it.

// question is a query that travels with others: whether there is a row, or which.
type question struct {
	sql      string
	args     []any
	answered bool // found or rows is the answer; otherwise it has to be asked by itself
	found    bool
	rows     []rawRow
}

// What asks any number of questions is made of the list of what they are about, in which each has a number from 1, and of the
// text of one.
const (
	whoFound  = "SELECT v.n FROM %s WHERE EXISTS (%s)"              // returns the numbers of those that find a row
	whatFound = "SELECT v.n, q.* FROM %s CROSS JOIN LATERAL (%s) q" // returns what they find, behind their numbers
)

// questionTexts knows, by the text of one question, that which asks any number of them.
type questionTexts struct {
	form  string // whoFound or whatFound
	known map[string]questionText
}

// questionText asks any number of questions.
type questionText struct {
	sql  string // "" where there is none
	args int    // of one question
}

// queue adds the questions to a batch and returns which its statements ask, in their order. One that PostgreSQL does not
// understand would take the others with it, so it is left out.
func (t *questionTexts) queue(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, all []*question) (asked [][]*question) {
	for _, group := range byText(all) {
		text := t.of(ctx, conn, group[0].sql)
		group = slices.DeleteFunc(group, func(q *question) bool { return len(q.args) != text.args })
		if text.sql != "" && len(group) > 0 {
			batch.Queue(text.sql, columnsOf(len(group), text.args, func(i int) []any { return group[i].args })...)
			asked = append(asked, group)
		}
	}
	return asked
}

func (t *questionTexts) of(ctx context.Context, conn *pgx.Conn, sql string) questionText {
	text, ok := t.known[sql]
	if ok {
		return text
	}
	types, err := describe(ctx, conn, sql)
	if err != nil {
		return questionText{} // another time
	}
	text.args = len(types)
	if lists, columns := listsOf(types); lists != "" {
		text.sql = fmt.Sprintf(t.form, lists+" WITH ORDINALITY v ("+columns+", n)", placeholder.ReplaceAllStringFunc(sql, listed))
	}
	if t.known == nil {
		t.known = map[string]questionText{}
	}
	t.known[sql] = text
	return text
}

// byText returns questions with those of one text together.
func byText(all []*question) (groups [][]*question) {
	at := map[string]int{}
	for _, one := range all {
		i, ok := at[one.sql]
		if !ok {
			i = len(groups)
			at[one.sql] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], one)
	}
	return groups
}

// tell reads the answer to a statement, which is the numbers of those who found a row, and tells all who asked.
func tell(results pgx.BatchResults, group []*question) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	found := make([]bool, len(group))
	var number int64 // from 1
	if _, err := pgx.ForEachRow(rows, []any{&number}, func() error { found[number-1] = true; return nil }); err != nil {
		return err
	}
	for i, one := range group {
		one.answered, one.found = true, found[i]
	}
	return nil
}
