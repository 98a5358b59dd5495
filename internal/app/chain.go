package app

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/nowpayments"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/quote"
	"github.com/ponte-pay/ponte/internal/quote/source"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// Chain is where coins come from and go to: a real crypto provider, or the simulated one, never both. An installation that
// names none has [chain.Nobody].
type Chain struct {
	Provider chain.Payer
	Sources  []quote.Source // of the dollar's price in reais

	secret string // the provider's, from which the path of its notifications is made
	url    atomic.Pointer[string]
}

// isSomebody reports whether there is a provider.
func (c *Chain) isSomebody() bool {
	_, nobody := c.Provider.(chain.Nobody)
	return !nobody
}

// CallbackURL returns where the provider sends its notifications, or "" while that is not known.
func (c *Chain) CallbackURL() string {
	if url := c.url.Load(); url != nil {
		return *url
	}
	return ""
}

// reachable makes notifications arrive below a URL of ours.
func (c *Chain) reachable(base string) {
	url := base + callback.Path(c.Provider.Name(), c.secret)
	c.url.Store(&url)
}

// openChain opens the crypto provider that the settings name.
func openChain(c *clock.Clock, store config.Store) (*Chain, error) {
	named, rates, err := store.Crypto()
	if err != nil {
		return nil, err
	}
	if named == nil {
		return &Chain{Provider: chain.Nobody{}}, nil
	}
	if named.Driver != "nowpayments" {
		return nil, fmt.Errorf("crypto: driver %q: use nowpayments", named.Driver)
	}
	provider, err := nowpayments.New(nowpayments.Config{
		Name: cmp.Or(named.Name, named.Driver), BaseURL: cmp.Or(named.BaseURL, "https://api.nowpayments.io/v1"), APIKey: named.APIKey,
		Email: named.Email, Password: named.Password, TOTPSecret: named.TOTPSecret, IPNSecret: named.IPNSecret, Settlement: named.Settlement,
		CurrenciesAge: nowpayments.CurrenciesAgeUsual, WritesPerSecond: nowpayments.WritesPerSecondUsual,
	}, c)
	if err != nil {
		return nil, fmt.Errorf("crypto: %w", err)
	}
	configs := source.Public
	if len(rates) > 0 {
		configs = nil
		for _, r := range rates {
			configs = append(configs, source.Config{Name: r.Name, Driver: r.Driver, BaseURL: r.BaseURL, APIKey: r.APIKey})
		}
	}
	if len(configs) < sourcesMin {
		return nil, errors.New("rates: name at least two sources: one alone is nothing to be compared with")
	}
	return newChain(provider, named.IPNSecret, configs)
}

const sourcesMin = 2

// simulatedChain reaches the simulated provider by the same driver as a real one. What a test switches there counts at
// once.
func simulatedChain(core *Core, a chainworld.Account) (*Chain, error) {
	provider, err := nowpayments.New(nowpayments.Config{
		Name: chainworld.TargetCrypto, BaseURL: a.BaseURL, APIKey: a.APIKey, Email: a.Email, Password: a.Password, TOTPSecret: a.TOTPSecret,
		IPNSecret: a.IPNSecret, Settlement: a.Settlement, Transport: core.network,
	}, core.Clock)
	if err != nil {
		return nil, err
	}
	return newChain(provider, a.IPNSecret, []source.Config{
		{Name: chainworld.SourceAwesome, Driver: "awesomeapi", BaseURL: a.RatesURL + "/" + chainworld.SourceAwesome, Transport: core.network},
		{Name: chainworld.SourceCoinGecko, Driver: "coingecko", BaseURL: a.RatesURL + "/" + chainworld.SourceCoinGecko, Transport: core.network},
	})
}

func newChain(provider chain.Payer, secret string, configs []source.Config) (*Chain, error) {
	c := &Chain{Provider: provider, secret: secret}
	for _, config := range configs {
		s, err := source.New(config)
		if err != nil {
			return nil, fmt.Errorf("rates: %w", err)
		}
		c.Sources = append(c.Sources, s)
	}
	return c, nil
}
