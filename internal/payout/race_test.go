package payout_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestCrowd sends 200 payouts at once on money for 100: exactly 100 are accepted, on one server or two, and the rest are
// told how much is missing.
func TestCrowd(t *testing.T) {
	t.Parallel()
	crowd := func(t *testing.T, nodes ...*node) {
		t.Helper()
		const many, enough = 200, 100
		n := nodes[0]
		a := n.payer(enough*1100, "cash_out_fee=1.00")
		var all sync.WaitGroup
		var accepted, refused atomic.Int64
		for i := range many {
			all.Go(func() {
				p, outcome, err := nodes[i%len(nodes)].Create(t.Context(), request(a, strconv.Itoa(i), 1000))
				switch f := fault.As(err); {
				case err == nil && outcome == idempotency.Created && p.Status == payout.Processing:
					accepted.Add(1)
				case err != nil && f.Code == "insufficient_balance_for_fees" && f.Details.(payout.Shortage).Missing > 0:
					refused.Add(1)
				default:
					t.Errorf("%d: %s", i, told(p, outcome, err))
				}
			})
		}
		all.Wait()
		if accepted.Load() != enough || refused.Load() != many-enough {
			t.Errorf("%d accepted, %d refused", accepted.Load(), refused.Load())
		}
		if b := n.balance(a.ID); b != (ledger.Balance{InTransit: enough * 1100}) {
			t.Errorf("%+v", b)
		}
		// Available was never below zero, at no moment of the statement.
		var running ledger.Balance
		transfers, err := ledger.Transfers(t.Context(), n.db, ledger.Range{Account: a.ID, Currency: money.CurrencyBRL, Before: maxID, After: minID, Limit: 1000})
		if err != nil || len(transfers) != enough+1 {
			t.Fatalf("%d transfers, %v", len(transfers), err)
		}
		for i := range transfers {
			if running.Apply(&transfers[i]); running.Available < 0 {
				t.Fatalf("%d after %d transfers", running.Available, i+1)
			}
		}
		// All of them settle at once too, told on both servers.
		for _, p := range n.all(a.ID) {
			n.order(p, "settle", nil)
			for _, m := range nodes {
				m.Hint(p.Acquirer, "", p.Name())
			}
		}
		for _, m := range nodes {
			all.Go(func() { _, _ = m.FollowHints(t.Context()) })
			all.Go(func() { _, _ = m.CheckDue(t.Context()) })
		}
		all.Wait()
		n.advance(time.Minute)
		for _, m := range nodes {
			m.step(m.FollowHints)
			m.step(m.CheckDue)
		}
		if b := n.balance(a.ID); b != (ledger.Balance{}) {
			t.Errorf("%+v", b)
		}
		if books := n.books(); len(books) != enough || slices.ContainsFunc(books, func(b book) bool { return b.Executions != 1 }) {
			t.Errorf("%d payouts in the bank's books", len(books))
		}
		n.audit()
	}
	each(t, func(t *testing.T, n *node) { crowd(t, n) })
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		url := sqltest.Postgres(t)
		w := newWorld(t)
		crowd(t, w.node(sqltest.Open(t, url)), w.node(sqltest.Open(t, url)))
	})
}

// TestRacers lets equal requests race on two servers: one payout is made and sent once.
func TestRacers(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		w := newWorld(t)
		db := sqltest.Open(t, url)
		nodes := []*node{w.node(db), w.node(db)}
		if db.IsPostgres() {
			nodes[1] = w.node(sqltest.Open(t, url))
		}
		a := nodes[0].payer(10000)
		r := request(a, "order 42", 1000)
		r.Key = "a key of theirs"
		var all sync.WaitGroup
		var created atomic.Int64
		for i := range 16 {
			all.Go(func() {
				for {
					p, outcome, err := nodes[i%2].Create(t.Context(), r)
					if code := fault.As(err).Code; err != nil && (code == "idempotency_key_in_progress" || code == "external_id_in_progress") {
						_ = clocktest.Real.Wait(t.Context(), time.Millisecond) // the one that is under way needs the processor
						continue
					}
					if err != nil {
						t.Error(told(p, outcome, err))
					}
					if outcome == idempotency.Created {
						created.Add(1)
					}
					return
				}
			})
		}
		all.Wait()
		if created.Load() != 1 || len(nodes[0].all(a.ID)) != 1 || len(w.books()) != 1 || nodes[0].balance(a.ID).Available != 8900 {
			t.Errorf("%d created, %d stored, %d at the bank", created.Load(), len(nodes[0].all(a.ID)), len(w.books()))
		}
		nodes[0].audit()
	})
}

