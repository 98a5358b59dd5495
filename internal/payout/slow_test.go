package payout_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestNoTurn lets a creation wait for a database that is busy with somebody else: it ends in time, nothing is stored or
// sent, and the same request succeeds later.
func TestNoTurn(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		if strings.HasPrefix(url, "postgres") {
			url += map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")] + "pool_max_conns=1"
		}
		n := newWorld(t).node(sqltest.Open(t, url))
		a := n.payer(10000)
		n.SetLimits(100*time.Millisecond, time.Minute)
		busy, free := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- n.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE balance SET amount = amount WHERE account_id = $1`, 0) // from here on it has its turn
				close(busy)
				<-free
				return errors.Join(errors.New("nothing to write"), err)
			})
		}()
		<-busy
		p, outcome, err := n.Create(t.Context(), request(a, "order 42", 1000))
		close(free)
		<-ended
		if !errors.Is(err, sqldb.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s", told(p, outcome, err))
		}
		if len(n.all(a.ID)) != 0 || n.balance(a.ID) != (ledger.Balance{Available: 10000}) || len(n.books()) != 0 {
			t.Errorf("%+v, %+v", n.all(a.ID), n.balance(a.ID))
		}
		n.SetLimits(time.Minute, time.Minute)
		if got := told(n.Create(t.Context(), request(a, "order 42", 1000))); got != "created processing" {
			t.Error(got)
		}
		n.audit()
	})
}

// TestBusyBalance lets a creation wait for a balance that another transaction has locked: it ends in time too, although it
// has begun to write.
func TestBusyBalance(t *testing.T) {
	t.Parallel()
	n := newWorld(t).node(sqltest.Open(t, sqltest.Postgres(t)))
	a := n.payer(10000)
	n.SetLimits(200*time.Millisecond, time.Minute)
	busy, free := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- n.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE balance SET amount = amount WHERE account_id = $1`, int64(a.ID))
			close(busy)
			<-free
			return err
		})
	}()
	<-busy
	began := n.clock.Real()
	p, outcome, err := n.Create(t.Context(), request(a, "order 42", 1000))
	if took := n.clock.RealSince(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	close(free)
	if writeErr := <-ended; writeErr != nil || !errors.Is(err, sqldb.ErrUnavailable) {
		t.Errorf("%s, %v", told(p, outcome, err), writeErr)
	}
	if len(n.all(a.ID)) != 0 || n.balance(a.ID) != (ledger.Balance{Available: 10000}) || len(n.books()) != 0 {
		t.Errorf("%+v, %+v", n.all(a.ID), n.balance(a.ID))
	}
	n.audit()
}

// TestHeldTooLate has no time left once the money is held: that nobody was asked is certain, so it is given back at once
// and is not in doubt.
func TestHeldTooLate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.payer(10000)
		if got := told(n.Create(t.Context(), request(a, "a token", 1000))); got != "created processing" {
			t.Fatal(got)
		}
		n.SetLimits(time.Minute, 0)
		if got := told(n.Create(t.Context(), request(a, "order 42", 1000))); got != "created failed" {
			t.Error(got)
		}
		p := n.stored(a.ID, "order 42")
		if got := n.executions(p); got != "" || !p.DoubtAt.IsZero() {
			t.Errorf("%q, in doubt since %v", got, p.DoubtAt)
		}
		if b := n.balance(a.ID); b != (ledger.Balance{Available: 8900, InTransit: 1100}) {
			t.Errorf("%+v", b)
		}
		n.audit()
	})
}

// TestLeapOverASend has the clock leap while the first send has not left yet. A second one would be refused, its acquirer
// would not know the payout, and its money would come back; and then leave.
func TestLeapOverASend(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		door := &door{asked: make(chan struct{}), open: make(chan struct{})}
		w := newWorld(t)
		n := w.node(sqltest.Open(t, url), func(at acquirer.Payer) acquirer.Payer { return behind{at, door} })
		nodes := []*node{n}
		if n.db.IsPostgres() {
			nodes = append(nodes, w.node(sqltest.Open(t, url)))
		}
		a := n.payer(10000)
		answer := make(chan string)
		go func() { answer <- told(n.Create(t.Context(), request(a, "order 42", 1000))) }()
		<-door.asked
		n.advance(10 * time.Minute)
		n.fault("alpha", "payout.send", "reject", 0)
		for _, m := range nodes {
			m.step(m.CheckDue)
		}
		n.mend()
		close(door.open)
		if got := <-answer; got != "created processing" {
			t.Error(got)
		}
		p := n.stored(a.ID, "order 42")
		n.order(p, "settle", nil)
		n.advance(10 * time.Minute)
		n.step(n.CheckDue)
		if p = n.stored(a.ID, "order 42"); p.Status != payout.Completed || n.executions(p) != "alpha 1" {
			t.Errorf("%s, executed %q", p.Status, n.executions(p))
		}
		n.audit()
	})
}

// door stops the first send until it is opened.
type door struct {
	passed      atomic.Bool
	asked, open chan struct{}
}

// behind is an acquirer behind a door.
type behind struct {
	acquirer.Payer
	door *door
}

func (b behind) SendPayout(ctx context.Context, n acquirer.NewPayout) (acquirer.Payout, error) {
	if b.door.passed.CompareAndSwap(false, true) {
		close(b.door.asked)
		<-b.door.open
	}
	return b.Payer.SendPayout(ctx, n)
}
