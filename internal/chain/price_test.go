package chain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/money"
)

// market is a provider that knows prices and nothing else.
type market struct {
	chain.Nobody
	price    decimal.Decimal // of one coin, in USDT
	decimals int32           // that an estimate has
	off      map[string]bool // codes that are switched off
	flat     decimal.Decimal // that is taken off every estimate, in coins
	asked    []string
}

func (m *market) Estimate(_ context.Context, c chain.Conversion) (decimal.Decimal, error) {
	m.asked = append(m.asked, c.From)
	if m.off[c.From] {
		return decimal.Zero, &chain.Error{Outcome: chain.Refused, Class: chain.Business, Cause: chain.ErrCurrencyUnavailable}
	}
	return c.Amount.DivRound(m.price, m.decimals).Sub(m.flat), nil
}

func coin(t interface{ Fatalf(string, ...any) }, code string) chain.Currency {
	c, ok := chain.FindCoin(code)
	if !ok {
		t.Fatalf("no coin %s", code)
	}
	return chain.Currency{Coin: c, CanWithdraw: true, Decimals: 8}
}

func TestInCoins(t *testing.T) {
	t.Parallel()
	m := &market{price: decimal.RequireFromString("95000"), decimals: 8, off: map[string]bool{}}
	got, err := chain.InCoins(t.Context(), m, coin(t, "btc"), 100_000000)
	if err != nil || got.Coins.String() != "0.001052" || got.Rate.String() != "0.0000105263" {
		t.Errorf("%+v, %v", got, err)
	}
	// A coin that is worth next to everything has no rate that anything could be divided by.
	absurd := &market{price: decimal.New(1, 25), decimals: 18}
	if got, err := chain.InCoins(t.Context(), absurd, coin(t, "btc"), money.USDTMax); err == nil {
		t.Errorf("%+v", got)
	}
	// USDT is USDT, and nobody has to be asked.
	m.asked = nil
	got, err = chain.InCoins(t.Context(), m, coin(t, "usdterc20"), 100_123456)
	if err != nil || got.Coins.String() != "100.123456" || got.Rate.String() != "1" || len(m.asked) > 0 {
		t.Errorf("%+v, %v, asked for %v", got, err, m.asked)
	}
	// One network's USDT stands in for another's.
	m.off["usdttrc20"] = true
	if _, err = chain.InCoins(t.Context(), m, coin(t, "btc"), 100_000000); err != nil || len(m.asked) != 2 {
		t.Errorf("%v, asked for %v", err, m.asked)
	}
	m.off["usdterc20"], m.off["usdtbsc"] = true, true
	if _, err = chain.InCoins(t.Context(), m, coin(t, "btc"), 100_000000); !errors.Is(err, chain.ErrCurrencyUnavailable) {
		t.Error(err)
	}
	m = &market{price: decimal.New(1, 0), decimals: 8, flat: decimal.New(100, 0)}
	if _, err = chain.InCoins(t.Context(), m, coin(t, "btc"), 100_000000); err == nil {
		t.Error("nothing is worth something")
	}
}

// TestLeastUSDT holds that the least amount makes enough coins, whatever the price, and that hardly less does.
func TestLeastUSDT(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &market{
			price:    decimal.New(rapid.Int64Range(1, 200_000_000).Draw(t, "price"), -3),
			decimals: int32(rapid.IntRange(6, 18).Draw(t, "decimals")),
		}
		enough := decimal.New(rapid.Int64Range(1, 1_000_000).Draw(t, "enough"), -int32(rapid.IntRange(2, 8).Draw(t, "places")))
		if enough.Mul(m.price).GreaterThan(decimal.New(1_000_000_000, 0)) {
			t.Skip("more than there is")
		}
		c := coin(t, "ltc")
		least, err := chain.LeastUSDT(context.Background(), m, c, enough)
		if err != nil {
			t.Fatal(err)
		}
		if least < chain.WithdrawalMin {
			t.Fatalf("%s is below the floor", least)
		}
		worth, err := chain.InCoins(context.Background(), m, c, least)
		if err != nil || worth.Coins.LessThan(enough) {
			t.Fatalf("%s USDT make %s of %s, %v", least, worth.Coins, enough, err)
		}
		less := least - least/50 // a coin can be cut no finer than a millionth, which may be much
		if less <= chain.WithdrawalMin {
			return
		}
		worth, err = chain.InCoins(context.Background(), m, c, less)
		step := decimal.New(2, -chain.PayoutDecimalsMax)
		if err != nil || worth.Coins.GreaterThanOrEqual(enough.Add(step)) {
			t.Fatalf("%s USDT make %s already, %s would be enough, %v", less, worth.Coins, enough, err)
		}
	})
	m := &market{price: decimal.New(1, 12), decimals: 18}
	if _, err := chain.LeastUSDT(t.Context(), m, coin(t, "ltc"), decimal.New(1, 0)); err == nil {
		t.Error("there is that much money")
	}
	if least, err := chain.LeastUSDT(t.Context(), m, coin(t, "usdtbsc"), decimal.New(31, 0)); err != nil || least != money.USDT(31_000000) {
		t.Errorf("%s, %v", least, err)
	}
}

func TestNobody(t *testing.T) {
	t.Parallel()
	var n chain.Payer = chain.Nobody{}
	_, _ = n.Currencies(t.Context())
	for name, ask := range map[string]func() error{
		"currencies":   func() error { _, err := n.Currencies(t.Context()); return err },
		"minimum":      func() error { _, err := n.Minimum(t.Context(), "btc"); return err },
		"estimate":     func() error { _, err := n.Estimate(t.Context(), chain.Conversion{}); return err },
		"payment":      func() error { _, err := n.CreatePayment(t.Context(), chain.NewPayment{}); return err },
		"get payment":  func() error { _, err := n.GetPayment(t.Context(), "1"); return err },
		"list":         func() error { _, err := n.ListPayments(t.Context(), chain.Window{}); return err },
		"address":      func() error { return n.ValidateAddress(t.Context(), chain.Destination{}) },
		"least payout": func() error { _, err := n.PayoutMinimum(t.Context(), "btc"); return err },
		"fee":          func() error { _, err := n.PayoutFee(t.Context(), "btc", decimal.Zero); return err },
		"payout":       func() error { _, err := n.CreatePayout(t.Context(), chain.NewPayout{}); return err },
		"verify":       func() error { return n.VerifyPayout(t.Context(), "1") },
		"get payout":   func() error { _, err := n.GetPayout(t.Context(), "1"); return err },
		"find payout":  func() error { _, err := n.FindPayout(t.Context(), chain.Search{}); return err },
		"balance":      func() error { _, err := n.Balance(t.Context()); return err },
	} {
		if !chain.IsRefused(ask()) {
			t.Errorf("%s is not refused", name)
		}
	}
	if _, err := n.ReadNotice(nil, nil); !errors.Is(err, chain.ErrSignature) || n.Name() != "nobody" {
		t.Error(err)
	}
}
