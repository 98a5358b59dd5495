package deposit_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestCreations asks for an address of a provider that answers in every way, and asks the same again at once, and once
// more after long enough: whatever it answers, one address is made, or the request is free to be repeated.
func TestCreations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, c := range []struct {
			name      string
			operation string
			kind      string
			want      string // told at first, then at once, then after a while
			asks      int64
			minutes   int // until then
		}{
			{"accepted", "", "", "created waiting, existing waiting, existing waiting", 1, 0},
			{"refuses connections", "payment.create", "refuse", "provider_unavailable, created waiting, existing waiting", 1, 0},
			{"asked too often", "payment.create", "http_429", "provider_unavailable, created waiting, existing waiting", 1, 0},
			{"refused", "payment.create", "reject", "charge_failed, created waiting, existing waiting", 1, 0},
			{"made, and the answer lost", "payment.create", "lost_executed", "created processing, existing waiting, existing waiting", 1, 0},
			{"made, and the answer unreadable", "payment.create", "garbage", "created processing, existing waiting, existing waiting", 1, 0},
			{"not made, and the answer lost", "payment.create", "lost_not_executed", "created processing, existing processing, existing waiting", 2, 2},
			{"out of order", "payment.create", "http_500", "created processing, existing processing, existing waiting", 2, 2},
			{"the minimum is not told", "minimum", "http_500", "created waiting, existing waiting, existing waiting", 1, 0},
			{"the minimum is worth nobody knows what", "estimate", "lost_not_executed", "created waiting, existing waiting, existing waiting", 1, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				n := n.in(t)
				a := n.account()
				n.advance(2 * time.Minute) // minimums are forgotten
				if c.kind != "" {
					n.fault(c.operation, c.kind, 1)
				}
				var got []string
				for i := range 3 {
					if i == 1 {
						n.mend()
					}
					if i == 2 {
						n.advance(time.Second + time.Duration(c.minutes)*time.Minute)
					}
					got = append(got, told(n.Create(t.Context(), request(a, "order"))))
				}
				if list := strings.Join(got, ", "); list != c.want {
					t.Errorf("%s, want %s\n%s", list, c.want, n.log)
				}
				list := n.all(a.ID)
				if len(list) != 1 {
					t.Fatalf("%d deposits", len(list))
				}
				d := list[0]
				if d.Asks != c.asks || n.made(d.Reference()) != 1 || d.PayAddress == "" || d.PaymentID == "" || !d.PayAmount.Valid || d.ExpiresAt.IsZero() {
					t.Errorf("%+v, %d addresses", d, n.made(d.Reference()))
				}
				if e := n.events(a.ID); e != "created waiting" {
					t.Errorf("events %s", e)
				}
			})
		}
		n.audit()
	})
}

// TestRefusals are requests that no provider is asked about. Each leaves nothing behind.
func TestRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, c := range []struct {
			name     string
			settings []string
			change   func(*deposit.Request)
			want     string
		}{
			{"no such coin", nil, func(r *deposit.Request) { r.PayCurrency = "shib" }, "unsupported_currency"},
			{"a coin that is only sent", nil, func(r *deposit.Request) { r.PayCurrency = "usdterc20" }, "unsupported_currency"},
			{"below the floor of USDT", nil, func(r *deposit.Request) { r.Price = 19_99 }, "below_minimum"},
			{"at the floor of USDT", nil, func(r *deposit.Request) { r.Price = 20_00 }, "created waiting"},
			{"below the floor of others", nil, func(r *deposit.Request) { r.Price, r.PayCurrency = 14_99, "ltc" }, "below_minimum"},
			{"at the floor of others", nil, func(r *deposit.Request) { r.Price, r.PayCurrency = 15_00, "ltc" }, "created waiting"},
			{"limit", []string{"crypto_tx_limit=49.99"}, func(*deposit.Request) {}, "invalid_request"},
			{"at the limit", []string{"crypto_tx_limit=50"}, func(*deposit.Request) {}, "created waiting"},
			{"crypto off", []string{"crypto=off"}, func(*deposit.Request) {}, "crypto_disabled"},
			{"cash-in off", []string{"api_cashin=off"}, func(*deposit.Request) {}, "api_cashin_disabled"},
			{"unknown owner", []string{"kyc=pending"}, func(*deposit.Request) {}, "kyc_required"},
		} {
			t.Run(c.name, func(t *testing.T) {
				n := n.in(t)
				a := n.account(c.settings...)
				r := request(a, "order")
				c.change(&r)
				if got := told(n.Create(t.Context(), r)); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				if made := len(n.all(a.ID)) == 1; made != strings.HasPrefix(c.want, "created") {
					t.Errorf("%d deposits", len(n.all(a.ID)))
				}
			})
		}
	})
}

