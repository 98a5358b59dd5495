package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/crowd"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
)

// conversionFee is charged when the coin is not USDT.
var conversionFee = money.Fee{Fixed: money.USDT(0).Amount(), Share: 10_000}

// fee is what a withdrawal costs.
type fee struct {
	whole      money.USDT // conversion included
	conversion money.USDT
}

func feeOf(own money.Fee, c chain.Coin, amount money.USDT) fee {
	var f fee
	if !c.IsUSDT() {
		f.conversion = money.USDT(conversionFee.Of(amount.Amount()).Units)
	}
	f.whole = money.USDT(own.Of(amount.Amount()).Units) + f.conversion
	return f
}

var errCurrency = fault.New(fault.Unprocessable, "currency_unavailable", "this coin cannot be withdrawn at the moment")

// unavailable is a fault of the provider's with the code for what cannot be told because of it. A coin that is switched
// off is told apart.
func unavailable(code, public string, err error) error {
	if errors.Is(err, chain.ErrCurrencyUnavailable) {
		return errCurrency
	}
	return &fault.Error{Kind: fault.Unavailable, Code: code, Public: public, Cause: err}
}

func minimumUnavailable(err error) error {
	return unavailable("minimum_unavailable", "the minimum cannot be determined right now; try again", err)
}

func estimateUnavailable(err error) error {
	return unavailable("estimate_unavailable", "the price cannot be determined right now; try again", err)
}

// currency returns a coin as it stands with the provider. ok is false when it cannot be withdrawn there now.
func (s *Service) currency(ctx context.Context, coin chain.Coin) (c chain.Currency, ok bool, err error) {
	list, err := s.Provider.Currencies(ctx)
	if err != nil {
		return c, false, err
	}
	i := slices.IndexFunc(list, func(c chain.Currency) bool { return c.Code == coin.Code })
	if i < 0 || !list[i].CanWithdraw {
		return c, false, nil
	}
	return list[i], true, nil
}

var (
	errNobody  = fault.New(fault.Provider, "", "the crypto provider cannot be reached; nothing was stored, please repeat the request")
	errAddress = fault.New(fault.Unprocessable, "invalid_address", "the provider does not send to this address")
)

// appraise finds out what a request is worth in coins, and whether the provider would send them. It changes nothing.
func (s *Service) appraise(ctx context.Context, r *Request) (chain.Worth, error) {
	c, ok, err := s.currency(ctx, r.Coin)
	switch {
	case err != nil:
		nobody := *errNobody
		nobody.Cause = err
		return chain.Worth{}, &nobody
	case !ok:
		return chain.Worth{}, errCurrency
	case c.RequiresMemo && r.ExtraID == "":
		return chain.Worth{}, fault.New(fault.Unprocessable, "extra_id_required", "this coin needs a memo or tag: send it as extra_id")
	case !c.HasMemo && !c.RequiresMemo && r.ExtraID != "":
		return chain.Worth{}, &fault.Error{
			Kind: fault.Unprocessable, Public: "some fields are not valid",
			Issues: []fault.Issue{{Path: "extra_id", Message: "must not be sent: this coin has no memo or tag"}},
		}
	}
	var (
		worth                            chain.Worth
		minimum                          decimal.Decimal
		worthErr, minimumErr, addressErr error
	)
	crowd.All(
		func() { worth, worthErr = chain.InCoins(ctx, s.Provider, c, r.Amount) },
		func() { minimum, minimumErr = s.Provider.PayoutMinimum(ctx, c.Code) },
		func() {
			addressErr = s.Provider.ValidateAddress(ctx, chain.Destination{Currency: c.Code, Address: r.Address, ExtraID: r.ExtraID})
		},
	)
	switch {
	case errors.Is(addressErr, chain.ErrInvalidAddress): // every other error says nothing about the address
		return worth, errAddress
	case minimumErr != nil:
		return worth, minimumUnavailable(minimumErr)
	case worthErr != nil:
		return worth, estimateUnavailable(worthErr)
	case worth.Coins.LessThan(minimum), !worth.Coins.IsPositive():
		return worth, fault.New(fault.Unprocessable, "below_network_minimum",
			fmt.Sprintf("the amount makes %s %s, and the network takes no less than %s", worth.Coins, c.Symbol, minimum))
	}
	return worth, nil
}

