package infraction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// livesVariable says how many infractions a random test opens; by hand that may be many.
const (
	livesVariable = "PONTE_MED_LIVES"
	livesDefault  = 60
)

func livesMax(t *testing.T) int {
	t.Helper()
	text := os.Getenv(livesVariable)
	if text == "" {
		return livesDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number of infractions", livesVariable, text)
	}
	return n
}

// TestRandomLives lets payers, acquirers, accounts and two nodes do anything in any order, with answers that are lost,
// acquirers that are down and nodes that forget everything: in the end all infractions are where the bank says they are,
// and the books are the bank's.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				r := &randomLives{world: newWorld(t), db: db, random: rand.New(rand.NewPCG(seed, 6)), states: map[string]infraction.State{}}
				r.run(t, livesMax(t))
			})
		})
	}
}

// payment is one that was made, and what of it the bank still has.
type payment struct {
	charge charge.Charge
	e2e    string
	amount money.BRL
}

type randomLives struct {
	*world
	db       *sqldb.DB
	random   *rand.Rand
	nodes    []*node
	owners   []account.Account
	charges  []charge.Charge
	payments []payment
	open     []string // infractions that the bank has not decided
	states   map[string]infraction.State
}

func (r *randomLives) run(t *testing.T, count int) {
	t.Helper()
	r.nodes = []*node{r.node(r.db), r.node(r.db)}
	for _, settings := range [][]string{nil, {"release_delay=2h"}, {"cash_in_fee=0.50+1%", "release_delay=30m"}} {
		r.owners = append(r.owners, r.nodes[0].account(settings...))
	}
	for len(r.states) < count {
		r.deed(t)
	}
	r.end(t)
}

// deed does one thing. What fails because somebody is down is tried again by who comes next.
func (r *randomLives) deed(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	n := r.nodes[r.random.IntN(len(r.nodes))]
	steps := []func(context.Context) (bool, error){
		n.Reconcile, n.Reconcile, n.HandIn, n.charges.Reconcile, n.charges.FollowHints, n.charges.Release, n.charges.Expire,
	}
	switch dice := r.random.IntN(100); {
	case len(r.charges) == 0 || dice < 8:
		c, _, err := n.charges.Create(ctx, charge.Request{
			Account: r.owners[r.random.IntN(len(r.owners))], Key: "key-" + n.IDs.New().String(), Amount: money.BRL(200 + r.random.IntN(2000)), ExpiresIn: time.Hour,
		})
		if err == nil { // all may be down; then nothing was made
			r.charges = append(r.charges, c)
		}
	case dice < 18:
		c := r.charges[r.random.IntN(len(r.charges))]
		amount := c.Amount
		if r.random.IntN(4) == 0 {
			amount = money.BRL(1 + r.random.IntN(3000))
		}
		e2e := r.pay(c.TxID, amount)
		r.payments = append(r.payments, payment{c, e2e, amount})
		if r.random.IntN(2) == 0 {
			n.charges.Hint(c.Acquirer, e2e, c.TxID, unsaid)
		}
	case dice < 34 && len(r.payments) > 0:
		p := r.payments[r.random.IntN(len(r.payments))]
		amount := p.amount
		if r.random.IntN(2) == 0 {
			amount = 1 + money.BRL(r.random.IntN(int(p.amount)))
		}
		name := r.claim(p.e2e, amount)
		r.open = append(r.open, name)
		r.states[name] = infraction.Open
	case dice < 46 && len(r.open) > 0:
		i := r.random.IntN(len(r.open))
		verdict := []struct {
			how string
			is  infraction.State
		}{{"accept", infraction.Accepted}, {"accept", infraction.Accepted}, {"reject", infraction.Rejected}, {"cancel", infraction.Cancelled}}[r.random.IntN(4)]
		r.verdict(r.open[i], verdict.how)
		r.states[r.open[i]] = verdict.is
		r.open = append(r.open[:i], r.open[i+1:]...)
	case dice < 50 && len(r.payments) > 0:
		p := r.payments[r.random.IntN(len(r.payments))]
		r.try("/sim/pix/refund", fmt.Sprintf(`{"end_to_end_id": %q, "amount": %q}`, p.e2e, 1+money.BRL(r.random.IntN(int(p.amount)))))
		n.charges.Hint(p.charge.Acquirer, p.e2e, p.charge.TxID, unsaid)
	case dice < 56:
		owner := r.owners[r.random.IntN(len(r.owners))]
		list, _, err := n.List(ctx, owner.ID, infraction.Page{Status: infraction.Open, Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 { // it may be decided in the bank, and here meanwhile
			_, _ = n.say(list[r.random.IntN(len(list))], "entregue")
		}
	case dice < 60:
		r.try("/sim/faults", fmt.Sprintf(`{"target": %q, "operation": %q, "kind": %q, "times": %d, "delay_ms": 1}`,
			[]string{"alpha", "beta"}[r.random.IntN(2)], []string{"med.list", "med.defend", "charge.get", "*"}[r.random.IntN(4)],
			[]string{"http_500", "http_429", "lost_executed", "lost_not_executed", "garbage"}[r.random.IntN(5)], 1+r.random.IntN(3)))
	case dice < 63: // as a crash would
		r.nodes[r.random.IntN(len(r.nodes))] = r.restart(r.db)
	case dice < 75:
		r.advance([]time.Duration{time.Second, 20 * time.Second, time.Minute, 20 * time.Minute}[r.random.IntN(4)])
	default:
		_, _ = steps[r.random.IntN(len(steps))](ctx)
	}
}

// try calls a control route that may refuse.
func (r *randomLives) try(path, body string) {
	r.t.Helper()
	status, answer := r.call("POST", path, body)
	if status >= http.StatusInternalServerError {
		r.t.Fatalf("%s %s: %d %s", path, body, status, answer)
	}
}

// end lets everything come to rest and holds it against the bank.
func (r *randomLives) end(t *testing.T) {
	t.Helper()
	r.mend()
	n := r.node(r.db)
	for _, wait := range []time.Duration{time.Minute, 20 * time.Minute, 3 * time.Hour, 25 * time.Hour, time.Minute} {
		r.advance(wait)
		for _, step := range []func(context.Context) (bool, error){n.charges.Reconcile, n.Reconcile, n.HandIn, n.charges.Release, n.charges.Expire} {
			n.step(step)
		}
	}
	var owners []id.Account
	found := map[string]infraction.State{}
	for _, a := range r.owners {
		owners = append(owners, a.ID)
		list := n.all(a.ID)
		for i := range list {
			found[list[i].AcquirerID] = list[i].Status
		}
	}
	for name, want := range r.states {
		got, ok := found[name]
		if !ok || (got != want && (want != infraction.Open || got != infraction.UnderReview)) {
			t.Errorf("infraction %s is %q, in the bank it is %s", name, got, want)
		}
	}
	if len(found) != len(r.states) {
		t.Errorf("%d infractions here, %d in the bank", len(found), len(r.states))
	}
	n.audit(owners...)
}