// A coin that is switched off is refused, whether the minimum tells or the creation does.
func TestCoinSwitchedOff(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		n.do("POST", "/sim/crypto/currencies/usdtbsc", map[string]any{"enabled": false}, nil)
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "unsupported_currency" {
			t.Errorf("%s", got)
		}
		n.do("POST", "/sim/crypto/currencies/usdtbsc", map[string]any{"enabled": true}, nil)
		n.create(a, "order")
		n.do("POST", "/sim/crypto/currencies/usdtbsc", map[string]any{"enabled": false}, nil)
		if got := told(n.Create(t.Context(), request(a, "while the minimum is remembered"))); got != "unsupported_currency" {
			t.Errorf("%s", got)
		}
		if len(n.all(a.ID)) != 1 {
			t.Errorf("%d deposits", len(n.all(a.ID)))
		}
	})
}

// A network that takes more than we do is believed, beforehand and at last.
func TestNetworkMinimum(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account()
		l.least = func(context.Context, string) (decimal.Decimal, error) { return decimal.NewFromInt(75), nil }
		r := request(a, "order")
		for price, want := range map[money.USD]string{50_00: "below_minimum", 74_00: "below_minimum", 76_00: "created waiting"} {
			r.Price, r.ExternalID = price, price.String()
			if got := told(n.Create(t.Context(), r)); got != want {
				t.Errorf("%s: %s, want %s", price, got, want)
			}
		}
		l.create = func(context.Context, chain.NewPayment) (chain.Payment, error) {
			return chain.Payment{}, &chain.Error{Outcome: chain.Refused, Class: chain.Business, Cause: chain.ErrBelowMinimum}
		}
		r.Price, r.ExternalID = 80_00, "refused at last"
		if got := told(n.Create(t.Context(), r)); got != "below_minimum" || len(n.all(a.ID)) != 1 {
			t.Errorf("%s, %d deposits", got, len(n.all(a.ID)))
		}
	})
}