// Minimum is the least that can be withdrawn in a coin.
type Minimum struct {
	Coin      chain.Coin
	Amount    money.USDT // never below what anybody may withdraw
	UpdatedAt time.Time
}

// Minimum returns the least that can be withdrawn in a coin, as it stands now. It fails with minimum_unavailable when that
// cannot be told: it is never guessed.
func (s *Service) Minimum(ctx context.Context, coin chain.Coin) (Minimum, error) {
	ctx, cancel := context.WithTimeout(ctx, creationTimeMax)
	defer cancel()
	least, err := s.least(ctx, coin)
	if err != nil {
		// The route has no code for a coin that is switched off: there is no minimum then.
		return Minimum{}, &fault.Error{
			Kind: fault.Unavailable, Code: "minimum_unavailable", Public: "the minimum cannot be determined right now; try again", Cause: err,
		}
	}
	return Minimum{Coin: coin, Amount: least, UpdatedAt: s.Clock.Now()}, nil
}

func (s *Service) least(ctx context.Context, coin chain.Coin) (money.USDT, error) {
	c, ok, err := s.currency(ctx, coin)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errCurrency
	}
	coins, err := s.Provider.PayoutMinimum(ctx, c.Code)
	if err != nil {
		return 0, err
	}
	return chain.LeastUSDT(ctx, s.Provider, c, coins)
}

// Estimate is what a withdrawal would cost and deliver.
type Estimate struct {
	Coin          chain.Coin
	Amount        money.USDT
	Fee           money.USDT // ConversionFee included
	ConversionFee money.USDT
	Rate          decimal.Decimal // coins for one USDT
	Send          decimal.Decimal // coins that would be sent
	NetworkFee    decimal.Decimal // coins that the network would take of them
	Receive       decimal.Decimal // coins that would arrive; never below zero
	ReceiveUSDT   money.USDT      // the same in USDT
}

// Estimate returns what a withdrawal would cost and deliver now, from the same sources as its creation. It reserves
// nothing.
func (s *Service) Estimate(ctx context.Context, owner account.Account, coin chain.Coin, amount money.USDT) (Estimate, error) {
	ctx, cancel := context.WithTimeout(ctx, creationTimeMax)
	defer cancel()
	e, err := s.estimate(ctx, coin, amount)
	if err != nil {
		return Estimate{}, &fault.Error{
			Kind: fault.Unavailable, Code: "estimate_unavailable", Public: "the price cannot be determined right now; try again", Cause: err,
		}
	}
	f := feeOf(owner.Settings.CryptoOutFee, coin, amount)
	e.Fee, e.ConversionFee = f.whole, f.conversion
	return e, nil
}

func (s *Service) estimate(ctx context.Context, coin chain.Coin, amount money.USDT) (Estimate, error) {
	c, ok, err := s.currency(ctx, coin)
	if err != nil {
		return Estimate{}, err
	}
	if !ok {
		return Estimate{}, errCurrency
	}
	worth, err := chain.InCoins(ctx, s.Provider, c, amount)
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{Coin: coin, Amount: amount, Rate: worth.Rate, Send: worth.Coins}
	if e.NetworkFee, err = s.Provider.PayoutFee(ctx, c.Code, e.Send); err != nil {
		return Estimate{}, err
	}
	e.Receive = decimal.Max(decimal.Zero, e.Send.Sub(e.NetworkFee))
	e.ReceiveUSDT, ok = chain.FloorUSDT(e.Receive.Div(worth.Rate))
	if !ok {
		return Estimate{}, fmt.Errorf("withdrawal: %s %s are worth more than there is", e.Receive, c.Code)
	}
	return e, nil
}
