package chain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/address"
	"github.com/ponte-pay/ponte/internal/money"
)

func TestFloorUSDT(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]money.USDT{
		"0": 0, "1": 1_000_000, "14.8106": 14_810_600, "0.0000019": 1, "0.0000009": 0, "1e-7": 0, "123.456789999999999999": 123_456_789,
		"9999999999.99": money.USDTMax,
	} {
		if got, ok := chain.FloorUSDT(decimal.RequireFromString(text)); got != want || !ok {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"-0.000001", "-1", "9999999999.990001", "1e30"} {
		if got, ok := chain.FloorUSDT(decimal.RequireFromString(text)); ok {
			t.Errorf("%s is %v", text, got)
		}
	}
	for _, a := range []money.USDT{0, 1, 25_123_456, money.USDTMax} {
		if got, ok := chain.FloorUSDT(chain.FromUSDT(a)); got != a || !ok || chain.FromUSDT(a).StringFixed(6) != a.String() {
			t.Errorf("%v becomes %v, %v", a, chain.FromUSDT(a), got)
		}
	}
}

// TestCoins is about the fifteen coins that are taken in and the five that are sent.
func TestCoins(t *testing.T) {
	t.Parallel()
	in, out := map[string]bool{}, map[string]bool{}
	for _, c := range chain.Coins {
		if found, ok := chain.FindCoin(c.Code); !ok || found != c {
			t.Errorf("found %+v for %s", found, c.Code)
		}
		if c.Deposit {
			in[c.Code] = true
		}
		if c.Withdrawal {
			out[c.Code] = true
		}
		if c.Contract == "" {
			continue
		}
		if _, err := address.Check(c.Network, c.Contract); !errors.Is(err, address.ErrForbidden) {
			t.Errorf("%s could be sent to its own contract: %v", c.Code, err)
		}
	}
	for _, code := range []string{
		"usdttrc20", "usdtbsc", "btc", "eth", "ltc", "sol", "usdc", "trx", "xrp", "doge", "bnbbsc", "ton", "ada", "bch", "dai",
	} {
		if !in[code] {
			t.Errorf("%s is not taken in", code)
		}
	}
	for _, code := range []string{"usdtbsc", "trx", "btc", "ltc", "usdterc20"} {
		if !out[code] {
			t.Errorf("%s is not sent", code)
		}
	}
	if len(in) != 15 || len(out) != 5 {
		t.Errorf("%d are taken in and %d are sent", len(in), len(out))
	}
	if c, ok := chain.FindCoin("brl"); ok {
		t.Errorf("found %+v", c)
	}
}

// lister lists payments and can do nothing else.
type lister struct {
	chain.Provider
	page func(cursor string) chain.Page
}

func (l lister) Name() string { return "lister" }

func (l lister) ListPayments(_ context.Context, w chain.Window) (chain.Page, error) {
	return l.page(w.Cursor), nil
}

func TestFindPayments(t *testing.T) {
	t.Parallel()
	two := lister{page: func(cursor string) chain.Page {
		if cursor == "" {
			return chain.Page{Payments: []chain.Payment{{ID: "1", Reference: "a"}, {ID: "2", Reference: "b"}}, Next: "1"}
		}
		return chain.Page{Payments: []chain.Payment{{ID: "2", Reference: "b"}, {ID: "3", Parent: "2", Reference: "b"}}}
	}}
	found, err := chain.FindPayments(t.Context(), two, chain.Search{Reference: "b"})
	if err != nil || len(found) != 2 || found[0].ID != "2" || found[1].ID != "3" {
		t.Errorf("found %+v, %v", found, err)
	}
	for name, page := range map[string]chain.Page{"endless": {Next: "1"}, "unreadable": {Unreadable: 1}} {
		found, err := chain.FindPayments(t.Context(), lister{page: func(string) chain.Page { return page }}, chain.Search{Reference: "b"})
		if e := chain.As(err); e == nil || e.Outcome != chain.Unknown || found != nil {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	err := error(&chain.Error{
		Provider: "p", Operation: "payout.create", Outcome: chain.Refused, Class: chain.Business, Code: "X", Message: "too low", Cause: chain.ErrBelowMinimum,
	})
	if got := err.Error(); got != "chain: p: payout.create: refused, business: X: too low: below the minimum" {
		t.Error(got)
	}
	if !chain.IsRefused(err) || !errors.Is(err, chain.ErrBelowMinimum) || chain.IsRefused(errors.New("other")) || chain.IsRefused(nil) || chain.As(nil) != nil {
		t.Error("an error is taken for another")
	}
	if e := chain.As(errors.New("other")); e.Outcome != chain.Unknown {
		t.Errorf("got %+v", e)
	}
}
