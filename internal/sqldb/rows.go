package sqldb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Most of what a statement costs PostgreSQL is the statement and not the row: to set it up, to read the checks of its
// table, to bind it and to answer. So those of a convoy that have one text go as one: rows of a table by one INSERT, and
// changes of several rows by one UPDATE, which read from one list an argument what each row is or becomes. So one text is
// good for any number of rows.

const joinedMax = 256 // rows by one statement

// errJoined says that a statement for several rows has not changed as many. Whose fault it was shows when each goes alone.
var errJoined = errors.New("sqldb: a statement for several rows has changed fewer")

// joiner makes one statement of several, and knows the texts that it has seen.
type joiner struct {
	mu    sync.Mutex
	known map[string]*shape
}

// shape is what is known of a text.
type shape struct {
	table string          // that it changes; "" when that cannot be told
	words map[string]bool // all that are in it, by which it could mean another table
	keys  []int           // of an UPDATE: which of its arguments say which row, from 0
	args  int             // how many arguments it has, if there is such a text
	text  string          // for several rows, which come as one list an argument; "" where there is none
}

// slot is a place in the list of a convoy.
type slot struct {
	*shape
	members []statement // of one text
}

// join returns the statements of a convoy. describe returns the types of a text's arguments, as the server sees them.
func (j *joiner) join(group []*traveler, describe func(sql string) ([]uint32, error)) []statement {
	lists := make([][]statement, 0, len(group))
	for _, t := range group {
		lists = append(lists, t.list)
	}
	return join(lists, func(one statement) *shape { return j.shapeOf(one, describe) }, (*slot).write)
}

// join returns the statements of several transactions as one list. A statement goes where the first of its text goes, unless
// its own transaction has done something before that it must not overtake: something with the same table. Those that change
// the same row, by whatever text, stay in their order. write appends the statements of a slot, as few as there can be.
func join(lists [][]statement, shapeOf func(statement) *shape, write func(s *slot, list []statement) []statement) []statement {
	var slots []*slot
	byText := map[string][]int{} // the slots of a text
	last := map[string]int{}     // the slot of the last change of a row
	for _, list := range lists {
		var own []int // slots of what this transaction has done before
		for _, one := range list {
			s := shapeOf(one)
			first := 0 // slot that it may go to
			for _, at := range own {
				if !s.commutes(slots[at].shape) {
					first = max(first, at)
				}
			}
			row, at := s.rowOf(one.args), len(slots)
			if before, ok := last[row]; ok {
				first = max(first, before+1)
			}
			for _, other := range slices.Backward(byText[one.sql]) {
				if other < first || s.text == "" {
					break
				}
				at = other
			}
			if at == len(slots) {
				slots = append(slots, &slot{shape: s})
				byText[one.sql] = append(byText[one.sql], at)
			}
			slots[at].members = append(slots[at].members, one)
			if s.keys != nil {
				last[row] = at
			}
			own = append(own, at)
		}
	}
	list := make([]statement, 0, 2*len(slots))
	for _, s := range slots {
		list = write(s, list)
	}
	return list
}

// commutes reports whether two statements of a transaction may change places.
func (s *shape) commutes(o *shape) bool {
	return s.table != "" && o.table != "" && !s.words[o.table] && !o.words[s.table]
}

// rowOf names the row that an UPDATE with these arguments changes; "" when that cannot be told.
func (s *shape) rowOf(args []any) string {
	if s.keys == nil {
		return ""
	}
	b := append(make([]byte, 0, 128), s.table...)
	b = append(b, 0)
	for _, k := range s.keys {
		switch v := args[k].(type) {
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case string:
			b = append(b, v...)
		default:
			b = fmt.Append(b, v)
		}
		b = append(b, 0)
	}
	return string(b)
}

// write appends the statements of a slot for PostgreSQL.
func (s *slot) write(list []statement) []statement {
	if s.text == "" {
		return append(list, s.members...)
	}
	for some := range slices.Chunk(s.members, joinedMax) {
		if len(some) == 1 {
			list = append(list, some[0])
			continue
		}
		one := statement{sql: s.text, args: columnsOf(len(some), s.args, func(i int) []any { return some[i].args })}
		if s.keys != nil {
			one.otherwise, one.rows = errJoined, int64(len(some))
		}
		list = append(list, one)
	}
	return list
}

// columnsOf returns the arguments of several rows as one list an argument.
func columnsOf(rows, args int, row func(i int) []any) []any {
	columns := make([]any, args)
	for k := range columns {
		column := make(pgtype.FlatArray[any], rows)
		for i := range column {
			column[i] = row(i)[k]
		}
		columns[k] = column
	}
	return columns
}

