package sqldb

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A creation first looks whether it has happened before. The looks of requests that come at the same time share a round
// trip, and those of one text a statement: a question of its own costs PostgreSQL several times what it takes to answer it.
const (
	looksMax     = rowsMax // that share a round trip
	lookLeadsMax = 2       // round trips under way
)

// look is a question whether there is a row.
type look struct {
	sql   string
	args  []any
	told  bool // found is the answer; otherwise it asks alone
	found bool
}

// looks are the questions that share round trips.
type looks struct {
	pool  *pgxpool.Pool // has a connection for each leader
	rides rides[*look]

	mu    sync.Mutex
	known map[string][]string // by the text of one: those for 2, 4, 8...; nil where there is none
}

func newLooks(pool *pgxpool.Pool) *looks {
	return &looks{pool: pool, rides: rides[*look]{leadsMax: lookLeadsMax, seats: looksMax}, known: map[string][]string{}}
}

func (d *pgDriver) any(ctx context.Context, sql string, args []any) (bool, error) {
	me := &look{sql: sql, args: args}
	if err := d.looks.rides.ride(ctx, me, d.looks.together); err != nil {
		return false, err
	}
	if me.told {
		return me.found, nil
	}
	return anyRow(ctx, d, sql, args)
}

// anyRow asks by itself.
func anyRow(ctx context.Context, d driver, sql string, args []any) (found bool, err error) {
	err = d.query(ctx, sql, args, func(Row) error {
		found = true
		return nil
	})
	return found, err
}

// together answers as many as it can. The rest ask alone, so that nobody is told another's failure.
func (l *looks) together(ctx context.Context, _ *look, board func() []*look) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeMax) // it is not only its own
	defer cancel()
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	batch := &pgx.Batch{}
	var asked [][]*look // by the statements of batch
	for _, group := range byText(board()) {
		text := group[0].sql
		if len(group) > 1 {
			text = l.textFor(ctx, conn, group)
		}
		if text == "" {
			for _, one := range group {
				batch.Queue(one.sql, one.args...)
				asked = append(asked, []*look{one})
			}
			continue
		}
		batch.Queue(text, argsOf(group)...)
		asked = append(asked, group)
	}
	results := conn.Conn().SendBatch(ctx, batch)
	defer results.Close()
	for _, group := range asked {
		if tell(results, group) != nil {
			return
		}
	}
}

// byText returns looks with those of one text together.
func byText(all []*look) (groups [][]*look) {
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
func argsOf(group []*look) []any {
	args := make([]any, 0, sizeFor(len(group))*len(group[0].args))
	for i := range sizeFor(len(group)) {
		args = append(args, group[min(i, len(group)-1)].args...)
	}
	return args
}

// sizeFor returns the power of two that has room for so many.
func sizeFor(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// tell reads the answer to a statement and tells those who asked. One that asked alone is answered by any row, several by
// their numbers.
func tell(results pgx.BatchResults, group []*look) error {
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
		one.told = true
	}
	return nil
}

// textFor returns the statement that answers a group, or "" when each has to be asked by its own.
func (l *looks) textFor(ctx context.Context, conn *pgxpool.Conn, group []*look) string {
	sql := group[0].sql
	l.mu.Lock()
	texts, ok := l.known[sql]
	l.mu.Unlock()
	if !ok {
		types, err := describe(ctx, conn, sql)
		if err != nil {
			return ""
		}
		texts = severalLooks(sql, types)
		l.mu.Lock()
		l.known[sql] = texts
		l.mu.Unlock()
	}
	for i, size := 0, 2; i < len(texts); i, size = i+1, size*2 {
		if size >= len(group) {
			return texts[i]
		}
	}
	return ""
}

// severalLooks returns the texts that answer 2, 4, 8... looks, by their numbers from 0.
func severalLooks(sql string, types []uint32) (texts []string) {
	names, columns := typesOf(types)
	if names == nil {
		return nil
	}
	exists := ") v (n, " + strings.Join(columns, ", ") + ") WHERE EXISTS (" + placeholder.ReplaceAllStringFunc(sql, listed) + ")"
	for size := 2; size <= looksMax; size *= 2 {
		texts = append(texts, "SELECT v.n FROM (VALUES "+valuesOf(size, names, strconv.Itoa)+exists)
	}
	return texts
}
