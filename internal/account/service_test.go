package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// hands are the hands of a clock that only a test moves.
type hands struct{ micro atomic.Int64 }

func newHands() *hands {
	h := new(hands)
	h.micro.Store(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC).UnixMicro())
	return h
}

func (h *hands) now() time.Time       { return time.UnixMicro(h.micro.Load()) }
func (h *hands) move(d time.Duration) { h.micro.Add(d.Microseconds()) }

func TestCreate(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, c := t.Context(), clock.New(newHands().now)
		s := New(db, c, rand.Reader)
		a, key, err := s.Create(ctx, Params{Name: " Loja da Ana ", Document: "123.456.789-09"})
		if err != nil {
			t.Fatal(err)
		}
		want := Account{ID: a.ID, Name: "Loja da Ana", Document: "123.456.789-09", CreatedAt: c.Now(), Settings: Defaults()}
		if a != want || a.ID == 0 {
			t.Errorf("created %+v, want %+v", a, want)
		}
		if got, err := s.Get(ctx, a.ID); err != nil || got != a {
			t.Errorf("Get: %+v, %v, want %+v", got, err, a)
		}
		p, err := NewDirectory(db, c).Authenticate(ctx, key)
		if err != nil || p.Scopes != AllScopes || p.Account != a || p.KeyPrefix != key[3:11] {
			t.Errorf("the first key gives %+v, %v", p, err)
		}
		if n := count(t, db, `SELECT COUNT(*) FROM balance WHERE account_id = $1`, a.ID); n == 0 {
			t.Error("the account has no books")
		}
		if n := count(t, db, `SELECT COUNT(*) FROM api_key WHERE account_id = $1 AND revoked_at IS NULL`, a.ID); n != 1 {
			t.Errorf("the account has %d keys", n)
		}
		if _, _, err := s.Create(ctx, Params{}); err == nil {
			t.Error("an account without a name was created")
		}
		if _, err := s.Get(ctx, a.ID^1); true {
			wantFault(t, err, fault.NotFound, "no account "+(a.ID^1).String())
		}
	})
}

// A number or prefix that is taken is drawn again, and the loser leaves nothing behind.
func TestCreateDrawsAgain(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, c := t.Context(), clock.New(nil)
		account := func(n byte) string { return strings.Repeat("00", 4) + hex.EncodeToString([]byte{n, 0, 0, 0}) }
		key := func(n byte) string { return strings.Repeat(hex.EncodeToString([]byte{n}), 28) }
		random := draws(t, account(1), key(1),
			account(1), key(2), // number taken
			account(2), key(1), // prefix taken
			key(3))
		s := New(db, c, random)
		s.ids = id.NewGenerator(c.Now, rand.Reader) // the log draws apart
		first, _, err := s.Create(ctx, Params{Name: "first"})
		if err != nil {
			t.Fatal(err)
		}
		second, secret, err := s.Create(ctx, Params{Name: "second"})
		if err != nil || second.ID == first.ID || !strings.HasPrefix(secret, "bp_03030303_") {
			t.Fatalf("second: %+v, %s, %v", second, secret, err)
		}
		list, err := s.List(ctx, 0, 0)
		if err != nil || len(list) != 2 || !slices.Contains(list, first) || !slices.Contains(list, second) {
			t.Errorf("stored %+v, %v", list, err)
		}
		if n := count(t, db, `SELECT COUNT(*) FROM api_key`); n != 2 {
			t.Errorf("%d keys, want 2", n)
		}
		// The same for a further key; and nobody draws for ever.
		s.random = draws(t, key(1), key(4))
		if k, _, err := s.CreateKey(ctx, second.ID, ScopeMEDRead); err != nil || k.Prefix != "04040404" {
			t.Errorf("CreateKey: %+v, %v", k, err)
		}
		s.random = draws(t, strings.Repeat(key(1), drawsMax))
		if _, _, err := s.CreateKey(ctx, second.ID, ScopeMEDRead); !errors.Is(err, errTaken) {
			t.Errorf("CreateKey: %v, want %v", err, errTaken)
		}
	})
}

// draws is randomness that says what it is told to.
func draws(t *testing.T, digits ...string) io.Reader {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(digits, ""))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

