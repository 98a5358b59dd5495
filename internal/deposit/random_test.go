package deposit_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestRandomLives lets payers, the provider and two nodes do anything in any order, with creations that die or whose
// answer is lost, and with notifications that are lost, late, repeated and forged: in the end each external_id has one
// address, and our ledger took in what the provider has settled.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				randomLives(t, db, rand.New(rand.NewPCG(seed, 7)))
			})
		})
	}
}

func randomLives(t *testing.T, db *sqldb.DB, random *rand.Rand) {
	t.Helper()
	ctx := t.Context()
	w := newWorld(t)
	first, l := w.seen(db)
	nodes := []*node{first, w.node(db)}
	a := first.account("crypto_in_fee=0.25+1%")
	oneOf := func(words ...string) string { return words[random.IntN(len(words))] }
	asked := map[string]bool{}
	for range 150 {
		n := nodes[random.IntN(len(nodes))]
		books := w.books()
		payment := func() book { return books[random.IntN(len(books))] }
		what := random.IntN(12)
		if len(books) == 0 && what > 3 {
			what = 0
		}
		switch what {
		case 0, 1, 2: // a deposit, again or for the first time
			name := strconv.Itoa(random.IntN(12))
			asked[name] = true
			if kind := oneOf("", "", "lost_executed", "lost_not_executed", "garbage", "http_500", "http_429", "reject"); kind != "" {
				w.fault("payment.create", kind, 1)
			}
			if n == first && random.IntN(4) == 0 {
				l.create = func(ctx context.Context, p chain.NewPayment) (chain.Payment, error) {
					l.create = nil
					if random.IntN(2) == 0 {
						_, _ = l.Provider.CreatePayment(ctx, p)
					}
					runtime.Goexit()
					return chain.Payment{}, nil
				}
			}
			n.dies(func() { _, _, _ = n.Create(context.Background(), request(a, name)) })
			l.create = nil
			w.mend()
		case 3:
			w.advance(time.Duration(1+random.IntN(600)) * time.Second)
		case 4, 5: // coins arrive
			b := payment()
			n.arrive(deposit.Deposit{PayAddress: b.Address}, strconv.Itoa(1+random.IntN(90)), "")
		case 6, 7: // something becomes of them; not everything can
			b := payment()
			order := oneOf("confirm", "confirm", "fail", "expire", "refund")
			can := map[string][]string{
				"confirm": {"confirming"}, "fail": {"waiting", "confirming"}, "expire": {"waiting"}, "refund": {"confirming", "finished", "partially_paid", "failed"},
			}
			for _, status := range can[order] {
				if status == b.Status {
					w.order(b.ID, order)
				}
			}
		case 8: // it is told, perhaps twice, and perhaps more than is true
			b := payment()
			for range 1 + random.IntN(2) {
				n.Hint(providerName, &chain.Payment{ID: b.ID, Status: chain.PaymentFinished, Settled: 1_000_000000})
			}
			_, _ = n.FollowHints(ctx)
		case 9:
			if list := n.all(a.ID); len(list) > 0 {
				_, _ = n.Get(ctx, a.ID, id.CryptoCharge.Format(list[random.IntN(len(list))].ID))
			}
		case 10:
			_, _ = n.CheckDue(ctx)
		case 11:
			_, _ = n.Reconcile(ctx)
		}
	}
	// Everything comes to rest, told by nobody, at a node that knows nothing.
	last := w.node(db)
	for name := range asked {
		_, _, _ = last.Create(ctx, request(a, name))
	}
	for range 4 {
		last.advance(2 * time.Minute)
		last.step(last.CheckDue)
		last.reconcile()
	}
	for _, age := range []time.Duration{time.Hour, 24 * time.Hour, 9 * 24 * time.Hour, 31 * 24 * time.Hour} {
		last.advance(age)
		last.step(last.CheckDue)
		last.reconcile()
	}
	for _, d := range last.all(a.ID) {
		if d.Parent != "" {
			continue
		}
		if made := w.made(d.Reference()); made != 1 || d.PaymentID == "" {
			t.Errorf("%s is %s with %d addresses", d.ExternalID, d.Status, made)
		}
		if d.Status == deposit.Processing || d.Status == deposit.Waiting {
			t.Errorf("%s is %s", d.ExternalID, d.Status)
		}
	}
	last.audit()
}
