package sqldb

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	insertA = `INSERT INTO a (x, y, z)
VALUES ($1, $2, 0)`
	insertB = `INSERT INTO b (x) VALUES ($1)`
	update  = `UPDATE a SET x = $1`
	updateC = `UPDATE c SET x = $1 WHERE account_id = $2 AND id = $3 AND x < $1`
	otherC  = `UPDATE c SET y = $1 WHERE account_id = $2 AND id = $3`
	reading = `UPDATE a SET x = $1 WHERE x IN (SELECT x FROM b)`
)

// allNumbers says that all arguments are numbers.
func allNumbers(sql string) ([]uint32, error) {
	return slices.Repeat([]uint32{pgtype.Int8OID}, strings.Count(sql, "$")-strings.Count(sql, "< $")), nil
}

// TestJoinedRows shows which statements a convoy has.
func TestJoinedRows(t *testing.T) {
	t.Parallel()
	guard := errors.New("guard")
	a := func(n int) statement { return statement{sql: insertA, args: []any{n, -n}} }
	b := func(n int) statement { return statement{sql: insertB, args: []any{n}} }
	c := func(row, to int) statement {
		return statement{sql: updateC, args: []any{to, 7, row}, otherwise: guard}
	}
	other := func(row, to int) statement { return statement{sql: otherC, args: []any{to, 7, row}} }
	tests := map[string]struct {
		lists [][]statement
		want  []string
	}{
		"rows of one": {[][]statement{{a(1), a(2)}}, []string{
			"INSERT INTO a (x, y, z)\nSELECT v.p1, v.p2, 0 FROM unnest($1::int8[], $2::int8[]) v (p1, p2) [[1 2] [-1 -2]] 0",
		}},
		"rows of a table go where the first goes": {[][]statement{{a(1), b(1)}, {a(2), b(2)}, {b(3)}}, []string{
			"INSERT INTO a (x, y, z)\nSELECT v.p1, v.p2, 0 FROM unnest($1::int8[], $2::int8[]) v (p1, p2) [[1 2] [-1 -2]] 0",
			"INSERT INTO b (x) SELECT v.p1 FROM unnest($1::int8[]) v (p1) [[1 2 3]] 0",
		}},
		"over what has nothing to do with them": {[][]statement{{b(1)}, {{sql: update, args: []any{2}}, b(2)}, {b(3)}}, []string{
			"INSERT INTO b (x) SELECT v.p1 FROM unnest($1::int8[]) v (p1) [[1 2 3]] 0", update + " [2] 0",
		}},
		"not over what may change them": {[][]statement{{a(1)}, {{sql: update, args: []any{2}}, a(2)}, {a(3)}}, []string{
			"INSERT INTO a (x, y, z)\nSELECT v.p1, v.p2, 0 FROM unnest($1::int8[], $2::int8[]) v (p1, p2) [[1 3] [-1 -3]] 0", update + " [2] 0", insertA + " [2 -2] 0",
		}},
		"not over what reads them": {[][]statement{{b(1)}, {{sql: reading, args: []any{2}}, b(2)}}, []string{
			insertB + " [1] 0", reading + " [2] 0", insertB + " [2] 0",
		}},
		"not over what nobody knows": {[][]statement{{b(1)}, {{sql: "LOCK b"}, b(2)}}, []string{
			insertB + " [1] 0", "LOCK b [] 0", insertB + " [2] 0",
		}},
		"not where a row must be changed": {[][]statement{{b(1)}, {{sql: insertB, args: []any{2}, otherwise: guard}, b(3)}}, []string{
			insertB + " [1] 0", insertB + " [2] 0", insertB + " [3] 0",
		}},
		"not with another number of arguments": {
			[][]statement{{b(1)}, {{sql: insertB}}, {{sql: insertB, args: []any{2, 3}}}, {b(4)}, {{sql: updateC, args: []any{5}}}, {c(1, 6)}}, []string{
				"INSERT INTO b (x) SELECT v.p1 FROM unnest($1::int8[]) v (p1) [[1 4]] 0", insertB + " [] 0", insertB + " [2 3] 0", updateC + " [5] 0", updateC + " [6 7 1] 0",
			},
		},
		"changes of several rows": {[][]statement{{b(1), c(1, 5)}, {b(2), c(2, 6)}}, []string{
			"INSERT INTO b (x) SELECT v.p1 FROM unnest($1::int8[]) v (p1) [[1 2]] 0",
			"UPDATE c SET x = v.p1 FROM unnest($1::int8[], $2::int8[], $3::int8[]) v (p1, p2, p3) " +
				"WHERE account_id = v.p2 AND id = v.p3 AND x < v.p1 [[5 6] [7 7] [1 2]] 2",
		}},
		"changes of rows that several change": {[][]statement{{c(1, 5)}, {c(1, 6)}, {c(2, 7)}}, []string{
			"UPDATE c SET x = v.p1 FROM unnest($1::int8[], $2::int8[], $3::int8[]) v (p1, p2, p3) " +
				"WHERE account_id = v.p2 AND id = v.p3 AND x < v.p1 [[5 7] [7 7] [1 2]] 2", updateC + " [6 7 1] 0",
		}},
		"two changes of one row by other texts": {[][]statement{{other(2, 4)}, {c(1, 5)}, {other(1, 6)}, {c(2, 7)}, {other(3, 8)}}, []string{
			"UPDATE c SET y = v.p1 FROM unnest($1::int8[], $2::int8[], $3::int8[]) v (p1, p2, p3) " +
				"WHERE account_id = v.p2 AND id = v.p3 [[4 8] [7 7] [2 3]] 2",
			"UPDATE c SET x = v.p1 FROM unnest($1::int8[], $2::int8[], $3::int8[]) v (p1, p2, p3) " +
				"WHERE account_id = v.p2 AND id = v.p3 AND x < v.p1 [[5 7] [7 7] [1 2]] 2", otherC + " [6 7 1] 0",
		}},
		"two changes of one row": {[][]statement{{c(1, 5)}, {c(1, 6)}}, []string{updateC + " [5 7 1] 0", updateC + " [6 7 1] 0"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			var j joiner
			var group []*traveler
			for _, list := range test.lists {
				group = append(group, &traveler{pgSession: &pgSession{list: list}})
			}
			var got []string
			for _, one := range j.join(group, allNumbers) {
				got = append(got, fmt.Sprint(one.sql, " ", one.args, " ", one.rows))
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
		`INSERT INTO a (x) SELECT $1`, `INSERT INTO a (x) VALUES (COALESCE($1, 0))`, `INSERT INTO a (x) VALUES ($1), ($2)`, update, reading,
		updateC + ` RETURNING x`, updateC + ` OR x = 0`, `UPDATE c SET x = (SELECT 1 WHERE true) WHERE account_id = $1 AND id = $2`,
		`UPDATE c SET x = 0 WHERE id = $1 AND account_id = $2`, `UPDATE c SET x = 0 WHERE account_id = $1 AND event_id = $2`,
		`UPDATE c SET x = 0 WHERE account_id = $1 AND y = $2 AND id = $3`, `UPDATE c SET x = 0 WHERE account_id = $1 AND id < $2`, `DELETE FROM c WHERE account_id = $1 AND id = $2`, `SELECT x FROM c`,
	} {
		if s, err := newShape(text, allNumbers); err != nil || s.text != "" {
			t.Errorf("%s: %q, %v", text, s.text, err)
		}
	}
}

// A text whose types could not be asked for is asked about again.
func TestTypesAreAskedForAgain(t *testing.T) {
	t.Parallel()
	var j joiner
	away := errors.New("away")
	one := statement{sql: updateC, args: []any{1, 2, 3}}
	if s := j.shapeOf(one, func(string) ([]uint32, error) { return nil, away }); s.text != "" || s.table != "c" {
		t.Errorf("%+v", s)
	}
	if s := j.shapeOf(one, allNumbers); s.text == "" {
		t.Errorf("%+v", s)
	}
}

// TestAllRowsAreThere shows that no number of rows loses one.
func TestAllRowsAreThere(t *testing.T) {
	t.Parallel()
	s, err := newShape(insertB, allNumbers)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2*joinedMax + 2 {
		all := slot{shape: s}
		for i := range n {
			all.members = append(all.members, statement{sql: insertB, args: []any{i}})
		}
		next := 0
		for _, one := range all.write(nil) {
			column, ok := one.args[0].(pgtype.FlatArray[any])
			if !ok {
				column = one.args
			}
			for _, arg := range column {
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