// A function whose COMMIT lost its answer runs again: it must find its own work and nobody else's.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, now := t.Context(), time.UnixMicro(1e15).UTC()
		a := Account{ID: 5, Name: "a", CreatedAt: now, Settings: Defaults()}
		k := newKey(rand.Reader, a.ID, AllScopes, now)
		run := func(f func(context.Context, *sqldb.Tx) error) error { return db.Write(ctx, f) }
		for range 2 {
			if err := run(func(ctx context.Context, tx *sqldb.Tx) error { return create(ctx, tx, a, k) }); err != nil {
				t.Fatal(err)
			}
		}
		books := count(t, db, `SELECT COUNT(*) FROM balance`)

		other := newKey(rand.Reader, a.ID, AllScopes, now)
		err := run(func(ctx context.Context, tx *sqldb.Tx) error { return create(ctx, tx, a, other) })
		if !errors.Is(err, errTaken) {
			t.Errorf("the same number with another key: %v", err)
		}
		b := a
		b.ID = 6
		err = run(func(ctx context.Context, tx *sqldb.Tx) error { return create(ctx, tx, b, k) })
		if !errors.Is(err, errTaken) {
			t.Errorf("another number with the same key: %v", err)
		}
		for range 2 {
			if err := run(func(ctx context.Context, tx *sqldb.Tx) error { return createKey(ctx, tx, other) }); err != nil {
				t.Fatal(err)
			}
		}
		imposter := other
		imposter.hash[0]++
		err = run(func(ctx context.Context, tx *sqldb.Tx) error { return createKey(ctx, tx, imposter) })
		if !errors.Is(err, errTaken) {
			t.Errorf("the same prefix with another secret: %v", err)
		}
		accounts, keys := count(t, db, `SELECT COUNT(*) FROM account`), count(t, db, `SELECT COUNT(*) FROM api_key`)
		if accounts != 1 || keys != 2 || count(t, db, `SELECT COUNT(*) FROM balance`) != books {
			t.Errorf("%d accounts and %d keys, want 1 and 2, with as many books as before", accounts, keys)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		s := New(db, clock.New(nil), rand.Reader)
		var want []Account
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			a, _, err := s.Create(ctx, Params{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, a)
		}
		slices.SortFunc(want, func(a, b Account) int { return int(a.ID - b.ID) })
		var got []Account
		for after := id.Account(0); ; {
			page, err := s.List(ctx, after, 2)
			if err != nil || len(page) > 2 {
				t.Fatalf("a page of %d, %v", len(page), err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1].ID
		}
		if !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
	})
}

func TestServiceSet(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		s := New(db, clock.New(nil), rand.Reader)
		a, _, err := s.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		// Every setting to something else, so that no two columns can be mistaken for each other.
		want := Settings{
			Status: StatusUnderReview, KYC: KYCPending,
			APICashin: false, APICashout: true, APIPayout: false, Crypto: true, Split: true,
			APITxLimit: 123_45, CryptoTxLimit: 67_890001, RateLimit: 77, ReleaseDelay: 36*time.Hour + time.Microsecond,
			Disabled:     ResourceMED | ResourceCharges,
			CashInFee:    money.Fee{Fixed: money.BRL(1).Amount(), Share: 1},
			CashOutFee:   money.Fee{Fixed: money.BRL(2).Amount(), Share: 2},
			CryptoInFee:  money.Fee{Fixed: money.USDT(3).Amount(), Share: 3},
			CryptoOutFee: money.Fee{Fixed: money.USDT(4).Amount(), Share: 4},
		}
		for _, flip := range []bool{false, true} {
			if flip {
				want.APICashin, want.APICashout, want.APIPayout, want.Crypto, want.Split = true, false, true, false, false
				want.APITxLimit, want.CryptoTxLimit, want.Disabled, want.ReleaseDelay = 0, 0, 0, 0
			}
			var assignments []string
			for _, one := range want.List() {
				assignments = append(assignments, one.Key+"="+one.Value)
			}
			got, err := s.Set(ctx, a.ID, assignments)
			if err != nil || got.Settings != want {
				t.Fatalf("Set: %v\n got %+v\nwant %+v", err, got.Settings, want)
			}
			stored, err := s.Get(ctx, a.ID)
			if err != nil || stored != got {
				t.Fatalf("Get: %v\n got %+v\nwant %+v", err, stored, got)
			}
		}
		// All or nothing.
		_, err = s.Set(ctx, a.ID, []string{"rate_limit=5", "kyc=maybe"})
		wantFault(t, err, fault.Invalid, `kyc must be approved or pending, not "maybe"`)
		if got, err := s.Get(ctx, a.ID); err != nil || got.Settings != want {
			t.Errorf("after a refused Set: %v, %+v", err, got.Settings)
		}
		_, err = s.Set(ctx, 1, []string{"kyc=pending"})
		wantFault(t, err, fault.NotFound, "no account acc_00000001")
	})
}

