package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/money"
)

// Minimums that hold whatever a network would take.
const (
	WithdrawalMin  money.USDT = 20_000000 // USDT of a payout
	DepositMinUSDT money.USDT = 20_000000 // USD of a payment in USDT
	DepositMin     money.USDT = 15_000000 // USD of a payment in any other coin
)

// DepositFloor returns the least USD of a payment in a coin, whatever its network would take.
func (c Coin) DepositFloor() money.USDT {
	if c.IsUSDT() {
		return DepositMinUSDT
	}
	return DepositMin
}

// PayoutDecimals returns how many decimals the amount of a payout in the coin may have.
func (c Currency) PayoutDecimals() int32 { return int32(min(c.Decimals, PayoutDecimalsMax)) }

const (
	rateDecimals = 18 // of a rate; as fine as the finest coin
	usdDecimals  = 2
)

// bases are the coins that stand for USDT of no network when a provider is asked what it is worth. The first that the
// provider offers is taken.
var bases = []string{"usdttrc20", "usdterc20", "usdtbsc"}

// FromBase returns what an amount of USDT is worth in another currency, as the provider would convert it now.
func FromBase(ctx context.Context, p Provider, to string, amount money.USDT) (worth decimal.Decimal, err error) {
	for _, base := range bases {
		worth, err = p.Estimate(ctx, Conversion{From: base, To: to, Amount: FromUSDT(amount)})
		if !errors.Is(err, ErrCurrencyUnavailable) {
			break
		}
	}
	if err == nil && !worth.IsPositive() {
		err = senseless(p, fmt.Sprintf("%s USDT are worth %s %s", amount, worth, to))
	}
	return worth, err
}

func senseless(p Provider, message string) error {
	return &Error{Provider: p.Name(), Operation: "estimate", Outcome: Unknown, Class: Protocol, Message: message}
}

// Worth is an amount of USDT in a coin, at one moment.
type Worth struct {
	Rate  decimal.Decimal // coins for one USDT
	Coins decimal.Decimal // that a payout of the amount sends: rounded down to what can be sent
}

// InCoins returns what an amount of USDT makes in a coin now. A payout in USDT sends what the ledger holds: there is
// nothing to be converted. Every other coin is converted as the provider would.
func InCoins(ctx context.Context, p Provider, c Currency, amount money.USDT) (Worth, error) {
	if c.IsUSDT() {
		return Worth{Rate: decimal.NewFromInt(1), Coins: FromUSDT(amount).RoundFloor(c.PayoutDecimals())}, nil
	}
	coins, err := FromBase(ctx, p, c.Code, amount)
	if err != nil {
		return Worth{}, err
	}
	worth := Worth{Rate: coins.DivRound(FromUSDT(amount), rateDecimals), Coins: coins.RoundFloor(c.PayoutDecimals())}
	if !worth.Rate.IsPositive() { // amounts are divided by it
		return Worth{}, senseless(p, fmt.Sprintf("%s USDT are worth %s %s", amount, coins, c.Code))
	}
	return worth, nil
}

// leastTriesMax bounds the search of a minimum. A rate that does not depend on the amount takes three.
const leastTriesMax = 5

// LeastUSDT returns the smallest amount of USDT, and no less than [WithdrawalMin], that makes enough coins for a payout.
func LeastUSDT(ctx context.Context, p Provider, c Currency, enough decimal.Decimal) (money.USDT, error) {
	least := WithdrawalMin
	enough = enough.RoundCeil(c.PayoutDecimals())
	for range leastTriesMax {
		worth, err := InCoins(ctx, p, c, least)
		if err != nil {
			return 0, err
		}
		if worth.Coins.GreaterThanOrEqual(enough) {
			return least, nil
		}
		// What makes enough by this rate. Where its last digit was rounded up that is too little, and what is missing is added.
		next := enough.DivRound(worth.Rate, rateDecimals)
		if next.LessThanOrEqual(FromUSDT(least)) {
			next = FromUSDT(least).Add(enough.Sub(worth.Coins).DivRound(worth.Rate, rateDecimals))
		}
		var ok bool
		if least, ok = FloorUSDT(next.RoundCeil(-usdtExponent)); !ok {
			return 0, senseless(p, fmt.Sprintf("%s %s are worth more than there is", enough, c.Code))
		}
	}
	return 0, senseless(p, fmt.Sprintf("no amount of USDT makes %s %s", enough, c.Code))
}

// LeastUSD returns the smallest price, in USD, of a payment in a coin: the floor, or what its network takes if that is
// more.
func LeastUSD(ctx context.Context, p Provider, c Coin) (money.USDT, error) {
	least := c.DepositFloor()
	coins, err := p.Minimum(ctx, c.Code)
	if err != nil {
		return 0, err
	}
	price, err := p.Estimate(ctx, Conversion{From: c.Code, To: "usd", Amount: coins})
	if err != nil {
		return 0, err
	}
	network, ok := FloorUSDT(price.RoundCeil(usdDecimals))
	if !ok {
		return 0, senseless(p, fmt.Sprintf("%s %s are worth %s USD", coins, c.Code, price))
	}
	return max(least, network), nil
}
