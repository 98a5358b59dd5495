package charge_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// each runs test on a node on both databases.
func each(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		test(t, newWorld(t).node(db))
	})
}

var unexported = cmp.AllowUnexported(charge.Charge{})

func code(err error) string { return fault.As(err).Code }

func TestCreateOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		a := n.account("cash_in_fee=1.00", "release_delay=1h")
		r := n.request(a, 1000)
		r.ExternalID = "order 42"
		made, outcome, err := n.Create(ctx, r)
		if err != nil || outcome != idempotency.Created || made.Status != charge.Pending || made.CopyPaste == "" || made.Acquirer != "alpha" {
			t.Fatalf("%+v %v %v", made, outcome, err)
		}
		if want := made.CreatedAt().Add(time.Hour); !made.ExpiresAt.Equal(want) {
			t.Errorf("expires at %v, want %v", made.ExpiresAt, want)
		}
		n.hear(made, n.pay(made.TxID, 1000))
		paid := n.stored(made)

		// The same key shows what the first answer showed; the same external_id what the charge has become.
		if again, outcome, err := n.Create(ctx, r); err != nil || outcome != idempotency.Replayed || !cmp.Equal(made, again, unexported) {
			t.Errorf("%v %v %s", outcome, err, cmp.Diff(made, again, unexported))
		}
		other := r
		other.Key, other.Hash, other.Description = "another key", [32]byte{9}, "other"
		if again, outcome, err := n.Create(ctx, other); err != nil || outcome != idempotency.Existing || !cmp.Equal(paid, again, unexported) {
			t.Errorf("%v %v %s", outcome, err, cmp.Diff(paid, again, unexported))
		}
		if _, outcome, err := n.Create(ctx, other); err != nil || outcome != idempotency.Repeated {
			t.Errorf("%v %v", outcome, err)
		}
		other.Key, other.Amount = "a third key", 1001
		if _, _, err := n.Create(ctx, other); code(err) != "EXTERNAL_ID_CONFLICT" {
			t.Errorf("another amount: %v", err)
		}
		changed := r
		changed.Hash = [32]byte{7}
		if _, _, err := n.Create(ctx, changed); code(err) != "IDEMPOTENCY_CONFLICT" {
			t.Errorf("another body: %v", err)
		}
		if list := n.all(a.ID); len(list) != 1 {
			t.Errorf("%d charges", len(list))
		}
		n.advance(idempotency.RetentionDefault + time.Hour)
		changed.ExternalID = ""
		if _, outcome, err := n.Create(ctx, changed); err != nil || outcome != idempotency.Created {
			t.Errorf("a forgotten key: %v %v", outcome, err)
		}
		n.audit()
	})
}

// leaving is an acquirer whose callers go away while they wait for a charge.
type leaving struct {
	acquirer.Acquirer
	leave context.CancelFunc
}

func (l leaving) CreateCharge(ctx context.Context, n acquirer.NewCharge) (acquirer.Charge, error) {
	l.leave()
	return l.Acquirer.CreateCharge(ctx, n)
}

// TestCallerLeaves while the acquirer is asked: what was made is kept, and its repetition finds it.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		patience, leave := context.WithCancel(t.Context())
		n := newWorld(t).node(db, func(at acquirer.Acquirer) acquirer.Acquirer { return leaving{at, leave} })
		r := n.request(n.account(), 1000)
		made, outcome, err := n.Create(patience, r)
		if err != nil || outcome != idempotency.Created || patience.Err() == nil {
			t.Fatalf("%v %v", outcome, err)
		}
		if again, outcome, err := n.Create(t.Context(), r); err != nil || outcome != idempotency.Replayed || again.TxID != made.TxID {
			t.Errorf("%v %v, %s instead of %s", outcome, err, again.TxID, made.TxID)
		}
		n.audit()
	})
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, test := range []struct {
			settings string
			change   func(*charge.Request)
			code     string
		}{
			{"api_cashin=off", func(*charge.Request) {}, "api_cashin_disabled"},
			{"kyc=pending", func(*charge.Request) {}, "kyc_required"},
			{"api_tx_limit=9.99", func(*charge.Request) {}, "AMOUNT_LIMIT_EXCEEDED"},
			{"api_tx_limit=10.00", func(r *charge.Request) { r.PostbackURL = "https://example.com" }, "postback_url_not_registered"},
		} {
			r := n.request(n.account(test.settings), 1000)
			test.change(&r)
			if _, _, err := n.Create(t.Context(), r); code(err) != test.code {
				t.Errorf("%s: %v", test.settings, err)
			}
		}
	})
}

