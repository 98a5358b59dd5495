package sqldb

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rowTexts knows the statements that insert several rows at once, and makes them from those that insert one.
type rowTexts struct {
	mu    sync.Mutex
	known map[string][]string // by the text for one row: those for 2, 4, 8... rows; nil where there is none
}

const rowsMax = 16 // by one statement

var plainInsert = regexp.MustCompile(`(?s)^INSERT INTO [^()]+\([^()]+\)\s+VALUES\s+(\([^()]+\))$`)

// join returns the statements of a convoy. Rows that several of its transactions insert into one table with one text go
// there together, where the first of them goes.
//
// A row is moved forward only over other rows that its transaction inserts before it: over an UPDATE it might be changed by
// what it was to come after.
func (r *rowTexts) join(group []*traveler) []statement {
	if len(group) == 1 {
		return slices.Clone(group[0].list) // it may still have to go alone
	}
	type place struct {
		at   int // in list
		rows [][]any
	}
	var list []statement
	places := map[string]*place{}
	for _, t := range group {
		leading := true
		for _, one := range t.list {
			leading = leading && one.otherwise == nil && r.of(one.sql) != nil
			switch p := places[one.sql]; {
			case leading && p != nil:
				p.rows = append(p.rows, one.args)
				continue
			case leading:
				places[one.sql] = &place{at: len(list), rows: [][]any{one.args}}
			}
			list = append(list, one)
		}
	}
	joined := make([]statement, 0, len(list))
	for i, one := range list {
		if p := places[one.sql]; p != nil && p.at == i {
			joined = r.insert(joined, one.sql, p.rows)
		} else {
			joined = append(joined, one)
		}
	}
	return joined
}

// insert appends the statements that insert rows: as few as there are texts for.
func (r *rowTexts) insert(list []statement, text string, rows [][]any) []statement {
	texts := r.of(text)
	for i, size := len(texts)-1, rowsMax; i >= 0; i, size = i-1, size/2 {
		for len(rows) >= size {
			list = append(list, statement{sql: texts[i], args: slices.Concat(rows[:size]...)})
			rows = rows[size:]
		}
	}
	for _, row := range rows {
		list = append(list, statement{sql: text, args: row})
	}
	return list
}

// of returns the texts for 2, 4, 8... rows, or nil unless text inserts one row of values and does nothing else.
func (r *rowTexts) of(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string][]string{}
	}
	texts, ok := r.known[text]
	if !ok {
		texts = severalRows(text)
		r.known[text] = texts
	}
	return texts
}

var placeholder = regexp.MustCompile(`\$\d+`)

func severalRows(text string) (texts []string) {
	values := plainInsert.FindStringSubmatchIndex(text)
	if values == nil {
		return nil
	}
	row, numbers := text[values[2]:values[3]], map[string]bool{}
	for _, p := range placeholder.FindAllString(row, -1) {
		numbers[p] = true
	}
	for size := 2; size <= rowsMax; size *= 2 {
		rows := make([]string, size)
		for i := range rows {
			rows[i] = placeholder.ReplaceAllStringFunc(row, func(p string) string {
				n, _ := strconv.Atoi(p[1:]) // digits
				return "$" + strconv.Itoa(n+i*len(numbers))
			})
		}
		texts = append(texts, text[:values[2]]+strings.Join(rows, ", "))
	}
	return texts
}