func TestEveryCoin(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a, made := n.account("crypto_in_fee=0"), 0
		for _, coin := range chain.Coins {
			if !coin.Deposit {
				continue
			}
			r := request(a, coin.Code)
			r.PayCurrency = coin.Code
			d, outcome, err := n.Create(t.Context(), r)
			if got := told(d, outcome, err); got != "created waiting" {
				t.Errorf("%s: %s", coin.Code, got)
				continue
			}
			made++
			if -d.PayAmount.Decimal.Exponent() > int32(coin.NetworkDecimals) || (coin.Code == "xrp") != (d.PayExtraID != "") {
				t.Errorf("%s: pay %s with %q", coin.Code, d.PayAmount.Decimal, d.PayExtraID)
			}
			n.order(n.arrive(d, d.PayAmount.Decimal.String(), ""), "confirm")
			paid, err := n.Get(t.Context(), a.ID, "ext:"+coin.Code)
			if err != nil || paid.Status != deposit.Paid || paid.AmountStatus != deposit.Exact || paid.Received < 45_000000 || paid.Received > 55_000000 {
				t.Errorf("%s: %s %s %s %v", coin.Code, paid.Status, paid.AmountStatus, paid.Received, err)
			}
		}
		if made != 15 {
			t.Errorf("%d coins", made)
		}
		n.audit()
	})
}

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a, b := n.account(), n.account()
		ask := func(owner account.Account, key, externalID, body string) string {
			r := request(owner, externalID)
			r.Key, r.Hash = key, [32]byte([]byte(strings.Repeat(body, 32)))
			return told(n.Create(t.Context(), r))
		}
		for _, c := range []struct{ name, got, want string }{
			{"both", ask(a, "key-00001", "one", "x"), "created waiting"},
			{"same again", ask(a, "key-00001", "one", "x"), "replayed waiting"},
			{"the key alone", ask(a, "key-00001", "", "x"), "replayed waiting"},
			{"the external_id alone", ask(a, "", "one", "x"), "existing waiting"},
			{"with another key", ask(a, "key-00002", "one", "x"), "existing waiting"},
			{"and again", ask(a, "key-00002", "one", "x"), "repeated waiting"},
			{"another body with the key", ask(a, "key-00001", "one", "y"), "idempotency_conflict"},
			{"another body with the external_id", ask(a, "", "one", "y"), "idempotency_conflict"},
			{"another body with another key", ask(a, "key-00003", "one", "y"), "idempotency_conflict"},
			{"another account", ask(b, "key-00001", "one", "y"), "created waiting"},
			{"a key alone", ask(a, "key-00004", "", "z"), "created waiting"},
			{"a key alone again", ask(a, "key-00004", "", "z"), "replayed waiting"},
		} {
			if c.got != c.want {
				t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
			}
		}
		// It serves one deposit only, also after that has expired and its key is forgotten.
		n.order(n.stored(a.ID, "one").PaymentID, "expire")
		n.advance(8 * 24 * time.Hour)
		n.step(n.CheckDue)
		if got := ask(a, "key-00001", "one", "x"); got != "existing expired" {
			t.Errorf("%s", got)
		}
		if len(n.all(a.ID)) != 2 || len(n.all(b.ID)) != 1 {
			t.Errorf("%d and %d deposits", len(n.all(a.ID)), len(n.all(b.ID)))
		}
	})
}

// lens is a provider seen through what goes wrong.
type lens struct {
	chain.Provider
	create func(context.Context, chain.NewPayment) (chain.Payment, error)
	list   func(context.Context, chain.Window) (chain.Page, error)
	get    func(context.Context, string) (chain.Payment, error)
	least  func(context.Context, string) (decimal.Decimal, error)
}

func (l *lens) Minimum(ctx context.Context, currency string) (decimal.Decimal, error) {
	if l.least == nil {
		return l.Provider.Minimum(ctx, currency)
	}
	return l.least(ctx, currency)
}

func (l *lens) CreatePayment(ctx context.Context, n chain.NewPayment) (chain.Payment, error) {
	if l.create == nil {
		return l.Provider.CreatePayment(ctx, n)
	}
	return l.create(ctx, n)
}

func (l *lens) ListPayments(ctx context.Context, w chain.Window) (chain.Page, error) {
	if l.list == nil {
		return l.Provider.ListPayments(ctx, w)
	}
	return l.list(ctx, w)
}

func (l *lens) GetPayment(ctx context.Context, paymentID string) (chain.Payment, error) {
	if l.get == nil {
		return l.Provider.GetPayment(ctx, paymentID)
	}
	return l.get(ctx, paymentID)
}

// seen returns a node whose provider is seen through a lens.
func (w *world) seen(db *sqldb.DB) (*node, *lens) {
	w.t.Helper()
	l := &lens{}
	return w.node(db, func(p chain.Provider) chain.Provider { l.Provider = p; return l }), l
}

