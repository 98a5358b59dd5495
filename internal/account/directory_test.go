package account

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// node is one of several processes on one database.
type node struct {
	*Service
	*Directory
	db *sqldb.DB
}

func newNode(t *testing.T, url string, c *clock.Clock) node {
	t.Helper()
	db := sqltest.Open(t, url)
	return node{New(db, c, rand.Reader), NewDirectory(db, c), db}
}

// What one node changes counts on another as soon as its copy is a second old, and new keys count at once.
func TestChangesAcrossNodes(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, h := t.Context(), newHands()
		c := clock.New(h.now)
		one, two := newNode(t, url, c), newNode(t, url, c)
		a, key, err := one.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		before, err := two.Authenticate(ctx, key)
		if err != nil || before.Account != a {
			t.Fatalf("a new key: %+v, %v", before, err)
		}

		changed, err := one.Set(ctx, a.ID, []string{"api_cashin=off"})
		if err != nil {
			t.Fatal(err)
		}
		h.move(entryAgeMax - time.Microsecond)
		if p, err := two.Authenticate(ctx, key); err != nil || p != before {
			t.Errorf("a copy that is young was read again: %+v, %v", p, err)
		}
		h.move(time.Microsecond)
		if p, err := two.Authenticate(ctx, key); err != nil || p.Account != changed {
			t.Errorf("changed settings: %+v, %v", p, err)
		}
		if before.Account != a {
			t.Error("a principal that was handed out changed")
		}

		if err := one.RevokeKey(ctx, before.KeyPrefix); err != nil {
			t.Fatal(err)
		}
		h.move(entryAgeMax)
		if _, err := two.Authenticate(ctx, key); !errors.Is(err, ErrBadKey) {
			t.Errorf("a revoked key: %v", err)
		}

		// Somebody asked for the prefix before the key was made, and just now.
		secret := strings.Repeat("0f", secretChars/2)
		next := "bp_deadbeef_" + secret
		for _, wrong := range []string{"bp_deadbeef_" + strings.Repeat("1", secretChars), "bp_deadbeef_" + strings.Repeat("2", secretChars)} {
			if _, err := two.Authenticate(ctx, wrong); !errors.Is(err, ErrBadKey) {
				t.Errorf("a wrong key: %v", err)
			}
		}
		one.random = draws(t, "deadbeef", secret)
		if _, _, err := one.CreateKey(ctx, a.ID, ScopeBalanceRead); err != nil {
			t.Fatal(err)
		}
		if p, err := two.Authenticate(ctx, next); err != nil || p.Scopes != ScopeBalanceRead {
			t.Errorf("a new key: %+v, %v", p, err)
		}
	})
}

func TestAuthenticateRefuses(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		n := newNode(t, url, clock.New(newHands().now))
		_, key, err := n.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		wrongSecret := key[:len(key)-1] + string("0123456789abcdef0"[strings.IndexByte("0123456789abcdef", key[len(key)-1])+1])
		for _, bad := range []string{"", "bp_", key[1:], key + " ", strings.ToUpper(key), wrongSecret, someKey} {
			for range 2 { // from the database, then from memory
				if p, err := n.Authenticate(ctx, bad); p != nil || !errors.Is(err, ErrBadKey) {
					t.Errorf("%q gives %+v, %v", bad, p, err)
				}
			}
		}
		if _, err := n.Authenticate(ctx, key); err != nil {
			t.Errorf("the right key after wrong ones: %v", err)
		}
	})
}

// While the database is away, what is a second old is not believed, and nobody is told that his key is bad.
func TestAuthenticateWithoutDatabase(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, h := t.Context(), newHands()
		n := newNode(t, url, clock.New(h.now))
		_, key, err := n.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Authenticate(ctx, key); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Authenticate(ctx, someKey); !errors.Is(err, ErrBadKey) {
			t.Fatal(err)
		}
		n.db.Close()
		// One read a second answers everybody.
		if _, err := n.Authenticate(ctx, key); err != nil {
			t.Errorf("a known key: %v", err)
		}
		if _, err := n.Authenticate(ctx, someKey); !errors.Is(err, ErrBadKey) {
			t.Errorf("a missing key: %v", err)
		}
		h.move(entryAgeMax)
		for _, k := range []string{key, someKey} {
			if _, err := n.Authenticate(ctx, k); err == nil || errors.Is(err, ErrBadKey) {
				t.Errorf("without a database: %v", err)
			}
		}
		// Failures are not kept.
		n.Directory.db = sqltest.Open(t, url)
		if _, err := n.Authenticate(ctx, key); err != nil {
			t.Errorf("with a database again: %v", err)
		}
		if len(n.reads) != 0 {
			t.Errorf("%d reads are left over", len(n.reads))
		}
	})
}