// Two that run at once never lose what the other one set.
func TestServiceSetConcurrently(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		nodes := []*Service{
			New(sqltest.Open(t, url), clock.New(nil), rand.Reader),
			New(sqltest.Open(t, url), clock.New(nil), rand.Reader),
		}
		a, _, err := nodes[0].Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		const rounds = 5
		keys := []string{"api_cashin", "api_cashout", "api_payout", "crypto", "split"}
		for round := range rounds {
			value := []string{"off", "on"}[round%2]
			var wg sync.WaitGroup
			for i, key := range keys {
				wg.Go(func() {
					if _, err := nodes[i%len(nodes)].Set(ctx, a.ID, []string{key + "=" + value}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			got, err := nodes[0].Get(ctx, a.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range got.Settings.List() {
				if slices.Contains(keys, one.Key) && one.Value != value {
					t.Errorf("round %d lost %s=%s", round, one.Key, value)
				}
			}
		}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, h := t.Context(), newHands()
		c := clock.New(h.now)
		s := New(db, c, rand.Reader)
		a, firstText, err := s.Create(ctx, Params{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Create(ctx, Params{Name: "b"}); err != nil {
			t.Fatal(err)
		}
		h.move(time.Hour)
		second, _, err := s.CreateKey(ctx, a.ID, ScopeMEDWrite|ScopeBalanceRead)
		if err != nil {
			t.Fatal(err)
		}
		first := Key{Prefix: firstText[3:11], Account: a.ID, Scopes: AllScopes, CreatedAt: a.CreatedAt}
		wantKeys(t, s, a.ID, second, first)

		h.move(time.Hour)
		first.RevokedAt = c.Now()
		for range 2 { // the second time changes nothing
			if err := s.RevokeKey(ctx, first.Prefix); err != nil {
				t.Fatal(err)
			}
			wantKeys(t, s, a.ID, second, first)
			h.move(time.Hour)
		}
		if _, err := NewDirectory(db, c).Authenticate(ctx, firstText); !errors.Is(err, ErrBadKey) {
			t.Errorf("a revoked key: %v", err)
		}

		wantFault(t, s.RevokeKey(ctx, "00000000"), fault.NotFound, "no key 00000000")
		err = s.RevokeKey(ctx, firstText)
		wantFault(t, err, fault.Invalid, "a key is named by the 8 hex digits after bp_")
		if strings.Contains(err.Error(), firstText[12:]) {
			t.Error("an error shows the secret")
		}
		_, err = s.ListKeys(ctx, 1)
		wantFault(t, err, fault.NotFound, "no account acc_00000001")
		_, _, err = s.CreateKey(ctx, 1, AllScopes)
		wantFault(t, err, fault.NotFound, "no account acc_00000001")
		_, _, err = s.CreateKey(ctx, a.ID, 0)
		wantFault(t, err, fault.Invalid, "a key needs at least one scope")
	})
}

func wantKeys(t *testing.T, s *Service, account id.Account, want ...Key) {
	t.Helper()
	if got, err := s.ListKeys(t.Context(), account); err != nil || !slices.Equal(got, want) {
		t.Errorf("keys %+v, %v, want %+v", got, err, want)
	}
}

func count(t *testing.T, db *sqldb.DB, sql string, args ...any) int64 {
	t.Helper()
	n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
