// Package nowpayments is a driver for NOWPayments, API version 1; what it cannot prove it calls unknown.
package nowpayments

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
)

// Operations, as errors name them.
const (
	operationCurrencies = "currencies"
	operationMinimum    = "minimum"
	operationEstimate   = "estimate"
	operationCreate     = "payment.create"
	operationGet        = "payment.get"
	operationList       = "payment.list"
	operationNotice     = "notice"
	operationValidate   = "address.validate"
	operationPayMinimum = "payout.minimum"
	operationPayFee     = "payout.fee"
	operationPay        = "payout.create"
	operationVerify     = "payout.verify"
	operationPayGet     = "payout.get"
	operationPayFind    = "payout.find"
	operationBalance    = "balance"
)

// Client is an account at NOWPayments. Make it with [New].
type Client struct {
	config    Config
	clock     *clock.Clock
	transport http.RoundTripper // follows no redirect: our secrets go nowhere else
	tokens    tokens
	pace      pace
	codes     codes
	totpKey   []byte

	mu         sync.Mutex
	currencies []chain.Currency // as they were last told; nil before
	toldAt     time.Time        // when, in business time
}

var _ chain.Payer = (*Client)(nil)

// New returns the provider that config describes. Nothing is sent yet. It fails when config cannot work.
func New(config Config, clock *clock.Clock) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.Settlement = strings.ToLower(config.Settlement)
	c := &Client{config: config, transport: config.transport(), clock: clock, pace: pace{clock: clock}}
	c.totpKey, _ = config.totpKey() // validated above
	if config.WritesPerSecond > 0 {
		c.pace.every = time.Second / time.Duration(config.WritesPerSecond)
	}
	c.tokens = tokens{clock: clock, fetch: c.fetchToken}
	return c, nil
}

// Name returns what operators call this provider.
func (c *Client) Name() string { return c.config.Name }

// String returns what may be logged.
func (c *Client) String() string { return c.config.String() }

// GoString returns what may be logged.
func (c *Client) GoString() string { return c.config.String() }

// Currencies returns the coins of ours as they stand. See [chain.Provider].
func (c *Client) Currencies(ctx context.Context) ([]chain.Currency, error) {
	c.mu.Lock()
	kept, toldAt := c.currencies, c.toldAt
	c.mu.Unlock()
	if kept != nil && c.clock.Now().Sub(toldAt) < c.config.CurrenciesAge {
		return append([]chain.Currency(nil), kept...), nil
	}
	now := c.clock.Now()
	list, err := c.askCurrencies(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.currencies, c.toldAt = list, now
	return append([]chain.Currency(nil), list...), nil
}

// fullCurrency is a coin as the provider lists it, its code in upper case.
type fullCurrency struct {
	Code             text `json:"code"`
	Enable           flag `json:"enable"`
	MemoExists       flag `json:"extra_id_exists"`
	MemoOptional     flag `json:"extra_id_optional"`
	ForPayment       flag `json:"available_for_payment"`
	ForPayout        flag `json:"available_for_payout"`
	Precision        text `json:"precision"`
	NetworkPrecision text `json:"network_precision"`
}

func (c *Client) askCurrencies(ctx context.Context) ([]chain.Currency, error) {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	var all struct {
		Currencies []loose[fullCurrency] `json:"currencies"`
	}
	if err := c.do(ctx, call{operation: operationCurrencies, method: http.MethodGet, path: "/full-currencies", reply: &all}); err != nil {
		return nil, err
	}
	// What the account has switched on; the name of the list is not the documented one.
	var own struct {
		Selected   []text `json:"selectedCurrencies"`
		Currencies []text `json:"currencies"`
	}
	if err := c.do(ctx, call{operation: operationCurrencies, method: http.MethodGet, path: "/merchant/coins", reply: &own}); err != nil {
		return nil, err
	}
	if len(all.Currencies) == 0 || own.Selected == nil && own.Currencies == nil {
		return nil, c.nonsense(operationCurrencies, "the list is empty")
	}
	selected := map[string]bool{}
	for _, code := range append(own.Selected, own.Currencies...) {
		selected[code.lower()] = true
	}
	listed := map[string]fullCurrency{}
	for _, entry := range all.Currencies {
		listed[entry.value.Code.lower()] = entry.value
	}
	list := []chain.Currency{}
	for _, coin := range chain.Coins {
		entry, known := listed[coin.Code]
		if !known {
			continue
		}
		on := bool(entry.Enable) && selected[coin.Code]
		list = append(list, chain.Currency{
			Coin: coin, CanDeposit: coin.Deposit && on && bool(entry.ForPayment), CanWithdraw: coin.Withdrawal && on && bool(entry.ForPayout),
			HasMemo: bool(entry.MemoExists), RequiresMemo: bool(entry.MemoExists && !entry.MemoOptional), Decimals: decimalsOf(coin, entry),
		})
	}
	return list, nil
}

// decimalsOf returns how many decimals of a coin can be sent: what both network and provider can do.
func decimalsOf(coin chain.Coin, entry fullCurrency) int {
	decimals := int64(coin.NetworkDecimals)
	for _, told := range []text{entry.Precision, entry.NetworkPrecision} {
		if n, ok := told.amount(); ok && told != "" && n.IsInteger() && n.LessThan(decimal.NewFromInt(decimals)) {
			decimals = n.IntPart()
		}
	}
	return int(decimals)
}

// Minimum returns the smallest payment. See [chain.Provider].
func (c *Client) Minimum(ctx context.Context, currency string) (decimal.Decimal, error) {
	var reply struct {
		From    text `json:"currency_from"`
		Minimum text `json:"min_amount"`
	}
	// Without the coin that it is settled in the answer is off by a factor of ten, either way.
	query := url.Values{
		"currency_from": {currency}, "currency_to": {c.config.Settlement}, "is_fixed_rate": {"false"}, "is_fee_paid_by_user": {"false"},
	}
	if err := c.do(ctx, call{operation: operationMinimum, method: http.MethodGet, path: "/min-amount", query: query, reply: &reply}); err != nil {
		return decimal.Decimal{}, err
	}
	return c.positive(operationMinimum, reply.Minimum, reply.From == "" || reply.From.lower() == currency)
}

// positive returns a number that must be above zero, in an answer that must be about what was asked.
func (c *Client) positive(operation string, number text, isOurs bool) (decimal.Decimal, error) {
	d, ok := number.amount()
	if !ok || !d.IsPositive() || !isOurs {
		return decimal.Decimal{}, c.nonsense(operation, "the answer holds no number, or is about something else")
	}
	return d, nil
}

// Estimate returns what an amount is worth. See [chain.Provider].
func (c *Client) Estimate(ctx context.Context, v chain.Conversion) (decimal.Decimal, error) {
	var reply struct {
		From   text `json:"currency_from"`
		To     text `json:"currency_to"`
		Amount text `json:"estimated_amount"`
	}
	query := url.Values{"amount": {v.Amount.String()}, "currency_from": {v.From}, "currency_to": {v.To}}
	if err := c.do(ctx, call{operation: operationEstimate, method: http.MethodGet, path: "/estimate", query: query, reply: &reply}); err != nil {
		return decimal.Decimal{}, err
	}
	isOurs := (reply.From == "" || reply.From.lower() == v.From) && (reply.To == "" || reply.To.lower() == v.To)
	return c.positive(operationEstimate, reply.Amount, isOurs)
}
