package charge_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestRandomLives lets payers, acquirers and two nodes do anything in any order, with notifications that are lost, late
// and repeated: in the end every payment in the bank's books is credited once, less what was given back.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				randomLives(t, db, rand.New(rand.NewPCG(seed, 3)))
			})
		})
	}
}

func randomLives(t *testing.T, db *sqldb.DB, random *rand.Rand) {
	t.Helper()
	type payment struct {
		charge charge.Charge
		e2e    string
		amount money.BRL
		left   money.BRL // of it, not given back
	}
	ctx := t.Context()
	w := newWorld(t)
	nodes := []*node{w.node(db), w.node(db)}
	var charges []charge.Charge
	var payments []*payment
	a := nodes[0].account()
	b := nodes[0].account("cash_in_fee=0.50+1%", "release_delay=30m")
	// burst makes and pays so many charges at once that lists are asked for, most of them as they were asked for.
	burst := func(owner account.Account) {
		maker, at := nodes[random.IntN(len(nodes))], w.clock.Now() // the list begins before all of them
		for range 12 {
			c, _, err := maker.Create(ctx, maker.request(owner, money.BRL(200+random.IntN(2000))))
			if err != nil {
				return
			}
			charges = append(charges, c)
			amount := c.Amount
			if random.IntN(6) == 0 {
				amount += money.BRL(random.IntN(200) - 100)
			}
			for range 1 + random.IntN(6)/5 { // some are paid twice
				p := &payment{c, maker.payAt(c.Acquirer, c.TxID, amount), amount, amount}
				payments = append(payments, p)
				if random.IntN(8) == 0 {
					p.left = 0
					maker.refund(p.e2e, amount)
				}
				hears := maker
				if random.IntN(8) == 0 {
					hears = nodes[0]
				}
				hears.Hint(c.Acquirer, p.e2e, c.TxID, at)
				at = w.clock.Now()
			}
		}
	}
	for range 150 {
		n := nodes[random.IntN(len(nodes))]
		if len(charges) == 0 || random.IntN(8) == 0 {
			owner := a
			if random.IntN(2) == 0 {
				owner = b
			}
			// All may be down; then nothing was made.
			if c, _, err := n.Create(ctx, n.request(owner, money.BRL(200+random.IntN(2000)))); err == nil {
				charges = append(charges, c)
			}
			continue
		}
		c := charges[random.IntN(len(charges))]
		switch roll := random.IntN(20); {
		case roll < 5 && n.stored(c).Status != charge.Cancelled:
			amount := c.Amount + money.BRL(random.IntN(3)-1)*money.BRL(1+random.IntN(100))
			payments = append(payments, &payment{c, n.payAt(c.Acquirer, c.TxID, amount), amount, amount})
			if random.IntN(2) == 0 {
				n.Hint(c.Acquirer, payments[len(payments)-1].e2e, c.TxID, unsaid)
			}
		case roll < 8 && len(payments) > 0: // again, or late
			p := payments[random.IntN(len(payments))]
			n.Hint(p.charge.Acquirer, p.e2e, p.charge.TxID, unsaid)
		case roll < 10 && len(payments) > 0:
			if p := payments[random.IntN(len(payments))]; p.left > 0 {
				amount := min(p.left, p.left/2+money.BRL(random.IntN(int(p.left))+1))
				p.left -= amount
				n.refund(p.e2e, amount)
			}
		case roll < 13:
			_, _ = n.FollowHints(ctx)
		case roll == 13:
			_, _ = n.Reconcile(ctx)
		case roll == 14:
			_, _ = n.Expire(ctx)
		case roll == 15:
			_, _ = n.Release(ctx)
		case roll == 16:
			if _, err := n.Get(ctx, c.Account, c.TxID); err != nil {
				t.Error(err)
			}
		case roll == 17 && random.IntN(2) == 0:
			burst([]account.Account{a, b}[random.IntN(2)])
		case roll == 17:
			w.advance(time.Duration(1+random.IntN(1500)) * time.Second)
		case roll == 18:
			kinds := []string{"http_500", "http_429", "garbage", "lost_executed", "lost_not_executed"}
			w.sim("POST", "/sim/faults", map[string]any{
				"target": []string{"alpha", "beta"}[random.IntN(2)], "operation": []string{"charge.create", "charge.get", "*"}[random.IntN(3)],
				"kind": kinds[random.IntN(len(kinds))], "times": 1 + random.IntN(3), "delay_ms": 1,
			}, nil)
		case roll == 19 && n.stored(c).Status == charge.Pending && random.IntN(3) == 0:
			_, _ = n.Cancel(ctx, "chg_"+c.ID.String())
		}
	}
	// What was lost is found, at the latest when nothing can be given back any more.
	w.mend()
	n := nodes[1]
	for range 4 {
		w.advance(31 * 24 * time.Hour)
		n.step(n.Reconcile)
	}
	n.step(n.Expire)
	n.step(n.Release)

	credited, fees := map[string]money.BRL{}, money.BRL(0)
	var balance int64
	for _, owner := range []id.Account{a.ID, b.ID} {
		got := n.balance(owner)
		if got.Pending != 0 {
			t.Errorf("%d are still pending", got.Pending)
		}
		balance += got.Available
		all, err := ledger.Transfers(ctx, db, ledger.Range{Account: owner, Currency: money.CurrencyBRL, After: id.First(time.UnixMicro(0)), Before: id.Max, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range all {
			switch {
			case x.Source == ledger.Acquirer:
				credited[x.OnceKey] += money.BRL(x.Amount.Units)
			case x.Target == ledger.Fees:
				fees += money.BRL(x.Amount.Units)
			}
		}
	}
	unseen := map[id.ID]bool{} // given back before they were credited
	for _, c := range charges {
		now := n.stored(c)
		unseen[c.ID] = now.Status == charge.Refunded && now.PaidAt.IsZero()
		if now.Status == charge.Pending {
			t.Errorf("%s is still pending", c.TxID)
		}
	}
	for _, p := range payments {
		if got := credited[p.e2e]; got != p.amount && (got != 0 || p.left != 0 || !unseen[p.charge.ID]) {
			t.Errorf("%s of %s: %s were credited", p.e2e, p.amount, got)
		}
	}
	if len(payments) == 0 || len(charges) < 5 {
		t.Errorf("only %d payments of %d charges", len(payments), len(charges))
	}
	if got, want := money.BRL(balance)+fees, w.books(); got != want {
		t.Errorf("balances and fees are %s, the bank's books say %s", got, want)
	}
	n.audit()
}