// TestDeaths lets the process die between the row, the provider's call and the update. Whatever it left is brought to an
// end by a node that was started afterwards, with one address.
func TestDeaths(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		for _, c := range []struct {
			name string
			die  func(context.Context, chain.NewPayment) (chain.Payment, error)
			asks int64
		}{
			{"before the provider is asked", func(context.Context, chain.NewPayment) (chain.Payment, error) {
				runtime.Goexit()
				return chain.Payment{}, nil
			}, 2},
			{"after the provider has made it", func(ctx context.Context, p chain.NewPayment) (chain.Payment, error) {
				_, err := l.Provider.CreatePayment(ctx, p)
				if err != nil {
					t.Error(err)
				}
				runtime.Goexit()
				return chain.Payment{}, nil
			}, 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				n := n.in(t)
				a := n.account()
				l.create = c.die
				n.dies(func() { _, _, _ = n.Create(context.Background(), request(a, "order")) })
				d := n.stored(a.ID, "order")
				if d.Status != deposit.Processing {
					t.Fatalf("%s", d.Status)
				}
				other := n.world.node(db)
				// Asking again at once is no harm, and neither is dying again.
				other.advance(30 * time.Second)
				other.step(other.CheckDue)
				n.advance(2 * time.Minute)
				n.dies(func() { _, _ = n.CheckDue(context.Background()) })
				for range 3 {
					n.advance(2 * time.Minute)
					other.step(other.CheckDue)
				}
				d = n.stored(a.ID, "order")
				made := n.made(d.Reference())
				if d.Status != deposit.Waiting || made != 1 || d.Asks < c.asks {
					t.Errorf("%s after %d asks with %d addresses", d.Status, d.Asks, made)
				}
				if got := told(other.Create(t.Context(), request(a, "order"))); got != "existing waiting" {
					t.Errorf("%s", got)
				}
				if e := n.events(a.ID); e != "created waiting" {
					t.Errorf("events %s", e)
				}
			})
		}
		n.audit()
	})
}

// dies runs f in a goroutine of its own, which may not come back.
func (n *node) dies(f func()) {
	var one sync.WaitGroup
	one.Go(f)
	one.Wait()
}

// Several nodes and callers that all want the address of a lost creation end with one, however the clock was moved
// meanwhile.
func TestRecoveryRace(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n := w.node(db)
		a := n.account()
		const deposits, nodes = 5, 3
		w.fault("payment.create", "lost_not_executed", deposits)
		for i := range deposits {
			if got := told(n.Create(t.Context(), request(a, string(rune('a'+i))))); got != "created processing" {
				t.Fatalf("%s", got)
			}
		}
		w.advance(10 * time.Minute)
		var all sync.WaitGroup
		for range nodes {
			other := w.node(db)
			all.Go(func() {
				if _, err := other.CheckDue(t.Context()); err != nil {
					t.Error(err)
				}
			})
			for i := range deposits {
				all.Go(func() {
					got := told(other.Create(t.Context(), request(a, string(rune('a'+i)))))
					if got != "existing waiting" && got != "existing processing" && got != "external_id_in_progress" {
						t.Error(got)
					}
				})
			}
		}
		all.Wait()
		for range 2 {
			w.advance(2 * time.Minute)
			n.step(n.CheckDue)
		}
		for _, d := range n.all(a.ID) {
			if made := n.made(d.Reference()); d.Status != deposit.Waiting || made != 1 {
				t.Errorf("%s is %s with %d addresses", d.ExternalID, d.Status, made)
			}
		}
		n.audit()
	})
}

// A creation that is still under way is not asked for again, however far the clock was moved.
func TestSlowCreationIsAwaited(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account()
		began, goOn := make(chan struct{}), make(chan struct{})
		l.create = func(ctx context.Context, p chain.NewPayment) (chain.Payment, error) {
			close(began)
			<-goOn
			return l.Provider.CreatePayment(ctx, p)
		}
		answer := make(chan string)
		go func() { answer <- told(n.Create(context.Background(), request(a, "order"))) }()
		<-began
		other := w.node(db)
		for range 3 {
			w.advance(10 * time.Minute)
			other.step(other.CheckDue)
		}
		close(goOn)
		if got := <-answer; got != "created waiting" {
			t.Errorf("%s", got)
		}
		if d := n.stored(a.ID, "order"); n.made(d.Reference()) != 1 || d.Asks != 1 {
			t.Errorf("%d addresses after %d asks", n.made(d.Reference()), d.Asks)
		}
	})
}