// A clock that was set back leaves nothing that seems young for long, and keeping goes on.
func TestAuthenticateWhenClockIsSetBack(t *testing.T) {
	t.Parallel()
	ctx, h := t.Context(), newHands()
	n := newNode(t, sqltest.SQLite(t), clock.New(h.now))
	_, key, err := n.Create(ctx, Params{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := n.Authenticate(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	h.move(-time.Hour)
	second, err := n.Authenticate(ctx, key)
	if err != nil || second == first {
		t.Errorf("an answer from the future was believed: %v", err)
	}
	if third, err := n.Authenticate(ctx, key); err != nil || third != second {
		t.Errorf("the answer was not kept: %v", err)
	}
}

// Whoever asks while a read is under way waits for that one, and his giving up is his own.
func TestAuthenticateJoins(t *testing.T) {
	t.Parallel()
	ctx, h := t.Context(), newHands()
	c := clock.New(h.now)
	n := newNode(t, sqltest.SQLite(t), c)
	r := &keyRead{startedAt: c.Real(), done: make(chan struct{})}
	n.reads[somePrefix] = r

	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := n.Authenticate(gone, someKey); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	var wg sync.WaitGroup
	// This key is not in the database: only the read under way can give it.
	want := &entry{readAt: r.startedAt, hash: hashSecret(someSecret), principal: Principal{KeyPrefix: somePrefix}}
	for range 8 {
		wg.Go(func() {
			if p, err := n.Authenticate(ctx, someKey); err != nil || p != &want.principal {
				t.Errorf("joined: %+v, %v", p, err)
			}
		})
	}
	r.entry = want
	close(r.done)
	wg.Wait()

	// One that has been under way for a second is not joined: what it says may be old.
	n.reads[somePrefix] = &keyRead{startedAt: c.Real(), done: make(chan struct{})}
	h.move(entryAgeMax)
	ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := n.Authenticate(ctx, someKey); !errors.Is(err, ErrBadKey) {
		t.Errorf("beside a read that hangs: %v", err)
	}
}

// The caller who runs a read for others finishes it, also when he has gone.
func TestAuthenticateForOthers(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := newNode(t, url, clock.New(newHands().now))
		_, key, err := n.Create(t.Context(), Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.Authenticate(gone, key); err != nil {
			t.Errorf("the read was cancelled: %v", err)
		}
	})
}

func TestAuthenticateConcurrently(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, h := t.Context(), newHands()
		n := newNode(t, url, clock.New(h.now))
		var keys []string
		for i := range 4 {
			_, key, err := n.Create(ctx, Params{Name: strconv.Itoa(i)})
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 50 {
					if p, err := n.Authenticate(ctx, keys[(i+j)%len(keys)]); err != nil || p.Account.Name != strconv.Itoa((i+j)%len(keys)) {
						t.Errorf("%+v, %v", p, err)
					}
					if _, err := n.Authenticate(ctx, someKey); !errors.Is(err, ErrBadKey) {
						t.Error(err)
					}
					h.move(entryAgeMax / 10)
				}
			})
		}
		wg.Wait()
	})
}

// Ten thousand guesses neither fill the memory nor push out a key that works.
func TestAuthenticateGuesses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := newNode(t, sqltest.SQLite(t), clock.New(newHands().now))
	_, key, err := n.Create(ctx, Params{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	good, err := n.Authenticate(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	for range missingMax + 1000 {
		guess := newKey(rand.Reader, 0, 0, time.Time{})
		if _, err := n.Authenticate(ctx, guess.text); !errors.Is(err, ErrBadKey) {
			t.Fatal(err)
		}
	}
	if size := sizeOf(&n.missing); size > missingMax || size < missingMax/2 {
		t.Errorf("%d guesses are kept, want at most %d", size, missingMax)
	}
	if size := sizeOf(&n.known); size != 1 {
		t.Errorf("%d keys are kept, want 1", size)
	}
	n.db.Close() // so that only memory can answer
	if p, err := n.Authenticate(ctx, key); err != nil || p != good {
		t.Errorf("the key that works: %+v, %v", p, err)
	}
}

func TestAuthenticateAllocates(t *testing.T) { // not parallel: others would be counted too
	d := benchDirectory()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := d.Authenticate(t.Context(), someKey); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a key that is known", n)
	}
}

// benchDirectory knows thousands of keys, someKey among them, and never has to ask.
func benchDirectory() *Directory {
	d := NewDirectory(nil, clock.New(newHands().now))
	for i := range 5000 {
		prefix := hex.EncodeToString([]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
		d.known.put(prefix, &entry{readAt: d.clock.Real()}, d.clock.Real())
	}
	d.known.put(somePrefix, &entry{readAt: d.clock.Real(), hash: hashSecret(someSecret)}, d.clock.Real())
	return d
}

// BenchmarkAuthenticate measures a key that is known, against the one SHA-256 that it cannot do without.
func BenchmarkAuthenticate(b *testing.B) {
	d := benchDirectory()
	b.Run("sha256", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hashSecret(someSecret)
		}
	})
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		for b.Loop() {
			if _, err := d.Authenticate(ctx, someKey); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			ctx := b.Context()
			for pb.Next() {
				if _, err := d.Authenticate(ctx, someKey); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