// asked counts the questions to an acquirer about single payouts.
type asked struct {
	acquirer.Payer
	count *atomic.Int64
}

func (a asked) GetPayout(ctx context.Context, name string) (acquirer.Payout, error) {
	a.count.Add(1)
	return a.Payer.GetPayout(ctx, name)
}

// ListPayouts makes mistakes: one payout is worth more than was ordered, and one goes to our own key.
func (a asked) ListPayouts(ctx context.Context, w acquirer.Window) (acquirer.PayoutPage, error) {
	page, err := a.Payer.ListPayouts(ctx, w)
	if w.Exact && len(page.Payouts) > 2 {
		page.Payouts[1].Amount++
		page.Payouts[2].Key = "tesouraria@example.com"
	}
	return page, err
}

// TestHintsTogether shows that one list answers for many notifications, and that what it does not prove is asked for.
func TestHintsTogether(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var count atomic.Int64
		n := newWorld(t).node(db, func(at acquirer.Payer) acquirer.Payer { return asked{at, &count} })
		a := n.payer(1000_00)
		var made []payout.Payout
		for i := range 20 {
			p, _, err := n.Create(t.Context(), request(a, fmt.Sprint("order ", i), 1000))
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, p)
		}
		for i, p := range made {
			switch i {
			case 17:
				n.order(p, "fail", map[string]any{"code": "AC03"})
			case 18: // still under way
			default:
				n.order(p, "settle", nil)
			}
			n.Hint(p.Acquirer, "", p.Name())
		}
		n.order(made[19], "return", nil)
		n.step(n.FollowHints)
		if got := count.Load(); got != 5 {
			t.Errorf("%d questions about single payouts", got)
		}
		for i, p := range made {
			want := payout.Completed
			switch i {
			case 17:
				want = payout.Failed
			case 18:
				want = payout.Processing
			case 19:
				want = payout.Reversed
			}
			if got := n.stored(a.ID, p.ExternalID); got.Status != want {
				t.Errorf("payout %d is %s", i, got.Status)
			}
		}
		n.audit()
	})
}

// lens sees an acquirer and does something around each send.
type lens struct {
	acquirer.Payer
	send func(at acquirer.Payer, send func() (acquirer.Payout, error)) (acquirer.Payout, error)
}

func (l *lens) SendPayout(ctx context.Context, n acquirer.NewPayout) (acquirer.Payout, error) {
	return l.send(l.Payer, func() (acquirer.Payout, error) { return l.Payer.SendPayout(ctx, n) })
}

func through(send func(at acquirer.Payer, send func() (acquirer.Payout, error)) (acquirer.Payout, error)) func(acquirer.Payer) acquirer.Payer {
	return func(at acquirer.Payer) acquirer.Payer { return &lens{at, send} }
}

// TestCrash ends a creation before and after its send, as a crash would: what it left is found, sent by the same name if
// it was not, and ends once.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent %v", sent), func(t *testing.T) {
			t.Parallel()
			sqltest.EachURL(t, func(t *testing.T, url string) {
				t.Helper()
				w := newWorld(t)
				db := sqltest.Open(t, url)
				dying := w.node(db, through(func(_ acquirer.Payer, send func() (acquirer.Payout, error)) (acquirer.Payout, error) {
					if sent {
						_, _ = send()
					}
					runtime.Goexit()
					return acquirer.Payout{}, nil
				}))
				n := w.node(db)
				a := n.payer(10000)
				died := make(chan struct{})
				go func() {
					defer close(died)
					_, _, _ = dying.Create(context.Background(), request(a, "order 42", 1000))
					t.Error("it lives")
				}()
				<-died
				if b := n.balance(a.ID); b != waiting {
					t.Errorf("%+v", b)
				}
				// The caller asks again, and may not be told otherwise than that it is under way.
				if got := told(n.Create(t.Context(), request(a, "order 42", 1000))); got != "existing processing" {
					t.Error(got)
				}
				n.advance(time.Minute)
				n.step(n.CheckDue)
				doubt, err := payout.CountDoubts(t.Context(), db)
				if err != nil || (doubt.Sum == 1100) == sent {
					t.Errorf("%+v in doubt, %v", doubt, err)
				}
				n.advance(5 * time.Minute)
				n.step(n.CheckDue)
				p := n.stored(a.ID, "order 42")
				n.order(p, "settle", nil)
				n.advance(10 * time.Minute)
				n.step(n.CheckDue)
				if p := n.stored(a.ID, "order 42"); p.Status != payout.Completed || n.executions(p) != "alpha 1" {
					t.Errorf("%s at %s", p.Status, n.executions(p))
				}
				if doubt, err := payout.CountDoubts(t.Context(), db); err != nil || doubt != (payout.Doubt{}) {
					t.Errorf("%+v in doubt, %v", doubt, err)
				}
				n.audit()
			})
		})
	}
}