// A list that fails, or that is too long to be read, proves nothing: nothing is asked for again.
func TestUnreadableListProvesNothing(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account()
		w.fault("payment.create", "lost_executed", 1)
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "created processing" {
			t.Fatalf("%s", got)
		}
		for name, list := range map[string]func(context.Context, chain.Window) (chain.Page, error){
			"fails": func(context.Context, chain.Window) (chain.Page, error) {
				return chain.Page{}, &chain.Error{Class: chain.Down}
			},
			"nonsense": func(context.Context, chain.Window) (chain.Page, error) { return chain.Page{Unreadable: 1}, nil },
			"endless":  func(context.Context, chain.Window) (chain.Page, error) { return chain.Page{Next: "more"}, nil },
		} {
			l.list = list
			w.advance(10 * time.Minute)
			n.step(n.CheckDue)
			if d := n.stored(a.ID, "order"); d.Status != deposit.Processing || d.Asks != 1 {
				t.Errorf("%s: %s after %d asks", name, d.Status, d.Asks)
			}
		}
		l.list = nil
		w.advance(10 * time.Minute)
		n.step(n.CheckDue)
		if d := n.stored(a.ID, "order"); d.Status != deposit.Waiting || n.made(d.Reference()) != 1 {
			t.Errorf("%s", d.Status)
		}
	})
}

// A payment of the list that makes no sense is looked at again later, not in every step; and what is looked through is the
// time in which it could be made, not all that came since.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account()
		w.fault("payment.create", "lost_executed", 1)
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "created processing" {
			t.Fatalf("%s", got)
		}
		d := n.stored(a.ID, "order")
		for name, listed := range map[string]chain.Payment{
			"no address":        {ID: "1", Reference: d.Reference(), PayCurrency: "usdtbsc"},
			"only its children": {ID: "2", Parent: "1", Reference: d.Reference(), PayCurrency: "usdtbsc"},
		} {
			var seen chain.Window
			l.list = func(_ context.Context, asked chain.Window) (chain.Page, error) {
				seen = asked
				return chain.Page{Payments: []chain.Payment{listed}}, nil
			}
			w.advance(72 * time.Hour)
			n.step(n.CheckDue)
			if span := seen.To.Sub(seen.From); span <= 0 || span > 25*time.Hour {
				t.Errorf("%s: looked through %v", name, span)
			}
			if d = n.stored(a.ID, "order"); d.Status != deposit.Processing || d.Asks != 1 || !d.CheckAt.After(w.clock.Now()) {
				t.Errorf("%s: %s after %d asks, looked for again at %v", name, d.Status, d.Asks, d.CheckAt)
			}
		}
		l.list = nil
		w.advance(10 * time.Minute)
		n.step(n.CheckDue)
		if d := n.stored(a.ID, "order"); d.Status != deposit.Waiting || n.made(d.Reference()) != 1 {
			t.Errorf("%s", d.Status)
		}
	})
}

// What is refused at the second asking has failed: its caller was told that it exists.
func TestRefusedAtTheSecondAsking(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		n.fault("payment.create", "lost_not_executed", 1)
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "created processing" {
			t.Fatalf("%s", got)
		}
		n.advance(2 * time.Minute)
		n.fault("payment.create", "http_429", 1) // says nothing about the deposit
		n.step(n.CheckDue)
		if d := n.stored(a.ID, "order"); d.Status != deposit.Processing {
			t.Fatalf("%s", d.Status)
		}
		n.mend()
		n.fault("payment.create", "reject", 1)
		n.advance(2 * time.Minute)
		n.step(n.CheckDue)
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "existing failed" || n.events(a.ID) != "failed" {
			t.Errorf("%s, events %s", got, n.events(a.ID))
		}
		n.audit()
	})
}