// TestRacers lets 16 equal requests race: one charge is made, and each is told of it or to try again.
func TestRacers(t *testing.T) {
	t.Parallel()
	race := func(t *testing.T, nodes ...*node) {
		t.Helper()
		n := nodes[0]
		a := n.account()
		r := n.request(a, 1000)
		r.ExternalID = "order 42"
		var racers sync.WaitGroup
		var mu sync.Mutex
		made, ids := 0, map[id.ID]bool{}
		for i := range 16 {
			racers.Go(func() {
				for {
					c, outcome, err := nodes[i%len(nodes)].Create(t.Context(), r)
					if isBusy(err) {
						_ = clocktest.Real.Wait(t.Context(), time.Millisecond) // the one that is under way needs the processor
						continue
					}
					if err != nil {
						t.Errorf("told %v", err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					ids[c.ID] = true
					if outcome == idempotency.Created {
						made++
					}
					return
				}
			})
		}
		racers.Wait()
		if made != 1 || len(ids) != 1 || len(n.all(a.ID)) != 1 || len(n.events(a.ID)) != 1 {
			t.Errorf("%d made, %d seen, %d stored", made, len(ids), len(n.all(a.ID)))
		}
	}
	each(t, func(t *testing.T, n *node) { race(t, n) })
	t.Run("two nodes", func(t *testing.T) {
		t.Parallel()
		url := sqltest.Postgres(t)
		w := newWorld(t)
		race(t, w.node(sqltest.Open(t, url)), w.node(sqltest.Open(t, url)))
	})
}

// TestPaidByManyAtOnce lets everything that can find a payment find it at once, on two nodes.
func TestPaidByManyAtOnce(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		n, other := pair(t, url)
		a := n.account("cash_in_fee=0.10")
		for range 5 {
			c := n.create(a, 1000)
			first, second := n.pay(c.TxID, 1000), n.pay(c.TxID, 1200)
			n.refund(first, 300)
			n.advance(time.Minute)
			var all sync.WaitGroup
			for _, n := range []*node{n, other} {
				for _, e2e := range []string{first, second, first} {
					n.Hint(c.Acquirer, e2e, c.TxID, unsaid)
				}
				all.Go(func() { _, _ = n.FollowHints(t.Context()) })
				all.Go(func() { _, _ = n.Reconcile(t.Context()) })
				for range 2 {
					all.Go(func() {
						if _, err := n.Get(t.Context(), a.ID, c.TxID); err != nil {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
			n.hear(c, first, second) // those that met each other are tried again
		}
		if got := n.balance(a.ID).Available; got != 5*(1000+1200-300-10) {
			t.Errorf("available %d", got)
		}
		if events := n.events(a.ID); len(events) != 10 {
			t.Errorf("events %v", events)
		}
		n.audit()
	})
}

func TestFailover(t *testing.T) {
	t.Parallel()
	for kind, delay := range map[string]time.Duration{
		"refuse": 0, "http_500": 0, "http_429": 0, "garbage": 0, "lost_executed": 0, "lost_not_executed": 0, "slow": acquirer.TryTimeMax + time.Second,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, n *node) {
				n.fault("alpha", "*", kind, delay)
				began := time.Now()
				c := n.create(n.account(), 1000)
				if took := time.Since(began); c.Acquirer != "beta" || took > acquirer.CreationTimeMax || !strings.Contains(c.Routing, `"acquirer":"alpha"`) {
					t.Errorf("at %s after %v: %s", c.Acquirer, took, c.Routing)
				}
				n.hear(c, n.pay(c.TxID, 1000))
				if got := n.stored(c).Status; got != charge.Paid {
					t.Errorf("it is %s", got)
				}
			})
		})
	}
}

func TestAllAcquirersDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		r := n.request(a, 1000)
		r.ExternalID = "order 42"
		n.fault("alpha", "*", "refuse", 0)
		n.fault("beta", "*", "http_500", 0)
		for range 2 {
			if _, _, err := n.Create(t.Context(), r); fault.As(err).Kind != fault.Provider {
				t.Fatalf("told %v", err)
			}
		}
		if len(n.all(a.ID)) != 0 || len(n.events(a.ID)) != 0 {
			t.Error("something was stored")
		}
		n.mend()
		n.advance(time.Minute)                           // a trial is due
		r.Hash, r.Amount = [32]byte{1, 2, 3}, r.Amount+1 // key and external_id are free for anything
		if _, outcome, err := n.Create(t.Context(), r); err != nil || outcome != idempotency.Created {
			t.Errorf("%v %v", outcome, err)
		}
	})
}

