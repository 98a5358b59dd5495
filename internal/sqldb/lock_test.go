package sqldb_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

func lock(t *testing.T, db *sqldb.DB, keys ...int64) *sqldb.Lock {
	t.Helper()
	l, err := db.TryLock(t.Context(), keys...)
	if err != nil {
		t.Fatalf("keys %d: %v", keys, err)
	}
	return l
}

func isLocked(t *testing.T, db *sqldb.DB, keys ...int64) {
	t.Helper()
	if _, err := db.TryLock(t.Context(), keys...); !errors.Is(err, sqldb.ErrLocked) {
		t.Errorf("keys %d: got %v, want ErrLocked", keys, err)
	}
}

func TestTryLock(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for range 10 {
			var wait sync.WaitGroup
			won := make(chan *sqldb.Lock, 16)
			for range cap(won) {
				wait.Go(func() {
					switch l, err := db.TryLock(t.Context(), 7, 8); {
					case err == nil:
						won <- l
					case !errors.Is(err, sqldb.ErrLocked):
						t.Error(err)
					}
				})
			}
			wait.Wait()
			if len(won) != 1 {
				t.Fatalf("%d won, want 1", len(won))
			}
			(<-won).Unlock(t.Context())
		}

		// All or none; a key twice is a key.
		two := lock(t, db, 2, 2)
		isLocked(t, db, 1, 2)
		isLocked(t, db, 2, 3)
		one := lock(t, db, 1)
		three := lock(t, db, 3)
		two.Unlock(t.Context())
		two.Unlock(t.Context())
		again := lock(t, db, 2)
		two.Unlock(t.Context()) // no longer its own
		isLocked(t, db, 2)
		for _, l := range []*sqldb.Lock{one, three, again} {
			l.Unlock(t.Context())
		}
		lock(t, db, 1, 2, 3).Unlock(t.Context())
	})
}

// Two processes on one PostgreSQL exclude each other, and what one loses the other can take.
func TestLockAcrossProcesses(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	a, b := sqltest.Open(t, url), sqltest.Open(t, url)
	direct := connect(t, url)

	held := lock(t, a, 1, 2)
	isLocked(t, b, 1)
	isLocked(t, b, 3, 2) // and 3 is given back
	lock(t, a, 3).Unlock(t.Context())
	held.Unlock(t.Context())
	lock(t, b, 1, 2).Unlock(t.Context())

	// The holder's session dies.
	held = lock(t, a, 1)
	if _, err := direct.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); err != nil {
		t.Fatal(err)
	}
	var taken *sqldb.Lock
	sqltest.Wait(t, "the lock of a dead session", func() (ok bool) {
		l, err := b.TryLock(t.Context(), 1)
		taken = l
		return err == nil
	})
	isLocked(t, a, 1)                 // it does not know yet that it lost it
	lock(t, a, 9).Unlock(t.Context()) // by a new session
	held.Unlock(t.Context())
	isLocked(t, a, 1) // by b
	isLocked(t, b, 1)
	taken.Unlock(t.Context())

	// The holder's process ends in good order.
	lock(t, a, 1)
	a.Close()
	sqltest.Wait(t, "the lock of a closed session", func() bool {
		_, err := b.TryLock(t.Context(), 1)
		return err == nil
	})
	if _, err := a.TryLock(t.Context(), 5); !errors.Is(err, sqldb.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

func tend(t *testing.T, db *sqldb.DB) {
	t.Helper()
	if err := db.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTendFreesStaleLocks(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, url)
		now := time.Now()
		db.SetLockTime(func() time.Time { return now })
		old := lock(t, db, 1, 2)
		now = now.Add(sqldb.LockTimeMax)
		young := lock(t, db, 3)
		tend(t, db)
		isLocked(t, db, 1)
		now = now.Add(time.Microsecond)
		tend(t, db)
		isLocked(t, db, 3)
		other := db
		if db.IsPostgres() {
			other = sqltest.Open(t, url)
		}
		next := lock(t, other, 1, 2)
		old.Unlock(t.Context()) // at last
		isLocked(t, db, 1)
		isLocked(t, other, 2)
		next.Unlock(t.Context())
		young.Unlock(t.Context())
	})
}

// Calls that come while a round trip is under way share the next one.
func TestLocksShareRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	lock(t, w.db, 1).Unlock(t.Context()) // prepares both statements
	const calls = 64
	before := w.Sent()
	release := w.Hold()
	var wait sync.WaitGroup
	for k := range int64(calls) {
		wait.Go(func() {
			if _, err := w.db.TryLock(t.Context(), k); err != nil {
				t.Error(err)
			}
		})
	}
	sqltest.Wait(t, "the others to be in line", func() bool { return w.db.LocksInLine() == calls-1 })
	release()
	wait.Wait()
	if n := w.Sent() - before; n != 2 {
		t.Errorf("%d locks took %d round trips, want 2", calls, n)
	}
}

// A lock session whose network is silent tells all who wait, and is replaced.
func TestLockSilent(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	lock(t, w.db, 1000)
	w.db.SetLockTimeMax(time.Second)
	before := w.Sent()
	release := w.Hold()
	const calls = 300 // more than fit into one round trip
	told := make(chan error, calls)
	for k := range int64(calls) {
		go func() {
			_, err := w.db.TryLock(t.Context(), k)
			told <- err
		}()
	}
	sqltest.Wait(t, "the others to be in line", func() bool { return w.db.LocksInLine() == calls-1 })
	for range calls {
		if err := <-told; !errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
	if n := w.Sent() - before; n != 1 {
		t.Errorf("there were %d round trips: who was in line waited for another", n)
	}
	w.db.SetLockTimeMax(5 * time.Second)
	release()
	lock(t, w.db, 1).Unlock(t.Context())
	isLocked(t, w.db, 1000) // here it is held until its holder gives it back
}

func TestClaim(t *testing.T) {
	t.Parallel()
	url := sqltest.SQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	db := sqltest.Open(t, url)
	release, err := db.Claim()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{url, "sqlite:" + link} {
		if _, err := sqltest.Open(t, other).Claim(); !errors.Is(err, sqldb.ErrInUse) {
			t.Errorf("a second claim of %s: %v", other, err)
		}
	}
	if out, err := sqldb.Child("claim", path).Output(); string(out) != "in use\n" || err != nil {
		t.Errorf("another process: %q, %v", out, err)
	}
	release()

	child := sqldb.Child("claim", path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() // ends the child
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "claimed\n" {
		t.Fatalf("after the release another process says %q, %v", line, err)
	}
	if _, err := db.Claim(); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("while another process has it: %v", err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if _, err := db.Claim(); err != nil {
		t.Errorf("after the other process was killed: %v", err)
	}
}

// On PostgreSQL servers are equal.
func TestClaimPostgres(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	for range 2 {
		if _, err := sqltest.Open(t, url).Claim(); err != nil {
			t.Error(err)
		}
	}
}
