package sqldb

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLiteRows shows which statements a leader runs for several writers.
func TestLiteRows(t *testing.T) {
	t.Parallel()
	a := func(n int) statement { return statement{sql: insertA, args: []any{n, -n}} }
	b := func(n int) statement { return statement{sql: insertB, args: []any{n}} }
	many := func(n int) (lists [][]statement) {
		for i := range n {
			lists = append(lists, []statement{b(i)})
		}
		return lists
	}
	for title, test := range map[string]struct {
		lists [][]statement
		want  []string
	}{
		"a writer alone": {[][]statement{{b(1), b(2)}}, []string{insertB + " [1]", insertB + " [2]"}},
		"rows of two tables": {[][]statement{{a(1), b(1)}, {a(2), b(2)}}, []string{
			"INSERT OR FAIL INTO a (x, y, z)\nVALUES ($1, $2, 0), ($3, $4, 0) [1 -1 2 -2]", "INSERT OR FAIL INTO b (x) VALUES ($1), ($2) [1 2]",
		}},
		"as many as are no power of two": {many(7), []string{
			"INSERT OR FAIL INTO b (x) VALUES ($1), ($2), ($3), ($4) [0 1 2 3]", "INSERT OR FAIL INTO b (x) VALUES ($1), ($2) [4 5]", insertB + " [6]",
		}},
		"not over what reads them": {[][]statement{{b(1)}, {{sql: reading, args: []any{2}}, b(2)}}, []string{
			insertB + " [1]", reading + " [2]", insertB + " [2]",
		}},
		"no changes": {[][]statement{{{sql: otherC, args: []any{1, 7, 1}}}, {{sql: otherC, args: []any{2, 7, 2}}}}, []string{
			otherC + " [1 7 1]", otherC + " [2 7 2]",
		}},
		"none with another number of arguments": {[][]statement{{b(1)}, {{sql: insertB, args: []any{2, 3}}}, {b(4)}}, []string{
			"INSERT OR FAIL INTO b (x) VALUES ($1), ($2) [1 4]", insertB + " [2 3]",
		}},
		"none that must change a row": {[][]statement{{b(1)}, {{sql: insertB, args: []any{2}, otherwise: errors.New("guard")}}}, []string{
			insertB + " [1]", insertB + " [2]",
		}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			var some []*turn
			for _, list := range test.lists {
				some = append(some, &turn{list: list})
			}
			var got []string
			for _, one := range newLiteJoiner().join(some) {
				got = append(got, fmt.Sprint(one.sql, " ", one.args))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAllLiteRowsAreThere shows that no number of rows loses one.
func TestAllLiteRowsAreThere(t *testing.T) {
	t.Parallel()
	for n := 2; n < 3*liteRowsMax; n++ {
		var some []*turn
		for i := range n {
			some = append(some, &turn{list: []statement{{sql: insertB, args: []any{i}}}})
		}
		next := 0
		for _, one := range newLiteJoiner().join(some) {
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