// Of two payments that were made for one deposit, the older one is its own, for every node; money that comes to the other
// is not lost.
func TestTwoPaymentsForOneDeposit(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account("crypto_in_fee=0")
		var made []chain.Payment
		l.create = func(ctx context.Context, p chain.NewPayment) (chain.Payment, error) {
			for range 2 {
				one, err := l.Provider.CreatePayment(ctx, p)
				if err != nil {
					t.Error(err)
				}
				made = append(made, one)
			}
			return chain.Payment{}, &chain.Error{Class: chain.Timeout}
		}
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "created processing" {
			t.Fatalf("%s", got)
		}
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "existing waiting" {
			t.Fatalf("%s", got)
		}
		d := n.stored(a.ID, "order")
		if d.PaymentID != made[0].ID || d.PayAddress != made[0].Address {
			t.Errorf("it has the payment %s of %s and %s", d.PaymentID, made[0].ID, made[1].ID)
		}
		second := d
		second.PayAddress, second.PayExtraID = made[1].Address, made[1].ExtraID
		n.order(n.arrive(second, "30", ""), "confirm")
		n.reconcile()
		if b := n.balance(a.ID); b != 29_850000 || n.stored(a.ID, "order").Status != deposit.Waiting {
			t.Errorf("%s, %s", b, n.stored(a.ID, "order").Status)
		}
		n.audit()
	})
}

// Reads share questions, and one that nobody answers does not keep its caller.
func TestGetWhenTheProviderIsSilent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		d := n.create(a, "order")
		n.fault("payment.get", "http_500", 0)
		got, err := n.Get(t.Context(), a.ID, "ext:order")
		if err != nil || got.Status != deposit.Waiting || !strings.Contains(n.log.String(), "could not be asked") {
			t.Errorf("%s, %v", got.Status, err)
		}
		n.mend()
		for _, ref := range []string{"ext:", "ext:other", "ccr_x", d.PaymentID, "chg_" + d.ID.String(), ""} {
			if _, err := n.Get(t.Context(), a.ID, ref); !errors.Is(err, deposit.ErrNotFound) {
				t.Errorf("%q: %v", ref, err)
			}
		}
		other := n.account()
		for _, ref := range []string{"ext:order", id.CryptoCharge.Format(d.ID)} {
			if _, err := n.Get(t.Context(), other.ID, ref); !errors.Is(err, deposit.ErrNotFound) {
				t.Errorf("another account's %s: %v", ref, err)
			}
		}
	})
}

// What a provider calls finished without an amount is not paid.
func TestNothingIsPaidWithoutAnAmount(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account("crypto_in_fee=0")
		first, second := n.create(a, "waiting"), n.create(a, "confirming")
		n.arrive(second, "60", "")
		n.hear(second.PaymentID)
		settled := int64(0)
		l.get = func(ctx context.Context, paymentID string) (chain.Payment, error) {
			p, err := l.Provider.GetPayment(ctx, paymentID)
			p.Status, p.Paid = chain.PaymentFinished, decimal.NewFromInt(60)
			p.Settled, _ = chain.FloorUSDT(decimal.NewFromInt(settled))
			return p, err
		}
		for _, d := range []deposit.Deposit{first, second} {
			got, err := n.Get(t.Context(), a.ID, "ext:"+d.ExternalID)
			if err != nil || got.Status != deposit.Confirming || got.Received != 0 || got.Review != deposit.ReviewStuck {
				t.Errorf("%s: %s with %s, %s, %v", d.ExternalID, got.Status, got.Received, got.Review, err)
			}
		}
		if stuck, err := deposit.CountStuck(t.Context(), db); err != nil || stuck != 2 {
			t.Errorf("%d are stuck: %v", stuck, err)
		}
		settled = 59
		n.hear(first.PaymentID)
		if got := n.stored(a.ID, "waiting"); got.Status != deposit.Paid || got.Received != 59_000000 || got.Review != "" {
			t.Errorf("%s with %s, %s", got.Status, got.Received, got.Review)
		}
		// More of it is credited too, and less is not believed.
		for _, settled = range []int64{61, 60} {
			n.hear(first.PaymentID)
			if got := n.stored(a.ID, "waiting"); got.Received != 61_000000 || got.Review != deposit.ReviewMore || n.balance(a.ID) != 61_000000 {
				t.Errorf("received %s, %s", got.Received, got.Review)
			}
		}
		if !strings.Contains(n.log.String(), "contradicts") {
			t.Error("nobody is told")
		}
		list, err := deposit.ListReviews(t.Context(), db, time.UnixMicro(0))
		if err != nil || len(list) != 2 || list[0].ID != first.ID {
			t.Errorf("%d to be looked at: %v", len(list), err)
		}
		if problems, err := deposit.Audit(t.Context(), db, id.First(time.UnixMicro(0))); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	})
}

