package account

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// usedAt returns when a key was last used, as people see it.
func usedAt(t *testing.T, s *Service, k Key) time.Time {
	t.Helper()
	keys, err := s.ListKeys(t.Context(), k.Account)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range keys {
		if one.Prefix == k.Prefix {
			return one.UsedAt
		}
	}
	t.Fatalf("no key %s", k.Prefix)
	return time.Time{}
}

// A use is known within a minute, costs a node one write a minute however often it happens, and never goes back.
func TestLastUse(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, h := t.Context(), newHands()
		c := clock.New(h.now)
		one, two := newNode(t, url, c), newNode(t, url, c)
		a, _, err := one.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		k, text, err := one.CreateKeyOnce(ctx, a.ID, AllScopes, "form 1")
		if err != nil || k.Scopes != AllScopes {
			t.Fatal(k, err)
		}
		use := func(n node) time.Time {
			t.Helper()
			if _, err := n.Authenticate(ctx, text); err != nil {
				t.Fatal(err)
			}
			return c.Now().UTC()
		}
		step := func(n node) {
			t.Helper()
			if _, err := n.Step(ctx); err != nil {
				t.Fatal(err)
			}
		}
		want := func(at time.Time) {
			t.Helper()
			if got := usedAt(t, one.Service, k); !got.Equal(at) {
				t.Errorf("used at %v, want %v", got, at)
			}
		}
		if _, err := one.Authenticate(ctx, text[:len(text)-1]+"g"); !errors.Is(err, ErrBadKey) {
			t.Fatal(err)
		}
		step(one)
		want(time.Time{}) // a guess is no use
		first := use(one)
		h.move(usesEvery - time.Microsecond)
		step(one)
		want(time.Time{}) // a minute is not over
		h.move(time.Microsecond)
		step(one)
		want(first)
		late := use(two)
		h.move(2 * time.Second)
		later := use(one)
		h.move(usesEvery)
		step(one)
		want(later)
		step(two)
		want(later) // what another node knew earlier
		if late.After(later) {
			t.Fatal("the test is wrong")
		}
	})
}

// What could not be written is written later.
func TestLastUseIsKept(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, h := t.Context(), newHands()
		c := clock.New(h.now)
		s, d := New(db, c, rand.Reader), NewDirectory(db, c)
		a, text, err := s.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Authenticate(ctx, text); err != nil {
			t.Fatal(err)
		}
		at := c.Now()
		gone := sqltest.Open(t, sqltest.SQLite(t))
		gone.Close()
		d.db = gone
		if err := d.Flush(ctx); err == nil {
			t.Error("a database that is gone took it")
		}
		d.db = db
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if got := usedAt(t, s, Key{Account: a.ID, Prefix: text[3:11]}); !got.Equal(at) {
			t.Errorf("used at %v, want %v", got, at)
		}
	})
}

// A form makes one key, also when it is sent many times at once, and an account has so many and no more.
func TestCreateKeyOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, s := t.Context(), New(db, clock.New(nil), rand.Reader)
		a, _, err := s.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		other, otherKey, err := s.Create(ctx, Params{Name: "b"})
		if err != nil {
			t.Fatal(err)
		}
		var senders sync.WaitGroup
		made := make(chan Key, 8)
		for range 8 {
			senders.Go(func() {
				switch k, _, err := s.CreateKeyOnce(ctx, a.ID, AllScopes, "form"); {
				case err == nil:
					made <- k
				case !errors.Is(err, errKeyMade):
					t.Error(err)
				}
			})
		}
		senders.Wait()
		if len(made) != 1 {
			t.Fatalf("%d keys were made", len(made))
		}
		if _, _, err := s.CreateKeyOnce(ctx, other.ID, ScopeMEDRead, "form"); err != nil {
			t.Error("another account's form:", err)
		}
		k := <-made
		wantFault(t, s.RevokeKeyOf(ctx, other.ID, k.Prefix), fault.NotFound, "no such key")
		wantFault(t, s.RevokeKeyOf(ctx, a.ID, otherKey[3:11]), fault.NotFound, "no such key")
		for {
			if _, _, err = s.CreateKey(ctx, a.ID, AllScopes); err != nil {
				break
			}
		}
		if n := count(t, db, `SELECT COUNT(*) FROM api_key WHERE account_id = $1`, a.ID); !errors.Is(err, errKeysMany) || n != KeysMax {
			t.Errorf("%d keys, then %v", n, err)
		}
		if err := s.RevokeKeyOf(ctx, a.ID, k.Prefix); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.CreateKey(ctx, a.ID, AllScopes); err != nil {
			t.Error("there is room again:", err)
		}
	})
}

// A form makes one account, also when it is sent many times at once, and whoever is late is told which.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, s := t.Context(), New(db, clock.New(nil), rand.Reader)
		var senders sync.WaitGroup
		const many = 8
		made, again := make(chan Account, many), make(chan Account, many)
		for range many {
			senders.Go(func() {
				switch a, key, err := s.CreateOnce(ctx, Params{Name: "a"}, "form"); {
				case err == nil && key != "":
					made <- a
				case errors.Is(err, ErrMade) && key == "":
					again <- a
				default:
					t.Error(a, key != "", err)
				}
			})
		}
		senders.Wait()
		if len(made) != 1 || len(again) != many-1 {
			t.Fatalf("%d accounts were made", len(made))
		}
		first := <-made
		for range many - 1 {
			if a := <-again; a.ID != first.ID || a.Name != "a" {
				t.Errorf("told of %+v, not of %+v", a, first)
			}
		}
		// Another form makes another, also where its first number is taken by an account that another way made.
		taken := id.NewAccount(mathrand.NewChaCha8(sha256.Sum256([]byte("account other"))))
		s.random = io.MultiReader(bytes.NewReader(numberBytes(taken)), rand.Reader)
		if _, _, err := s.Create(ctx, Params{Name: "b"}); err != nil {
			t.Fatal(err)
		}
		s.random = rand.Reader
		if b, err := s.Get(ctx, taken); err != nil || b.Name != "b" {
			t.Fatal(b, err)
		}
		c, _, err := s.CreateOnce(ctx, Params{Name: "c"}, "other")
		if err != nil || c.ID == taken || c.ID == first.ID {
			t.Fatal(c, err)
		}
		if late, _, err := s.CreateOnce(ctx, Params{Name: "d"}, "other"); !errors.Is(err, ErrMade) || late.ID != c.ID || late.Name != "c" {
			t.Errorf("told of %+v, %v", late, err)
		}
		if n := count(t, db, `SELECT COUNT(*) FROM account`); n != 3 {
			t.Errorf("%d accounts", n)
		}
	})
}

// numberBytes is what a source of randomness has to give for an account's number.
func numberBytes(a id.Account) []byte {
	const shift = 24 // a number has 40 bits
	return binary.BigEndian.AppendUint64(nil, uint64(a)<<shift)
}
