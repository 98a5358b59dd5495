package sqldb

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A creation takes its locks and then asks whether it has happened before. On PostgreSQL the question travels with the
// locks, and those of one text that travel together are one statement: a question of its own costs PostgreSQL several times
// what it takes to answer it.

// question is whether there is a row.
type question struct {
	sql      string
	args     []any
	answered bool // found is the answer; otherwise it has to be asked by itself
	found    bool
}

// questionTexts knows, by the text of one question, those that ask 2, 4, 8... of them; nil where there are none.
type questionTexts struct{ known map[string][]string }

// queue adds the questions to a batch and returns which its statements ask, in their order. One that PostgreSQL does not
// understand would take the others with it, so it is left out.
func (t *questionTexts) queue(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, all []*question) (asked [][]*question) {
	for _, group := range byText(all) {
		texts := t.of(ctx, conn, group[0].sql)
		if texts == nil {
			continue
		}
		for len(group) > 0 {
			some := group[:min(len(group), rowsMax)]
			group = group[len(some):]
			text := some[0].sql
			for i, size := 0, 1; size < len(some); i, size = i+1, 2*size {
				text = texts[i]
			}
			batch.Queue(text, argsOf(some)...)
			asked = append(asked, some)
		}
	}
	return asked
}

func (t *questionTexts) of(ctx context.Context, conn *pgx.Conn, sql string) []string {
	texts, ok := t.known[sql]
	if ok {
		return texts
	}
	types, err := describe(ctx, conn, sql)
	if err != nil {
		return nil // another time
	}
	if t.known == nil {
		t.known = map[string][]string{}
	}
	texts = severalQuestions(sql, types)
	t.known[sql] = texts
	return texts
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

// argsOf returns the arguments of a statement for as many as there is a text for, the last of them again and again.
func argsOf(group []*question) []any {
	size := 1
	for size < len(group) {
		size *= 2
	}
	args := make([]any, 0, size*len(group[0].args))
	for i := range size {
		args = append(args, group[min(i, len(group)-1)].args...)
	}
	return args
}

// tell reads the answer to a statement and tells those who asked. One that asked alone is answered by any row, several by
// their numbers.
func tell(results pgx.BatchResults, group []*question) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	var found []int
	for rows.Next() {
		n := 0
		if len(group) > 1 {
			if err := rows.Scan(&n); err != nil {
				return err
			}
		}
		found = append(found, n)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	for _, n := range found {
		if n < len(group) {
			group[n].found = true
		}
	}
	for _, one := range group {
		one.answered = true
	}
	return nil
}

// severalQuestions returns the texts that ask 2, 4, 8... questions, answered by their numbers from 0.
func severalQuestions(sql string, types []uint32) (texts []string) {
	names, columns := typesOf(types)
	if names == nil {
		return nil
	}
	exists := ") v (n, " + strings.Join(columns, ", ") + ") WHERE EXISTS (" + placeholder.ReplaceAllStringFunc(sql, listed) + ")"
	for size := 2; size <= rowsMax; size *= 2 {
		texts = append(texts, "SELECT v.n FROM (VALUES "+valuesOf(size, names, strconv.Itoa)+exists)
	}
	return texts
}
