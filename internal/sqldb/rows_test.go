package sqldb

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	insertA = `INSERT INTO a (x, y, z)
VALUES ($1, $2, 0)`
	insertB = `INSERT INTO b (x) VALUES ($1)`
	update  = `UPDATE a SET x = $1`
)

// TestJoinedRows shows which statements a convoy has.
func TestJoinedRows(t *testing.T) {
	t.Parallel()
	guard := errors.New("guard")
	a := func(n int) statement { return statement{sql: insertA, args: []any{n, -n}} }
	b := func(n int) statement { return statement{sql: insertB, args: []any{n}} }
	tests := map[string]struct {
		lists [][]statement
		want  []string
	}{
		"one goes as it is": {[][]statement{{a(1), a(2)}}, []string{
			insertA + " [1 -1]", insertA + " [2 -2]",
		}},
		"rows of a table go where the first goes": {[][]statement{{a(1), b(1)}, {a(2), b(2)}, {b(3)}}, []string{
			"INSERT INTO a (x, y, z)\nVALUES ($1, $2, 0), ($3, $4, 0) [1 -1 2 -2]",
			"INSERT INTO b (x) VALUES ($1), ($2) [1 2]", insertB + " [3]",
		}},
		"not over what may change them": {[][]statement{{b(1)}, {{sql: update, args: []any{2}}, b(2)}, {b(3)}}, []string{
			"INSERT INTO b (x) VALUES ($1), ($2) [1 3]", update + " [2]", insertB + " [2]",
		}},
		"not where a row must be changed": {[][]statement{{b(1)}, {{sql: insertB, args: []any{2}, otherwise: guard}, b(3)}}, []string{
			insertB + " [1]", insertB + " [2]", insertB + " [3]",
		}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			var r rowTexts
			var group []*traveler
			for _, list := range test.lists {
				group = append(group, &traveler{pgSession: &pgSession{list: list}})
			}
			var got []string
			for _, one := range r.join(group) {
				got = append(got, fmt.Sprint(one.sql, " ", one.args))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyPlainRowsAreJoined shows what is left as it is: what several rows would mean something else to.
func TestOnlyPlainRowsAreJoined(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`INSERT INTO a (x) VALUES ($1) ON CONFLICT DO NOTHING`, `INSERT INTO a (x) VALUES ($1) RETURNING x`,
		`INSERT INTO a (x) SELECT $1`, `INSERT INTO a (x) VALUES (COALESCE($1, 0))`, `INSERT INTO a (x) VALUES ($1), ($2)`, update,
	} {
		if texts := severalRows(text); texts != nil {
			t.Errorf("%s: %q", text, texts)
		}
	}
}

// TestAllRowsAreInserted shows that no number of rows loses one.
func TestAllRowsAreInserted(t *testing.T) {
	t.Parallel()
	var r rowTexts
	for n := range 3*rowsMax + 2 {
		var rows [][]any
		for i := range n {
			rows = append(rows, []any{i})
		}
		next := 0
		for _, one := range r.insert(nil, insertB, rows) {
			for _, arg := range one.args {
				if arg != next {
					t.Errorf("%d rows: row %v is number %d", n, arg, next)
				}
				next++
			}
		}
		if next != n {
			t.Errorf("of %d rows %d are inserted", n, next)
		}
	}
}
