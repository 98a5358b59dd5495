package infraction_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestPollEveryMinute shows that what opens and what ends is known within a minute of business time, however long ago it
// was opened, whatever else is open.
func TestPollEveryMinute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		var names []string
		for range 5 {
			_, e2e := n.paid(a, 1000)
			names = append(names, n.claim(e2e, 100))
			n.poll()
			n.advance(9 * 24 * time.Hour)
		}
		if got := n.balance(a.ID).Blocked; got != 500 {
			t.Fatalf("%d is blocked", got)
		}
		n.poll()
		for i, how := range []string{"accept", "reject", "cancel", "accept", "reject"} {
			n.verdict(names[i], how)
		}
		n.advance(59 * time.Second)
		n.step(n.Reconcile)
		for i, want := range []infraction.State{infraction.Accepted, infraction.Rejected, infraction.Cancelled, infraction.Accepted, infraction.Rejected} {
			if got := n.named(a.ID, names[i]).Status; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		n.audit(a.ID)
	})
}

// TestWrittenDownLater has an acquirer that lists infractions by another moment than that of their opening: what ends is
// known within a minute all the same.
func TestWrittenDownLater(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		w := newWorld(t)
		n := w.node(db, func(at acquirer.Judge) acquirer.Acquirer { return slowClerk{at, w.clock.Now} })
		a := n.account()
		var names []string
		for range 3 {
			_, e2e := n.paid(a, 1000)
			names = append(names, n.claim(e2e, 100))
			n.poll()
			n.advance(40 * time.Hour)
			n.poll()
		}
		for i, name := range names {
			n.verdict(name, "accept")
			n.advance(time.Minute)
			n.step(n.Reconcile)
			if got := n.named(a.ID, name).Status; got != infraction.Accepted {
				t.Errorf("%d: %s", i, got)
			}
		}
		n.audit(a.ID)
	})
}

// slowClerk is an acquirer that writes infractions down some hours after it opened them.
type slowClerk struct {
	acquirer.Judge
	now func() time.Time
}

func (c slowClerk) ListInfractions(ctx context.Context, w acquirer.Window) (acquirer.InfractionPage, error) {
	if w.To.After(c.now()) {
		return acquirer.InfractionPage{}, errors.New("asked for the future")
	}
	page, err := c.Judge.ListInfractions(ctx, w)
	for i := range page.Infractions {
		page.Infractions[i].OpenedAt = page.Infractions[i].OpenedAt.Add(-7 * time.Hour)
	}
	return page, err
}

// TestOpenedBeforeTheFirstStart finds infractions that were opened before anybody read the list.
func TestOpenedBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		_, e2e := n.paid(a, 1000)
		name := n.claim(e2e, 400)
		n.advance(70 * 24 * time.Hour)
		n.step(n.Reconcile)
		if got := n.named(a.ID, name); got.Status != infraction.Open || n.balance(a.ID).Blocked != 400 {
			t.Errorf("%+v", got)
		}
	})
}

// TestSilentAcquirer keeps what one acquirer does not tell from keeping the other waiting, and finds it later.
func TestSilentAcquirer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		_, first := n.paid(a, 1000)
		n.fault("alpha", "charge.create", "refuse", 0)
		c := n.create(a, 1000)
		second := n.pay(c.TxID, 1000)
		n.hear(c, second)
		n.mend()
		if c.Acquirer != "beta" {
			t.Fatalf("at %s", c.Acquirer)
		}
		n.step(n.Reconcile)
		for _, kind := range []string{"http_500", "http_429", "lost_executed", "garbage"} {
			one, other := n.claim(first, 100), n.claim(second, 100)
			n.fault("alpha", "med.list", kind, time.Millisecond)
			n.advance(time.Minute)
			if _, err := n.Reconcile(t.Context()); err == nil {
				t.Errorf("%s: a list that was not told was read", kind)
			}
			n.mend()
			if got := n.named(a.ID, other).Status; got != infraction.Open {
				t.Errorf("%s: %s", kind, got)
			}
			n.step(n.Reconcile)
			if got := n.named(a.ID, one).Status; got != infraction.Open {
				t.Errorf("%s: %s", kind, got)
			}
		}
		n.audit(a.ID)
	})
}

// TestUnmatched lists what is about no payment of ours. Nothing moves; when the payment turns out to be somebody's, it
// does.
func TestUnmatched(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		var hidden sync.Map // payments that the acquirer does not show
		n := newWorld(t).node(db, func(at acquirer.Judge) acquirer.Acquirer { return shy{at, &hidden} })
		a := n.account()
		_, e2e := n.paid(a, 1000)
		hidden.Store(e2e, true)
		name := n.claim(e2e, 1000)
		n.poll()
		list, err := infraction.ListUnmatched(t.Context(), db)
		if err != nil || len(list) != 1 || list[0].AcquirerID != name || list[0].EndToEndID != e2e || list[0].Amount != 1000 || list[0].Status != "open" {
			t.Errorf("%+v: %v", list, err)
		}
		concern, err := infraction.CountConcerns(t.Context(), db, n.clock.Now())
		if err != nil || concern != (infraction.Concern{Unmatched: 1}) || n.balance(a.ID).Blocked != 0 || len(n.all(a.ID)) != 0 {
			t.Errorf("%+v %v", concern, err)
		}
		hidden.Delete(e2e)
		n.advance(10 * time.Minute)
		n.poll()
		concern, err = infraction.CountConcerns(t.Context(), db, n.clock.Now())
		if err != nil || concern != (infraction.Concern{}) || n.balance(a.ID).Blocked != 1000 || n.named(a.ID, name).Status != infraction.Open {
			t.Errorf("%+v %v", concern, err)
		}
		n.audit(a.ID)
	})
}