// TestOvertaken sends a payout again, as if it were long forgotten, while its creation, whose node has lost its locks, still
// waits for the first answer: what that answer then says decides nothing any more, whatever it is.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, first := range []error{
		&acquirer.Error{Acquirer: "alpha", Operation: "payout.send", Outcome: acquirer.Refused, Class: acquirer.Down},
		&acquirer.Error{Acquirer: "alpha", Operation: "payout.send", Outcome: acquirer.Refused, Class: acquirer.Business, Code: "chave_invalida"},
		&acquirer.Error{Acquirer: "alpha", Operation: "payout.send", Outcome: acquirer.Unknown, Class: acquirer.Timeout},
	} {
		t.Run(first.Error(), func(t *testing.T) {
			t.Parallel()
			sqltest.EachURL(t, func(t *testing.T, url string) {
				t.Helper()
				w := newWorld(t)
				db := sqltest.Open(t, url)
				other := w.node(sqltest.Open(t, url)) // on SQLite nobody shares locks but who shares the file's handle
				n := w.node(db, through(func(at acquirer.Payer, send func() (acquirer.Payout, error)) (acquirer.Payout, error) {
					if at.Name() != "alpha" {
						return send()
					}
					w.advance(10 * time.Minute)
					other.endLocks()
					other.step(other.CheckDue) // sends it again
					return acquirer.Payout{}, first
				}))
				a := n.payer(10000)
				p, outcome, err := n.Create(t.Context(), request(a, "order 42", 1000))
				want := "ambiguous"
				if acquirer.As(first).Outcome == acquirer.Unknown {
					want = "created processing" // it is there when it is looked for
				}
				if got := told(p, outcome, err); got != want {
					t.Errorf("told %s", got)
				}
				p = n.stored(a.ID, "order 42")
				n.order(p, "settle", nil)
				other.advance(time.Minute)
				other.step(other.CheckDue)
				if p = n.stored(a.ID, "order 42"); p.Status != payout.Completed || n.executions(p) != "alpha 1" || p.Sends != 2 || p.Acquirer != "alpha" {
					t.Errorf("%+v at %s", p, n.executions(p))
				}
				n.audit()
			})
		})
	}
}