// What its provider does not know any more is over when its time is, and not before.
func TestVanished(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account()
		n.create(a, "order")
		l.get = func(context.Context, string) (chain.Payment, error) {
			return chain.Payment{}, &chain.Error{Outcome: chain.Refused, Class: chain.Business, Cause: chain.ErrNotFound}
		}
		for _, c := range []struct {
			after time.Duration
			want  deposit.State
		}{{time.Hour, deposit.Waiting}, {5 * 24 * time.Hour, deposit.Waiting}, {3 * 24 * time.Hour, deposit.Expired}} {
			n.advance(c.after)
			n.step(n.CheckDue)
			if got, err := n.Get(t.Context(), a.ID, "ext:order"); err != nil || got.Status != c.want {
				t.Errorf("after %s: %s, %v", c.after, got.Status, err)
			}
		}
		n.audit()
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a, other := n.account(), n.account()
		for i, customer := range []string{"maria", "joana", "maria", "", "maria"} {
			r := request(a, string(rune('a'+i)))
			r.CustomerID = customer
			if _, outcome, err := n.Create(t.Context(), r); err != nil || outcome != idempotency.Created {
				t.Fatal(err)
			}
		}
		stranger := n.create(other, "a")
		list := func(p deposit.Page) string {
			page, more, err := n.List(t.Context(), a.ID, p)
			if err != nil {
				return err.Error()
			}
			var names []string
			for _, d := range page {
				names = append(names, d.ExternalID)
			}
			if more {
				names = append(names, "more")
			}
			return strings.Join(names, " ")
		}
		last := id.CryptoCharge.Format(n.stored(a.ID, "c").ID)
		for _, c := range []struct {
			page deposit.Page
			want string
		}{
			{deposit.Page{Limit: 50}, "e d c b a"},
			{deposit.Page{Limit: 2}, "e d more"},
			{deposit.Page{Limit: 2, StartingAfter: last}, "b a"},
			{deposit.Page{Limit: 2, CustomerID: "maria"}, "e c more"},
			{deposit.Page{Limit: 2, CustomerID: "maria", StartingAfter: last}, "a"},
			{deposit.Page{Limit: 50, CustomerID: "nobody"}, ""},
			{deposit.Page{Limit: 50, ExternalID: "b"}, "b"},
			{deposit.Page{Limit: 50, ExternalID: "b", CustomerID: "joana"}, "b"},
			{deposit.Page{Limit: 50, ExternalID: "b", CustomerID: "maria"}, ""},
			{deposit.Page{Limit: 50, ExternalID: "e", StartingAfter: last}, ""},
			{deposit.Page{Limit: 50, Before: n.clock.Now().Add(-time.Hour)}, ""},
			{deposit.Page{Limit: 50, StartingAfter: "ccr_x"}, deposit.ErrCursor.Error()},
			{deposit.Page{Limit: 50, StartingAfter: id.CryptoCharge.Format(stranger.ID)}, deposit.ErrCursor.Error()},
		} {
			if got := list(c.page); got != c.want {
				t.Errorf("%+v: %s, want %s", c.page, got, c.want)
			}
		}
	})
}