func TestGetByEachName(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a, b := n.account(), n.account()
		r := n.request(a, 1000)
		r.ExternalID = "a/b:c"
		c, _, err := n.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range []string{"chg_" + c.ID.String(), c.TxID, strings.ToUpper(c.TxID), "ext:a/b:c"} {
			if got, err := n.Get(t.Context(), a.ID, ref); err != nil || !cmp.Equal(&c, got, unexported) {
				t.Errorf("%s: %v %s", ref, err, cmp.Diff(&c, got, unexported))
			}
			if _, err := n.Get(t.Context(), b.ID, ref); !errors.Is(err, charge.ErrNotFound) {
				t.Errorf("%s of another account: %v", ref, err)
			}
		}
		for _, ref := range []string{"", "ext:", "ext:other", "chg_", "chg_" + n.IDs.New().String()} {
			if _, err := n.Get(t.Context(), a.ID, ref); !errors.Is(err, charge.ErrNotFound) {
				t.Errorf("%q: %v", ref, err)
			}
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		a := n.account()
		var want []string
		for range 5 {
			want = append([]string{n.create(a, 1000).TxID}, want...)
			n.advance(time.Second)
		}
		var got []string
		page := charge.Page{Limit: 2}
		for more := true; more; {
			list, hasMore, err := n.List(ctx, a.ID, page)
			if err != nil || len(list) > 2 {
				t.Fatal(len(list), err)
			}
			for _, c := range list {
				got = append(got, c.TxID)
			}
			page.StartingAfter, more = "chg_"+list[len(list)-1].ID.String(), hasMore
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		second := n.all(a.ID)[3]
		if list, more, err := n.List(ctx, a.ID, charge.Page{Before: second.CreatedAt(), Limit: 2}); err != nil || more || len(list) != 1 || list[0].TxID != want[4] {
			t.Errorf("%d before the second: %v", len(list), err)
		}
		for _, ref := range []string{"chg_x", "chg_" + n.IDs.New().String()} {
			if _, _, err := n.List(ctx, a.ID, charge.Page{StartingAfter: ref, Limit: 2}); !errors.Is(err, charge.ErrCursor) {
				t.Errorf("%s: %v", ref, err)
			}
		}
	})
}