// endLocks ends the sessions that hold locks in PostgreSQL, as a network that breaks would.
func (n *node) endLocks() {
	n.t.Helper()
	if !n.db.IsPostgres() {
		return
	}
	sqltest.Wait(n.t, "the locks to be lost", func() bool {
		ended, err := sqldb.All(n.t.Context(), n.db, sqldb.Scalar[bool], `SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		if err != nil {
			n.t.Error(err)
		}
		return len(ended) == 0
	})
}

// TestEarly settles, fails and returns a payout before its own send is answered.
func TestEarly(t *testing.T) {
	t.Parallel()
	for what, status := range map[string]payout.State{"settle": payout.Completed, "fail": payout.Failed} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			sqltest.EachURL(t, func(t *testing.T, url string) {
				t.Helper()
				w := newWorld(t)
				db := sqltest.Open(t, url)
				other := w.node(db)
				n := w.node(db, through(func(_ acquirer.Payer, send func() (acquirer.Payout, error)) (acquirer.Payout, error) {
					seen, err := send()
					w.sim("POST", "/sim/pix/payouts/"+seen.ID+"/"+what, map[string]any{"callback": false}, nil)
					other.Hint("alpha", "", seen.ID)
					other.step(other.FollowHints)
					return seen, err
				}))
				a := n.payer(10000)
				if got := told(n.Create(t.Context(), request(a, "order 42", 1000))); got != "created processing" {
					t.Error(got)
				}
				if p := n.stored(a.ID, "order 42"); p.Status != status {
					t.Error(p.Status)
				}
				n.audit()
			})
		})
	}
}

// TestKeyAfterUnknown repeats a request with its key after it was told that nobody knows.
func TestKeyAfterUnknown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.payer(10000)
		n.fault("alpha", "payout.send", "lost_not_executed", 1)
		r := request(a, "order 42", 1000)
		r.Key = "a key of theirs"
		for _, want := range []string{"ambiguous", "repeated processing", "repeated processing"} {
			if got := told(n.Create(t.Context(), r)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		doubts, err := payout.ListDoubts(t.Context(), n.db)
		if err != nil || len(doubts) != 1 || doubts[0].ExternalID != "order 42" || doubts[0].DoubtAt.IsZero() {
			t.Errorf("%+v, %v", doubts, err)
		}
		n.advance(6 * time.Minute)
		n.step(n.CheckDue)
		n.order(doubts[0], "settle", nil)
		n.Hint("alpha", "", doubts[0].Name())
		n.step(n.FollowHints)
		if got := told(n.Create(t.Context(), r)); got != "repeated completed" {
			t.Error(got)
		}
		r.Amount++
		r.Hash = [32]byte{9}
		if got := told(n.Create(t.Context(), r)); !strings.HasPrefix(got, "IDEMPOTENCY_CONFLICT") {
			t.Error(got)
		}
		r.Key = ""
		if got := told(n.Create(t.Context(), r)); !strings.HasPrefix(got, "EXTERNAL_ID_CONFLICT") {
			t.Error(got)
		}
		n.audit()
	})
}

// TestContradiction has an acquirer send what it is proven not to have: nothing moves, and operators are told.
func TestContradiction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		liar := n.world.node(n.db, through(func(at acquirer.Payer, send func() (acquirer.Payout, error)) (acquirer.Payout, error) {
			if at.Name() != "alpha" {
				return send()
			}
			_, _ = send()
			return acquirer.Payout{}, &acquirer.Error{Acquirer: "alpha", Operation: "payout.send", Outcome: acquirer.Refused, Class: acquirer.Down}
		}))
		a := n.payer(10000)
		if got := told(liar.Create(t.Context(), request(a, "order 42", 1000))); got != "created processing" {
			t.Error(got)
		}
		p := n.stored(a.ID, "order 42")
		n.sim("POST", "/sim/pix/payouts/"+p.Name()+"/settle", map[string]any{"acquirer": "alpha"}, nil)
		n.advance(time.Minute)
		n.step(n.Reconcile)
		if p := n.stored(a.ID, "order 42"); p.Acquirer != "beta" || p.Status != payout.Processing || !strings.Contains(n.log.String(), "contradicts") {
			t.Errorf("%+v\n%s", p, n.log)
		}
		n.audit()
	})
}

// TestAcquirerTakenOut takes an acquirer out of the settings while it has a payout: that is in doubt, and the others go on.
func TestAcquirerTakenOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.payer(10000)
		if got := told(n.Create(t.Context(), request(a, "order 42", 1000))); got != "created processing" {
			t.Error(got)
		}
		w := *n.world
		w.accounts = w.accounts[1:]
		without := w.node(n.db)
		if got := told(without.Create(t.Context(), request(a, "order 43", 1000))); got != "created processing" {
			t.Error(got)
		}
		other := n.stored(a.ID, "order 43")
		n.order(other, "settle", nil)
		n.advance(time.Minute)
		if _, err := without.CheckDue(t.Context()); err == nil || !strings.Contains(err.Error(), "alpha") {
			t.Errorf("told %v", err)
		}
		if p := n.stored(a.ID, "order 43"); p.Status != payout.Completed || p.Acquirer != "beta" {
			t.Errorf("%+v", p)
		}
		if doubts, err := payout.ListDoubts(t.Context(), n.db); err != nil || len(doubts) != 1 || doubts[0].ExternalID != "order 42" {
			t.Errorf("%+v, %v", doubts, err)
		}
		n.step(without.CheckDue) // it was told once, and waits
		n.audit()
	})
}
