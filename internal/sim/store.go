package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/sim/auditor"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// errDead is what a boot is told that has died. It means nothing to it: nothing can come of it any more.
var errDead = errors.New("sim: this boot is dead")

// Begin lets a boot use the database, or not. See [sqldb.Probe].
func (b *boot) Begin(write bool) error {
	if b.dead {
		return errDead
	}
	f := b.life.frameOf(b)
	if write {
		b.life.writes++
		b.statement, b.order, b.owed = "", nil, nil
		b.life.plant.begin(b)
		if f != nil {
			f.writes++
			b.life.at(b, fmt.Sprintf("before transaction %d", f.writes))
			f.away = f.away || b.fails(f, storeAway)
		}
	}
	switch {
	case b.dead:
		return errDead
	case f != nil && f.away, write && b.broken:
		return sqldb.ErrProbeDisk
	}
	return nil
}

// fails reports whether the present transaction fails in a way.
func (b *boot) fails(f *frame, kind string) bool {
	for _, one := range f.Store {
		if one.At == f.writes && one.Kind == kind {
			b.life.note("node %d, transaction %d: %s", b.node, f.writes, kind)
			return true
		}
	}
	return false
}

// Statement shows what a boot writes to the auditor.
func (b *boot) Statement(s sqldb.Statement) []sqldb.Statement {
	run := b.life.plant.statement(b, s)
	for _, one := range run {
		b.life.auditor.Touched(one.SQL)
		if b.statement == "" && !strings.HasPrefix(one.SQL, "SELECT") {
			b.statement = strings.Join(strings.Fields(one.SQL)[:3], " ")
		}
		b.watchOrder(one.SQL, one.Args)
	}
	b.watchEvents(s)
	return run
}

// Query lets what is only read go by, unless a mistake is planted in it.
func (b *boot) Query(s sqldb.Statement) sqldb.Statement { return b.life.plant.query(s) }

// watchEvents notes who must be told of an event: every endpoint of its account that the boot knows and that wants it.
func (b *boot) watchEvents(s sqldb.Statement) {
	if !strings.HasPrefix(s.SQL, "INSERT INTO event ") {
		return
	}
	for _, r := range b.knows {
		if int64(r.owner.id) == s.Args[0] && r.wants(fmt.Sprint(s.Args[2])) {
			b.owed = append(b.owed, auditor.Debt{Account: r.owner.id, Event: fmt.Sprint(s.Args[1]), URL: r.url})
		}
	}
}

// learn notes that the boot has just read which endpoints there are.
func (b *boot) learn() {
	b.knows = nil
	for _, host := range sortedKeys(b.life.receivers) {
		if r := b.life.receivers[host]; r.isSteady {
			b.knows = append(b.knows, r)
		}
	}
}

// watchOrder checks that a transaction locks balances in the one order that all have: two that did otherwise could wait for
// each other.
func (b *boot) watchOrder(sql string, args []any) {
	var at []any
	switch {
	case strings.HasPrefix(sql, "UPDATE balance SET amount = amount -"):
		at = args[2:5]
	case strings.HasPrefix(sql, "SELECT amount, last_id FROM balance"):
		at = args[:3]
	default:
		return
	}
	name := fmt.Sprintf("%020d %s %s", at[0], at[1], at[2])
	if n := len(b.order); n > 0 && b.order[n-1] > name {
		b.life.auditor.Fails(fmt.Sprintf("a transaction locks balance %s after %s", name, b.order[n-1]))
	}
	b.order = append(b.order, name)
}

// Commit lets a transaction fail before COMMIT, or at it.
func (b *boot) Commit() error {
	f := b.life.frameOf(b)
	switch {
	case b.dead:
		return errDead
	case f == nil:
		return nil
	case b.fails(f, storeSerialization), b.fails(f, storeDeadlock):
		return sqldb.ErrProbeSerialization
	case b.fails(f, storeLostBefore):
		return sqldb.ErrProbeConnection
	case b.fails(f, storeLostUndone):
		return sqldb.ErrProbeCommit
	case b.fails(f, storeDiskFull):
		b.broken = true // only reopening the file can tell
		return sqldb.ErrProbeCommit
	}
	return nil
}

// End lets the answer to COMMIT be lost, and the boot die after it.
func (b *boot) End(err error) error {
	if b.dead {
		return errDead
	}
	if err != nil {
		return b.life.plant.end(b, err)
	}
	for _, d := range b.owed {
		b.life.auditor.Owes(d)
	}
	f := b.life.frameOf(b)
	if f != nil {
		b.life.at(b, fmt.Sprintf("after COMMIT %d (%s)", f.writes, b.statement))
	}
	if b.dead {
		return errDead
	}
	b.life.plant.committed(b)
	if f != nil && b.fails(f, storeLostAfter) {
		return sqldb.ErrProbeCommit
	}
	return nil
}

// Lock takes keys against other nodes.
func (b *boot) Lock(keys []int64) error {
	if b.dead {
		return errDead
	}
	for _, key := range keys {
		if holder := b.life.locks[key]; holder != nil && holder != b {
			return sqldb.ErrLocked
		}
	}
	for _, key := range keys {
		b.life.locks[key] = b
	}
	return nil
}

// Unlock frees keys.
func (b *boot) Unlock(keys []int64) {
	for _, key := range keys {
		if b.life.locks[key] == b {
			delete(b.life.locks, key)
		}
	}
}

// Now is the database's clock.
func (b *boot) Now() time.Time { return b.life.real }