func TestSilentAcquirer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		a := n.account()
		early, late := n.create(a, 1000), n.create(a, 1000)
		n.fault("alpha", "charge.create", "http_500", 0)
		elsewhere := n.create(a, 1000)
		n.mend()
		n.pay(early.TxID, 1000)
		n.pay(elsewhere.TxID, 1000)
		n.fault("alpha", "*", "refuse", 0)
		if c, err := n.Get(ctx, a.ID, early.TxID); err != nil || c.Status != charge.Pending {
			t.Errorf("%+v: %v", c, err)
		}
		n.advance(time.Hour)
		n.step(n.Expire)
		for _, c := range []charge.Charge{early, late} {
			if got := n.stored(c).Status; got != charge.Pending {
				t.Errorf("%s although its acquirer may know of a payment", got)
			}
		}
		if got := n.stored(elsewhere).Status; got != charge.Paid {
			t.Errorf("%s although its acquirer answers", got)
		}
		n.advance(10 * time.Minute)
		n.step(n.Expire)
		for _, c := range []charge.Charge{early, late} {
			if got := n.stored(c).Status; got != charge.Expired {
				t.Errorf("%s after the grace", got)
			}
		}
		if _, err := n.Reconcile(ctx); err == nil {
			t.Error("the list of a silent acquirer was read")
		}
		n.mend()
		n.step(n.Reconcile)
		if got := n.stored(early).Status; got != charge.Paid {
			t.Errorf("%s although it was paid in time", got)
		}
		if b := n.balance(a.ID); b.Available != 2000 {
			t.Errorf("%+v", b)
		}
		n.audit()
	})
}

// asked counts the questions to an acquirer about single charges, and its lists.
type asked struct {
	acquirer.Acquirer
	count, lists *atomic.Int64
}

func (a asked) ListPayments(ctx context.Context, w acquirer.Window) (acquirer.Page, error) {
	a.lists.Add(1)
	return a.Acquirer.ListPayments(ctx, w)
}

func (a asked) GetCharge(ctx context.Context, txid string) (acquirer.Charge, error) {
	a.count.Add(1)
	return a.Acquirer.GetCharge(ctx, txid)
}

// TestHintsTogether shows that one list answers for many notifications, and that only what it proves is believed: what is
// not as it was asked for is looked at by itself.
func TestHintsTogether(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var count, lists atomic.Int64
		n := newWorld(t).node(db, func(at acquirer.Acquirer) acquirer.Acquirer { return asked{at, &count, &lists} })
		a := n.account()
		var charges []charge.Charge
		for range 20 {
			charges = append(charges, n.create(a, 1000))
		}
		began := n.Clock.Now()
		hear := func(c charge.Charge, e2e string) {
			n.Hint("alpha", e2e, c.TxID, n.Clock.Now())
		}
		for _, c := range charges[:15] {
			hear(c, n.pay(c.TxID, 1000))
		}
		hear(charges[15], n.pay(charges[15].TxID, 1500)) // more
		hear(charges[16], n.pay(charges[16].TxID, 500))  // less
		twice := n.pay(charges[17].TxID, 1000)
		hear(charges[17], n.pay(charges[17].TxID, 1000))
		hear(charges[17], twice)
		hear(charges[18], n.pay(charges[0].TxID, 700))                         // another's
		hear(charges[19], "E90000099202611150418Ek5ZVqnbW7s")                  // forged
		n.Hint("alpha", n.pay(charges[14].TxID, 300), charges[14].TxID, began) // the list begins before all of them
		n.step(n.FollowHints)
		if got := count.Load(); got < 5 || got > 9 {
			t.Errorf("%d questions about single charges", got)
		}
		for i, c := range charges {
			want := charge.Paid
			if i == 16 || i >= 18 {
				want = charge.Pending
			}
			if got := n.stored(c); got.Status != want {
				t.Errorf("charge %d is %s", i, got.Status)
			}
		}
		n.reconcile()
		if got, want := n.balance(a.ID).Available, int64(n.books()); got != want {
			t.Errorf("credited %d, paid %d", got, want)
		}
		n.audit()
	})
}

