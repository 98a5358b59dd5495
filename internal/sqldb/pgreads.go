package sqldb

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgreSQL finds a row by its key in a fraction of what the round trip around it costs: to wake a process on either side, to
// bind and to answer. So reads of one row that are ready at the same time travel together, and those of one text are one
// statement, as questions with locks are. All other reads go alone: they would hold up the small ones.
//
// A trip takes along only who asked before it left, so that each sees what was committed before it asked. Whoever a trip
// brings no answer goes alone, for whatever reason that is, so that nobody is told another's failure.
const (
	lookupsMax     = 64                     // reads that travel together
	lookupLeadsMax = 2                      // trips under way, so that one that is slow does not hold up everybody
	lookupTripMax  = time.Second            // of a trip, which takes about a thousandth of that
	lookupWaitMax  = 100 * time.Millisecond // for a connection, before everybody goes alone
)

// byKey is a read of one row of one table, by what callers know it by.
var byKey = regexp.MustCompile(`(?s)^SELECT (.+) FROM \w+ WHERE account_id = \$1 AND (?:id|txid|external_id) = \$2$`)

// lookups reads rows for several at once.
type lookups struct {
	pool    *pgxpool.Pool // has a connection for each leader, which finds rows by their keys
	timeMax time.Duration // of a trip
	rides   rides[*question]
	small   sync.Map // by text, whether it is a read of one row

	mu    sync.Mutex
	texts questionTexts
}

func newLookups(pool *pgxpool.Pool) *lookups {
	return &lookups{
		pool:    pool,
		timeMax: lookupTripMax,
		rides:   rides[*question]{leadsMax: lookupLeadsMax, seats: lookupsMax},
		texts:   questionTexts{form: whatFound},
	}
}

// takes reports whether reads of this text travel together.
func (l *lookups) takes(sql string) bool {
	is, known := l.small.Load(sql)
	if !known {
		found := byKey.FindStringSubmatch(sql)
		is = found != nil && !more.MatchString(found[1])
		l.small.Store(sql, is)
	}
	return is == true
}

// ask lets a question take part in a trip.
func (l *lookups) ask(ctx context.Context, q *question) error {
	err := ctx.Err()
	if err == nil {
		err = l.rides.ride(ctx, q, l.travel)
	}
	if errors.Is(err, errNoTurn) {
		err = ctx.Err()
	}
	return pgError(err)
}

// travel asks for all who wait. A driver whose caller has gone drives on, because the others are still there.
func (l *lookups) travel(ctx context.Context, _ *question, board func() []*question) {
	limit := time.Now().Add(l.timeMax)
	if own, has := ctx.Deadline(); has && own.Before(limit) {
		limit = own
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	acquiring, stop := context.WithTimeout(ctx, lookupWaitMax)
	defer stop()
	conn, err := l.pool.Acquire(acquiring)
	if err != nil {
		board() // so that nobody waits in turn for what there is not
		return
	}
	defer conn.Release()
	if all := board(); len(all) == 1 {
		lookUpOne(ctx, conn.Conn(), all[0])
	} else {
		l.lookUpAll(ctx, conn.Conn(), all)
	}
}

// lookUpOne asks a question that has found no company.
func lookUpOne(ctx context.Context, conn *pgx.Conn, q *question) {
	rows, _ := conn.Query(ctx, q.sql, q.args...) // they tell its error too
	defer rows.Close()
	for rows.Next() {
		q.keep(rows.FieldDescriptions(), rows.RawValues())
	}
	q.answered = rows.Err() == nil
}

// lookUpAll asks many questions, until one of them fails.
func (l *lookups) lookUpAll(ctx context.Context, conn *pgx.Conn, all []*question) {
	var batch pgx.Batch
	groups := l.queue(ctx, conn, &batch, all)
	results := conn.SendBatch(ctx, &batch)
	defer results.Close()
	for _, group := range groups {
		if bring(results, conn.TypeMap(), group) != nil {
			return
		}
	}
}

func (l *lookups) queue(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch, all []*question) [][]*question {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.texts.queue(ctx, conn, batch, all)
}

// bring reads the answer to a statement, which is rows with the number of their question in front, for those who asked.
func bring(results pgx.BatchResults, types *pgtype.Map, group []*question) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		fields, values := rows.FieldDescriptions(), rows.RawValues()
		var number int64 // from 1
		if err := types.Scan(fields[0].DataTypeOID, fields[0].Format, values[0], &number); err != nil {
			return err
		}
		group[number-1].keep(fields[1:], values[1:])
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, q := range group {
		q.answered = true
	}
	return nil
}

// keep copies a row, because the next one comes to the same place.
func (q *question) keep(fields []pgconn.FieldDescription, values [][]byte) {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	row := rawRow{fields: slices.Clone(fields), values: make([][]byte, len(values))}
	room := make([]byte, 0, size)
	for i, v := range values {
		if v != nil { // otherwise it is NULL
			room = append(room, v...)
			row.values[i] = room[len(room)-len(v):]
		}
	}
	q.rows = append(q.rows, row)
}

// rawRow is a row as it came. It is scanned by who asked for it, because a scan can take long, fail and panic.
type rawRow struct {
	fields []pgconn.FieldDescription
	values [][]byte
}

// scanning is a row with what knows its types, which is for one goroutine at a time.
type scanning struct {
	rawRow
	types *pgtype.Map
}

func (s *scanning) Scan(dest ...any) error {
	return pgx.ScanRow(s.types, s.fields, s.values, dest...)
}

var scanners = sync.Pool{New: func() any { return &scanning{types: pgtype.NewMap()} }}

// hand gives out the rows.
func (q *question) hand(each func(Row) error) error {
	s, _ := scanners.Get().(*scanning)
	defer scanners.Put(s)
	for _, s.rawRow = range q.rows {
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}