func (j *joiner) shapeOf(one statement, describe func(sql string) ([]uint32, error)) *shape {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.known == nil {
		j.known = map[string]*shape{}
	}
	s, ok := j.known[one.sql]
	if !ok {
		var err error
		if s, err = newShape(one.sql, describe); err == nil {
			j.known[one.sql] = s
		}
	}
	return s.of(one)
}

// of returns the shape of a statement whose text has the shape s. A row that must be changed is none that is inserted, and
// arguments that are too many would be those of the next row.
func (s *shape) of(one statement) *shape {
	if s.text != "" && (one.otherwise != nil && s.keys == nil || len(one.args) != s.args) {
		return &shape{table: s.table, words: s.words}
	}
	return s
}

var (
	changed     = regexp.MustCompile(`^(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)`)
	word        = regexp.MustCompile(`\w+`)
	plainInsert = regexp.MustCompile(`(?s)^(INSERT INTO [^()]+\([^()]+\)\s+)VALUES\s+\(([^()]+)\)$`)
	// One row by the whole key of its table, which the rules of SQL at the root see to, and nothing but what it is told.
	plainUpdate = regexp.MustCompile(`(?s)^(UPDATE \w+ SET .+)\s(WHERE (account_id = \$\d+ AND ` +
		`(?:id = \$\d+|event_id = \$\d+ AND endpoint_id = \$\d+|currency = \$\d+ AND book = \$\d+))\b.*)$`)
	more        = regexp.MustCompile(`(?s)\b(SELECT|RETURNING|FROM|OR)\b|WHERE.+WHERE`)
	placeholder = regexp.MustCompile(`\$\d+`)
)

// newShape looks at a text. What it returns beside an error is right for one use, after which to look again is worth it.
func newShape(text string, describe func(sql string) ([]uint32, error)) (*shape, error) {
	s := tableOf(text)
	if s.table == "" {
		return s, nil
	}
	values := plainInsert.FindStringSubmatch(text)
	parts := plainUpdate.FindStringSubmatch(text)
	if values == nil && (parts == nil || more.MatchString(text)) {
		return s, nil
	}
	types, err := describe(text)
	if err != nil {
		return s, err
	}
	lists, columns := listsOf(types)
	if lists == "" {
		return s, nil
	}
	from := " FROM " + lists + " v (" + columns + ")"
	s.args = len(types)
	if values != nil {
		s.text = values[1] + "SELECT " + placeholder.ReplaceAllStringFunc(values[2], listed) + from
		return s, nil
	}
	s.text = placeholder.ReplaceAllStringFunc(parts[1], listed) + from + " " + placeholder.ReplaceAllStringFunc(parts[2], listed)
	for _, p := range placeholder.FindAllString(parts[3], -1) {
		s.keys = append(s.keys, number(p)-1)
	}
	return s, nil
}

// tableOf tells which table a text changes and which it may mean.
func tableOf(text string) *shape {
	s := &shape{}
	if found := changed.FindStringSubmatch(text); found != nil {
		s.table, s.words = found[1], map[string]bool{}
		for _, w := range word.FindAllString(text, -1) {
			s.words[w] = true
		}
	}
	return s
}

// listsOf returns what makes a table of one list an argument, and the names of its columns; "" when a type is unknown.
func listsOf(types []uint32) (lists, columns string) {
	var arrays, names []string
	for i, oid := range types {
		t, ok := typeMap.TypeForOID(oid)
		if !ok {
			return "", ""
		}
		n := strconv.Itoa(i + 1)
		arrays, names = append(arrays, "$"+n+"::"+t.Name+"[]"), append(names, "p"+n)
	}
	if arrays == nil {
		return "", ""
	}
	return "unnest(" + strings.Join(arrays, ", ") + ")", strings.Join(names, ", ")
}

// listed returns the column of the list that has what a placeholder stands for.
func listed(placeholder string) string { return "v.p" + placeholder[1:] }

// describe returns the types of a text's arguments, as the server sees them.
func describe(ctx context.Context, conn *pgx.Conn, sql string) ([]uint32, error) {
	found, err := conn.PgConn().Prepare(ctx, "", sql, nil)
	if err != nil {
		return nil, err
	}
	return found.ParamOIDs, nil
}

var typeMap = pgtype.NewMap()

func number(placeholder string) int {
	n, _ := strconv.Atoi(placeholder[1:]) // digits
	return n
}