// TestPaidTogether shows that charges of an account whose payments one list shows are paid by one transaction, each with its
// event, its fee and its transfers, and that one of them that has moved meanwhile keeps none of the others.
func TestPaidTogether(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, other := w.node(db), w.node(db)
		calm, odd := n.account("cash_in_fee=0.10"), n.account("cash_in_fee=0.10")
		const each = 12
		var charges []charge.Charge
		for range each {
			charges = append(charges, n.create(calm, 1000), n.create(odd, 1000))
		}
		deltas := func() int64 {
			t.Helper()
			count, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM delta`)
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
		moved := charges[1]
		at := w.clock.Now() // the list begins before all of them
		for _, c := range charges {
			e2e := w.pay(c.TxID, 1000)
			if c.ID == moved.ID {
				other.hear(c, e2e)
			}
			n.Hint("alpha", e2e, c.TxID, at)
			n.Hint("alpha", e2e, c.TxID, w.clock.Now()) // told twice, with another moment
		}
		n.step(n.FollowHints)
		if got := deltas(); got != 1+each {
			t.Errorf("%d credits wait, want one of the account without surprises and %d of the other", got, each)
		}
		for _, a := range []id.Account{calm.ID, odd.ID} {
			paid := 0
			for _, e := range n.events(a) {
				if strings.HasPrefix(e, "charge.paid") {
					paid++
				}
			}
			if got := n.balance(a).Available; paid != each || got != each*990 || len(n.transfers(a)) != 2*each {
				t.Errorf("%d events, %d available, %d transfers", paid, got, len(n.transfers(a)))
			}
		}
		for _, c := range charges {
			if got := n.stored(c); got.Status != charge.Paid || got.Fee != 10 || got.EndToEndID == "" {
				t.Errorf("%s with a fee of %s", got.Status, got.Fee)
			}
		}
		n.audit()
	})
}

// TestPaidTogetherToWait pays charges together whose money has to wait, and later is released.
func TestPaidTogetherToWait(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n := w.node(db)
		a := n.account("cash_in_fee=0.10", "release_delay=24h")
		const each = 12
		at := w.clock.Now()
		for range each {
			c := n.create(a, 1000)
			n.Hint("alpha", w.pay(c.TxID, 1000), c.TxID, at)
		}
		n.step(n.FollowHints)
		if b := n.balance(a.ID); b.Pending != each*990 || b.Available != 0 {
			t.Errorf("paid: %+v", b)
		}
		w.clock.Raise(w.clock.Offset() + 25*time.Hour)
		n.step(n.Release)
		if b := n.balance(a.ID); b.Pending != 0 || b.Available != each*990 {
			t.Errorf("released: %+v", b)
		}
		n.audit()
	})
}

// behind is an acquirer whose short lists do not show yet what was given back.
type behind struct{ acquirer.Acquirer }

func (b behind) ListPayments(ctx context.Context, w acquirer.Window) (acquirer.Page, error) {
	page, err := b.Acquirer.ListPayments(ctx, w)
	if w.Exact {
		for i := range page.Payments {
			page.Payments[i].Refunds = nil
		}
	}
	return page, err
}

// TestListsAreBehind shows that a notification of what was given back is looked up by itself, also among others.
func TestListsAreBehind(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newWorld(t).node(db, func(at acquirer.Acquirer) acquirer.Acquirer { return behind{at} })
		a, at := n.account(), n.Clock.Now()
		var charges []charge.Charge
		for range 10 {
			c := n.create(a, 1000)
			e2e := n.pay(c.TxID, 1000)
			n.Hint("alpha", e2e, c.TxID, at)
			at = n.Clock.Now()
			if len(charges) == 0 {
				n.refund(e2e, 1000)
				n.Hint("alpha", e2e, c.TxID, unsaid)
			}
			charges = append(charges, c)
		}
		n.step(n.FollowHints)
		if got, other := n.stored(charges[0]), n.stored(charges[1]); got.Status != charge.Refunded || other.Status != charge.Paid {
			t.Errorf("what was given back is %s, the next %s", got.Status, other.Status)
		}
		if got, want := n.balance(a.ID).Available, int64(n.books()); got != want {
			t.Errorf("credited %d, paid %d", got, want)
		}
		n.audit()
	})
}

// TestRememberedChargesMove has another node and its operator change what a node remembers of its charges, before a list says
// that they are paid.
func TestRememberedChargesMove(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		var count, lists atomic.Int64
		lens := func(at acquirer.Acquirer) acquirer.Acquirer { return asked{at, &count, &lists} }
		one, other := w.node(db, lens), w.node(db, lens)
		a := one.account()
		var charges []charge.Charge
		for range 12 {
			charges = append(charges, one.create(a, 1000))
		}
		if _, err := other.Accounts.Set(t.Context(), a.ID, []string{"cash_in_fee=1.00", "release_delay=24h"}); err != nil {
			t.Fatal(err)
		}
		twice, cancelled := charges[0], charges[1]
		other.hear(twice, w.pay(twice.TxID, 1000))
		if _, err := other.Cancel(t.Context(), id.Charge.Format(cancelled.ID)); err != nil {
			t.Fatal(err)
		}
		w.advance(2 * time.Hour)
		for range 4 {
			charges = append(charges, one.create(a, 1000)) // these are pending still
		}
		other.step(other.Expire)
		for c, want := range map[*charge.Charge]charge.State{&twice: charge.Paid, &cancelled: charge.Cancelled, &charges[2]: charge.Expired, &charges[12]: charge.Pending} {
			if got := other.stored(*c); got.Status != want {
				t.Fatalf("a charge is %s before it is heard of, want %s", got.Status, want)
			}
		}
		at := w.clock.Now() // the list begins before all of them
		e2es := map[string]charge.Charge{}
		for _, c := range charges {
			if c.ID != cancelled.ID { // nobody can pay that one any more
				e2es[w.pay(c.TxID, 1000)] = c
			}
		}
		tell := func(n *node) {
			t.Helper()
			for e2e, c := range e2es {
				n.Hint(c.Acquirer, e2e, c.TxID, at)
				at = w.clock.Now()
			}
			count.Store(0)
			lists.Store(0)
			n.step(n.FollowHints)
		}
		tell(one)
		if count.Load() != 0 || lists.Load() != 1 {
			t.Errorf("the node that made them asked %d questions and for %d lists", count.Load(), lists.Load())
		}
		check := func() {
			t.Helper()
			const paid = 15 // all but the one that was cancelled; one of them twice
			for _, c := range charges {
				if got := one.stored(c); (got.Status == charge.Paid) != (c.ID != cancelled.ID) || got.Status == charge.Paid && got.Fee != 100 {
					t.Errorf("a charge is %s with a fee of %s", got.Status, got.Fee)
				}
			}
			events := 0
			for _, e := range one.events(a.ID) {
				if strings.HasPrefix(e, "charge.paid") {
					events++
				}
			}
			b := one.balance(a.ID)
			if events != paid || b.Pending != paid*900 || b.Available != 1000 || int64(w.books()) != (paid+1)*1000 {
				t.Errorf("%d events, %+v, %s in the books", events, b, w.books())
			}
			one.audit()
		}
		check()
		tell(other) // which has made none and does not know the key that they pay to, so that a list would be of no use
		if count.Load() == 0 || lists.Load() != 0 {
			t.Errorf("another node asked %d questions and for %d lists", count.Load(), lists.Load())
		}
		check()
		// From its first charge on it knows the key, and believes a list also of charges that it did not make.
		clear(e2es)
		c := other.create(a, 1000)
		at = w.clock.Now()
		for range 10 {
			e2es[w.pay(c.TxID, 1000)] = c
			c = one.create(a, 1000)
		}
		tell(other)
		if count.Load() != 0 || lists.Load() != 1 || other.balance(a.ID).Pending != (15+10)*900 {
			t.Errorf("another node asked %d questions and for %d lists: %+v", count.Load(), lists.Load(), other.balance(a.ID))
		}
		one.audit()
	})
}

// TestHungAcquirer shows that an acquirer that takes connections and says nothing keeps nobody waiting beyond one try.
func TestHungAcquirer(t *testing.T) {
	t.Parallel()
	n := newWorld(t).node(sqltest.Open(t, sqltest.SQLite(t)))
	a := n.account()
	var hung []charge.Charge
	for range 40 {
		hung = append(hung, n.create(a, 1000))
	}
	n.fault("alpha", "charge.create", "http_500", 0)
	fast := n.create(a, 1000)
	n.mend()
	n.fault("alpha", "*", "slow", time.Minute)
	for _, c := range hung {
		n.Hint("alpha", n.pay(c.TxID, 1000), c.TxID, n.Clock.Now())
	}
	n.Hint("beta", n.pay(fast.TxID, 1000), fast.TxID, unsaid)
	const margin = 3 * time.Second
	began := time.Now()
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := n.FollowHints(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		both.Go(func() {
			if c, err := n.Get(t.Context(), a.ID, hung[0].TxID); err != nil || c.Status != charge.Pending {
				t.Errorf("%+v %v", c, err)
			}
		})
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := n.Get(left, a.ID, hung[1].TxID); !errors.Is(err, context.Canceled) {
		t.Errorf("who left was told %v", err)
	}
	both.Wait()
	if took := time.Since(began); took > acquirer.TryTimeMax+margin {
		t.Errorf("it took %v", took)
	}
	if got := n.stored(fast).Status; got != charge.Paid {
		t.Errorf("the other acquirer's charge is %s", got)
	}
	// Nothing was forgotten.
	n.mend()
	n.advance(5 * time.Second)
	n.step(n.FollowHints)
	for _, c := range hung {
		if got := n.stored(c).Status; got != charge.Paid {
			t.Errorf("%s", got)
		}
	}
	n.audit()
}

func TestHintsThatFailAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"refuse", "http_500", "garbage", "lost_executed"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, n *node) {
				c := n.create(n.account(), 1000)
				e2e := n.pay(c.TxID, 1000)
				n.fault("alpha", "*", kind, time.Millisecond)
				for range 3 {
					n.hear(c, e2e)
					n.advance(time.Minute)
				}
				if got := n.stored(c).Status; got != charge.Pending {
					t.Errorf("%s by an acquirer that answers nothing", got)
				}
				n.mend()
				n.advance(time.Minute)
				n.step(n.FollowHints)
				if got := n.stored(c).Status; got != charge.Paid {
					t.Errorf("%s", got)
				}
			})
		})
	}
}

func TestForgedAndForeignHints(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		c, paid := n.create(a, 1000), n.create(a, 1000)
		e2e := n.pay(paid.TxID, 1000)
		const forged = "E9000009920261115120000000000001"
		for _, h := range [][3]string{
			{"alpha", forged, c.TxID},                      // a payment that does not exist
			{"beta", e2e, paid.TxID},                       // said by an acquirer that does not have the charge
			{"alpha", e2e, c.TxID},                         // a payment of another charge
			{"alpha", forged, ""},                          // of no charge
			{"alpha", forged, "no txid"},                   // of nonsense
			{"alpha", "", c.TxID},                          // no payment
			{"alpha", forged, id.Token(n.IDs.New(), a.ID)}, // of a charge that does not exist
			{"gamma", e2e, paid.TxID}, {"gamma", e2e, ""},  // by nobody
			{"beta", e2e, ""}, {"beta", e2e, strings.ToUpper(e2e)}, // of another acquirer
		} {
			n.Hint(h[0], h[1], h[2], unsaid)
		}
		n.step(n.FollowHints)
		if b := n.balance(a.ID); b.Available != 0 || len(n.events(a.ID)) != 2 {
			t.Errorf("%+v credited by forgery, events %v", b, n.events(a.ID))
		}
		// Without a txid, or with one in capitals, a true one is followed.
		n.Hint("alpha", e2e, "", unsaid)
		n.Hint("alpha", n.pay(c.TxID, 1000), strings.ToUpper(c.TxID), unsaid)
		n.step(n.FollowHints)
		if b := n.balance(a.ID); b.Available != 2000 {
			t.Errorf("%+v", b)
		}
		n.audit()
	})
}

func TestUnmatched(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		a := n.account()
		at, _ := n.router.Get("alpha")
		elsewhere, _ := n.router.Get("beta")
		c := n.create(a, 1000)
		want := map[string]string{}
		for i, stranger := range []struct {
			at   acquirer.Acquirer
			txid string
			why  string
		}{
			{at, "STRANGER000000000000000000000000001", "it names no charge of ours"},
			{at, id.Token(n.IDs.New(), a.ID), "it names no charge of ours"},
			{elsewhere, c.TxID, "its charge is at another acquirer"},
		} {
			if _, err := stranger.at.CreateCharge(ctx, acquirer.NewCharge{TxID: stranger.txid, Amount: money.BRL(100 + i), ExpiresIn: time.Hour}); err != nil {
				t.Fatal(err)
			}
			want[n.pay(stranger.txid, money.BRL(100+i))] = stranger.why
		}
		own := n.payAt("alpha", c.TxID, 1000)
		for range 3 {
			n.reconcile()
		}
		list, err := charge.ListUnmatched(ctx, n.db)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, u := range list {
			got[u.EndToEndID] = u.Reason
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if count, err := charge.CountUnmatched(ctx, n.db); err != nil || count != int64(len(want)) {
			t.Errorf("%d unmatched: %v", count, err)
		}
		// What an operator has dealt with is not listed again, although the acquirer still shows it.
		if err := charge.DismissUnmatched(ctx, n.db, n.IDs, list[0].EndToEndID, "given back by hand"); err != nil {
			t.Error(err)
		}
		if err := charge.DismissUnmatched(ctx, n.db, n.IDs, list[0].EndToEndID, "twice"); !errors.Is(err, charge.ErrNoUnmatched) {
			t.Errorf("dismissed again: %v", err)
		}
		n.reconcile()
		if count, err := charge.CountUnmatched(ctx, n.db); err != nil || count != int64(len(want)-1) {
			t.Errorf("%d unmatched: %v", count, err)
		}
		if now := n.stored(c); now.EndToEndID != own || n.balance(a.ID).Available != 1000 {
			t.Errorf("%s paid by %s", now.Status, now.EndToEndID)
		}
	})
}

// What strangers were paid before we came is not ours to match when it is given back.
func TestReturnsOfStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stranger := w.node(sqltest.Open(t, sqltest.SQLite(t)))
	e2e := w.pay(stranger.create(stranger.account(), 1000).TxID, 1000)
	w.advance(48 * time.Hour)
	n := w.node(sqltest.Open(t, sqltest.SQLite(t)))
	w.refund(e2e, 1000)
	w.advance(time.Hour)
	n.reconcile()
	if count, err := charge.CountUnmatched(t.Context(), n.db); err != nil || count != 0 {
		t.Errorf("%d unmatched: %v", count, err)
	}
}

func TestCancelRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		c := n.create(n.account(), 1000)
		n.fault("alpha", "*", "refuse", 0)
		if _, err := n.Cancel(ctx, "chg_"+c.ID.String()); err == nil || n.stored(c).Status != charge.Pending {
			t.Errorf("cancelled without its acquirer: %v", err)
		}
		n.mend()
		for _, want := range []error{nil, charge.ErrNotPending} {
			if _, err := n.Cancel(ctx, "chg_"+c.ID.String()); !errors.Is(err, want) {
				t.Errorf("told %v, want %v", err, want)
			}
		}
		paid := n.create(n.account(), 1000)
		n.pay(paid.TxID, 1000)
		if now, err := n.Cancel(ctx, "chg_"+paid.ID.String()); !errors.Is(err, charge.ErrNotPending) || now.Status != charge.Paid {
			t.Errorf("paid before: %s, %v", now.Status, err)
		}
		for _, ref := range []string{"", c.TxID, "chg_" + n.IDs.New().String()} {
			if _, err := n.Cancel(ctx, ref); !errors.Is(err, charge.ErrNotFound) {
				t.Errorf("%q: %v", ref, err)
			}
		}
	})
}
