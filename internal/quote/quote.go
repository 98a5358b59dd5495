// Package quote tells what an amount is worth now: of dollars or USDT in coins or in reais. A quote binds nobody, and is
// never a guess: where nobody can be believed there is none.
package quote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
)

// Operation is what a quote is for.
type Operation string

const (
	Deposit    Operation = "deposit"    // dollars to be paid in a coin
	Withdrawal Operation = "withdrawal" // USDT to be sent in a coin
	Conversion Operation = "conversion" // dollars or USDT in reais
)

// Operations are all operations.
var Operations = []Operation{Deposit, Withdrawal, Conversion}

// Currencies that are no coins on a network.
const (
	usd  = "usd"
	usdt = "usdt"
	brl  = "brl"
)

const (
	// Validity is how long after its creation a quote may be shown.
	Validity = 60 * time.Second

	timeMax = 15 * time.Second // for one quote, in real time

	rateDecimals = 18
	brlDecimals  = 2
	centMillions = 10_000 // millionths of a dollar in a cent
)

// Request asks for a quote.
type Request struct {
	Operation Operation // one of Operations
	From      string
	To        string
	Network   string     // "" for whichever To has
	Amount    money.USDT // of From, in millionths also when that is dollars
}

// Quote is what an amount was worth at a moment.
type Quote struct {
	ID id.ID // tells when it was made
	Request
	Network   string           // of the coin; "" for a conversion
	Estimated decimal.Decimal  // in To
	Rate      decimal.Decimal  // To for one From
	Minimum   *decimal.Decimal // least amount for the operation, in From; nil for none, or unknown
}

// CreatedAt returns when the quote was made.
func (q *Quote) CreatedAt() time.Time { return q.ID.Time() }

// ExpiresAt returns until when the quote may be shown.
func (q *Quote) ExpiresAt() time.Time { return q.CreatedAt().Add(Validity) }

// Service makes quotes.
type Service struct {
	Provider chain.Payer
	Rates    *Rates
	IDs      *id.Generator
}

// Refusals of a quote.
var (
	errRoute    = fault.New(fault.Unprocessable, "unsupported_route", "there is no such route: a deposit goes from usd to a coin, a withdrawal from usdt to a coin, a conversion from usd or usdt to brl")
	errCurrency = fault.New(fault.Unprocessable, "unsupported_currency", "this coin is not offered for this operation")
	errNetwork  = fault.New(fault.Unprocessable, "unsupported_network", "the coin is not on this network")
	errAmount   = fault.New(fault.Unprocessable, "invalid_amount", "the amount must be above zero, with at most 6 decimals in usdt and 2 in usd")
)

func unavailable(cause error) error {
	return &fault.Error{Kind: fault.Unavailable, Code: "quote_unavailable", Public: "there is no price that can be trusted right now; try again", Cause: cause}
}

// Create makes a quote.
func (s *Service) Create(ctx context.Context, r Request) (Quote, error) {
	if err := r.validate(); err != nil {
		return Quote{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeMax)
	defer cancel()
	q := Quote{Request: r, Network: r.Network}
	var err error
	switch r.Operation {
	case Conversion:
		err = s.convert(ctx, &q)
	case Deposit, Withdrawal:
		err = s.price(ctx, &q)
	}
	if err != nil {
		if _, ok := errors.AsType[*fault.Error](err); !ok {
			err = unavailable(err)
		}
		return Quote{}, err
	}
	q.ID = s.IDs.New()
	return q, nil
}

// validate refuses what no provider has to be asked about.
func (r *Request) validate() error {
	coin, known := chain.FindCoin(r.To)
	isCoin := r.To != usd && r.To != usdt && r.To != brl
	var offered bool
	switch r.Operation {
	case Deposit:
		if r.From != usd || !isCoin {
			return errRoute
		}
		offered = coin.Deposit
	case Withdrawal:
		if r.From != usdt || !isCoin {
			return errRoute
		}
		offered = coin.Withdrawal
	case Conversion:
		if (r.From != usd && r.From != usdt) || r.To != brl {
			return errRoute
		}
		known, offered = true, true
	default:
		return errRoute
	}
	switch {
	case !known || !offered:
		return errCurrency
	case r.Network != "" && r.Network != coin.Network:
		return errNetwork
	case r.Amount <= 0, r.From == usd && r.Amount%centMillions != 0:
		return errAmount
	}
	return nil
}

// convert fills in what an amount is in reais. A USDT is worth what the provider gives for it, not a dollar.
func (s *Service) convert(ctx context.Context, q *Quote) error {
	reais, err := s.Rates.reais(ctx)
	if err != nil {
		return err
	}
	amount := chain.FromUSDT(q.Amount)
	dollars := amount
	if q.From == usdt {
		if dollars, err = chain.FromBase(ctx, s.Provider, usd, q.Amount); err != nil {
			return err
		}
	}
	exact := dollars.Mul(reais)
	q.Rate, q.Estimated = exact.DivRound(amount, rateDecimals), exact.RoundFloor(brlDecimals)
	return nil
}

// price fills in what an amount is in a coin, and the least that the operation takes.
func (s *Service) price(ctx context.Context, q *Quote) error {
	list, err := s.Provider.Currencies(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(c chain.Currency) bool { return c.Code == q.To })
	if i < 0 {
		return errCurrency
	}
	c := list[i]
	q.Network = c.Network
	var least, floor money.USDT
	var leastErr error
	if q.Operation == Deposit {
		if !c.CanDeposit {
			return errCurrency
		}
		floor = c.DepositFloor()
		exact, err := s.Provider.Estimate(ctx, chain.Conversion{From: usd, To: c.Code, Amount: chain.FromUSDT(q.Amount)})
		if err != nil {
			return offered(err)
		}
		// What has to be paid is rounded up to what can be sent.
		q.Rate, q.Estimated = exact.DivRound(chain.FromUSDT(q.Amount), rateDecimals), exact.RoundCeil(int32(c.Decimals))
		least, leastErr = chain.LeastUSD(ctx, s.Provider, c.Coin)
	} else {
		if !c.CanWithdraw {
			return errCurrency
		}
		floor = chain.WithdrawalMin
		worth, err := chain.InCoins(ctx, s.Provider, c, q.Amount)
		if err != nil {
			return offered(err)
		}
		q.Rate, q.Estimated = worth.Rate, worth.Coins
		least, leastErr = s.leastUSDT(ctx, c)
	}
	if leastErr == nil {
		minimum := chain.FromUSDT(least)
		q.Minimum, floor = &minimum, least
	}
	if q.Amount < floor {
		return fault.New(fault.Unprocessable, "below_minimum", fmt.Sprintf("the amount must be at least %s %s", chain.FromUSDT(floor), q.From))
	}
	return nil
}

// offered turns a coin that was switched off meanwhile into a refusal.
func offered(err error) error {
	if errors.Is(err, chain.ErrCurrencyUnavailable) {
		return errCurrency
	}
	return err
}

func (s *Service) leastUSDT(ctx context.Context, c chain.Currency) (money.USDT, error) {
	coins, err := s.Provider.PayoutMinimum(ctx, c.Code)
	if err != nil {
		return 0, err
	}
	return chain.LeastUSDT(ctx, s.Provider, c, coins)
}