// shy is an acquirer that does not show some of its payments.
type shy struct {
	acquirer.Judge
	hidden *sync.Map
}

func (s shy) GetPayment(ctx context.Context, endToEndID string) (acquirer.Payment, error) {
	if _, hide := s.hidden.Load(endToEndID); hide {
		return acquirer.Payment{}, &acquirer.Error{Acquirer: s.Name(), Operation: "payment.get", Outcome: acquirer.Refused, Class: acquirer.Business, Cause: acquirer.ErrNotFound}
	}
	return s.Judge.GetPayment(ctx, endToEndID)
}

// TestNodesAtOnce has two nodes read everything at once: it is blocked, decided and debited once.
func TestNodesAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		nodes := []*node{n, n.world.node(n.db), n.world.node(n.db)}
		a := n.account("release_delay=1h")
		var names, payments []string
		c := n.create(a, 1000)
		for range 4 {
			e2e := n.pay(c.TxID, 1000)
			payments = append(payments, e2e)
			for range 3 {
				names = append(names, n.claim(e2e, 400))
			}
		}
		all := func() {
			n.advance(time.Minute)
			var running sync.WaitGroup
			for _, m := range nodes {
				for _, e2e := range payments {
					m.charges.Hint(c.Acquirer, e2e, c.TxID, unsaid)
				}
				for _, f := range []func(context.Context) (bool, error){m.Reconcile, m.charges.FollowHints, m.charges.Reconcile, m.charges.Release} {
					running.Go(func() {
						// One that loses too often against the others comes again.
						for range 20 {
							if _, err := f(t.Context()); err == nil {
								return
							}
						}
						t.Error("it never got through")
					})
				}
			}
			running.Wait()
			n.poll()
		}
		all()
		if b := n.balance(a.ID); b.Blocked != 12*400 || b.Available+b.Pending+b.Blocked != 4000 {
			t.Errorf("%+v", b)
		}
		n.audit(a.ID)
		for i, name := range names {
			n.verdict(name, []string{"accept", "reject", "accept", "cancel", "accept"}[i%5])
		}
		n.advance(time.Hour)
		all()
		n.step(n.charges.Release)
		if b := n.balance(a.ID); b.Blocked != 0 || b.Pending != 0 {
			t.Errorf("%+v", b)
		}
		n.audit(a.ID)
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a, other := n.account(), n.account()
		_, e2e := n.paid(a, 1000)
		_, foreign := n.paid(other, 1000)
		n.claim(foreign, 100)
		for i := range 5 {
			name := n.claim(e2e, money.BRL(100+i))
			n.poll()
			if i%2 == 1 {
				n.verdict(name, "cancel")
			}
		}
		n.poll()
		ctx := t.Context()
		amounts := func(p infraction.Page) (list []money.BRL, more bool, last string) {
			t.Helper()
			found, more, err := n.List(ctx, a.ID, p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range found {
				list = append(list, found[i].Amount)
				last = id.Infraction.Format(found[i].ID)
			}
			return list, more, last
		}
		list, more, last := amounts(infraction.Page{Limit: 3})
		if !slices.Equal(list, []money.BRL{104, 103, 102}) || !more {
			t.Errorf("%v %v", list, more)
		}
		if list, more, _ := amounts(infraction.Page{Limit: 3, StartingAfter: last}); !slices.Equal(list, []money.BRL{101, 100}) || more {
			t.Errorf("%v %v", list, more)
		}
		if list, _, _ := amounts(infraction.Page{Limit: 10, Status: infraction.Cancelled}); !slices.Equal(list, []money.BRL{103, 101}) {
			t.Errorf("%v", list)
		}
		if list, _, _ := amounts(infraction.Page{Limit: 10, Before: n.all(a.ID)[2].ID.Time()}); !slices.Equal(list, []money.BRL{101, 100}) {
			t.Errorf("%v", list)
		}
		strange := id.Infraction.Format(n.all(other.ID)[0].ID)
		if _, _, err := n.List(ctx, a.ID, infraction.Page{Limit: 3, StartingAfter: strange}); !errors.Is(err, infraction.ErrCursor) {
			t.Errorf("%v", err)
		}
		for _, ref := range []string{strange, "inf_", "chg_" + last[4:], ""} {
			if _, err := n.Get(ctx, a.ID, ref); !errors.Is(err, infraction.ErrNotFound) {
				t.Errorf("%q: %v", ref, err)
			}
		}
	})
}
