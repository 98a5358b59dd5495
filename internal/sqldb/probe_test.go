package sqldb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// tester is a probe that lets things fail once.
type tester struct {
	begin, commit, end error // told once
	replace            func(sqldb.Statement) []sqldb.Statement
	locked             map[int64]bool
	begun              int
}

func once(err *error) error {
	told := *err
	*err = nil
	return told
}

func (p *tester) Begin(write bool) error {
	if write {
		p.begun++
	}
	return once(&p.begin)
}

func (p *tester) Statement(s sqldb.Statement) []sqldb.Statement {
	if p.replace != nil {
		return p.replace(s)
	}
	return []sqldb.Statement{s}
}

func (p *tester) Query(s sqldb.Statement) sqldb.Statement {
	if p.replace != nil {
		return p.replace(s)[0]
	}
	return s
}

func (p *tester) Commit() error { return once(&p.commit) }

func (p *tester) End(err error) error {
	if err == nil {
		return once(&p.end)
	}
	return err
}

func (p *tester) Lock(keys []int64) error {
	for _, k := range keys {
		if p.locked[k] {
			return sqldb.ErrLocked
		}
	}
	return nil
}

func (p *tester) Unlock([]int64) {}

func (p *tester) Now() time.Time { return time.Unix(1_767_614_400, 0) }

// TestProbe lets one write fail in every way that a simulation knows, and looks at what is told and what is stored.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		probe  tester
		alone  bool // nobody else may use the database
		told   error
		runs   int
		stored bool
	}{
		"nothing":                     {runs: 1, stored: true},
		"away":                        {probe: tester{begin: sqldb.ErrProbeDisk}, told: sqldb.ErrUnavailable, runs: 1},
		"serialization failure":       {probe: tester{commit: sqldb.ErrProbeSerialization}, runs: 2, stored: true},
		"lost before COMMIT":          {probe: tester{commit: sqldb.ErrProbeConnection}, runs: 2, stored: true},
		"lost at COMMIT, not done":    {probe: tester{commit: sqldb.ErrProbeCommit}, runs: 2, stored: true},
		"lost after COMMIT":           {probe: tester{end: sqldb.ErrProbeCommit}, told: sqldb.ErrConflict, runs: 2, stored: true},
		"alone, lost after COMMIT":    {probe: tester{end: sqldb.ErrProbeCommit}, alone: true, told: sqldb.ErrCommitUnknown, runs: 1, stored: true},
		"alone, disk full before it":  {probe: tester{commit: sqldb.ErrProbeCommit}, alone: true, told: sqldb.ErrCommitUnknown, runs: 1},
		"statement that is left away": {probe: tester{replace: func(sqldb.Statement) []sqldb.Statement { return nil }}, runs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
				p := c.probe
				err := db.Probed(&p, !c.alone).Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					tx.Queue(ctx, `INSERT INTO clock (name, offset_us) VALUES ('test', $1)`, int64(1))
					return nil
				})
				if !errors.Is(err, c.told) || (err == nil) != (c.told == nil) || p.begun != c.runs {
					t.Errorf("told %v after %d runs, want %v after %d", err, p.begun, c.told, c.runs)
				}
				n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM clock`)
				if err != nil || (n == 1) != c.stored {
					t.Errorf("%d are stored, %v", n, err)
				}
			})
		})
	}
}

func TestProbeStandsBeforeLocksAndTheClock(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := &tester{locked: map[int64]bool{7: true}}
		probed := db.Probed(p, true)
		if _, err := probed.TryLock(t.Context(), 7); !errors.Is(err, sqldb.ErrLocked) {
			t.Errorf("told %v", err)
		}
		lock, err := probed.TryLock(t.Context(), 8)
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock(t.Context())
		if now, err := probed.Clock(t.Context()); err != nil || !now.Equal(p.Now()) {
			t.Errorf("it is %v, %v", now, err)
		}
		if !probed.IsShared() || db.Probed(p, false).IsShared() || probed.IsPostgres() != db.IsPostgres() {
			t.Error("what it is and who shares it are mixed up")
		}
	})
}
