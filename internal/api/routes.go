package api

import (
	"net/http"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
)

// route is one row of the API.
type route struct {
	method   string
	path     string            // below [Prefix]
	open     bool              // needs no key
	scopes   []account.Scopes  // the key has all of one of these; none means any key
	resource account.Resources // what an operator can switch off; 0 for nothing
	key      idempotency.Rule  // of the Idempotency-Key header
	answer   func(*API, *call) (httpkit.Answer, error)
}

// routes are all routes that are served. A test holds them against openapi.yaml in both directions.
func routes() []*route {
	table := []*route{
		{
			method: http.MethodPost, path: "/charges", key: idempotency.Required,
			scopes: []account.Scopes{account.ScopeChargesWrite}, resource: account.ResourceCharges,
			answer: (*API).createCharge,
		},
		{
			method: http.MethodGet, path: "/charges", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeChargesRead}, resource: account.ResourceCharges,
			answer: (*API).listCharges,
		},
		{
			method: http.MethodGet, path: "/charges/{id}", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeChargesRead}, resource: account.ResourceCharges,
			answer: (*API).getCharge,
		},
		{
			method: http.MethodPost, path: "/payouts", key: idempotency.Optional,
			scopes: []account.Scopes{account.ScopePayoutsWrite}, resource: account.ResourcePayouts,
			answer: (*API).createPayout,
		},
		{
			method: http.MethodGet, path: "/payouts", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopePayoutsRead}, resource: account.ResourcePayouts,
			answer: (*API).listPayouts,
		},
		{
			method: http.MethodGet, path: "/payouts/{id}", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopePayoutsRead}, resource: account.ResourcePayouts,
			answer: (*API).getPayout,
		},
		{
			method: http.MethodGet, path: "/crypto/currencies", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeChargesRead, account.ScopePayoutsRead}, resource: account.ResourceCrypto,
			answer: (*API).listCryptoCurrencies,
		},
		{
			// Which of the scopes it needs is told by the body.
			method: http.MethodPost, path: "/crypto/quotes", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeChargesRead, account.ScopePayoutsRead}, resource: account.ResourceCrypto,
			answer: (*API).createCryptoQuote,
		},
		{
			method: http.MethodPost, path: "/crypto/charges", key: idempotency.Optional,
			scopes: []account.Scopes{account.ScopeChargesWrite}, resource: account.ResourceCrypto,
			answer: (*API).createCryptoCharge,
		},
		{
			method: http.MethodGet, path: "/crypto/charges", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeChargesRead}, resource: account.ResourceCrypto,
			answer: (*API).listCryptoCharges,
		},
		{
			method: http.MethodGet, path: "/crypto/charges/{id}", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeChargesRead}, resource: account.ResourceCrypto,
			answer: (*API).getCryptoCharge,
		},
		{
			method: http.MethodPost, path: "/crypto/payouts", key: idempotency.Optional,
			scopes: []account.Scopes{account.ScopePayoutsWrite}, resource: account.ResourceCrypto,
			answer: (*API).createCryptoPayout,
		},
		{
			method: http.MethodGet, path: "/crypto/payouts", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopePayoutsRead}, resource: account.ResourceCrypto,
			answer: (*API).listCryptoPayouts,
		},
		{
			method: http.MethodGet, path: "/crypto/payouts/minimum", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopePayoutsRead}, resource: account.ResourceCrypto,
			answer: (*API).getCryptoPayoutMinimum,
		},
		{
			method: http.MethodGet, path: "/crypto/payouts/estimate", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopePayoutsRead}, resource: account.ResourceCrypto,
			answer: (*API).getCryptoPayoutEstimate,
		},
		{
			method: http.MethodGet, path: "/balance", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeBalanceRead}, resource: account.ResourceBalance,
			answer: (*API).getBalance,
		},
		{
			method: http.MethodGet, path: "/transactions", key: idempotency.Unused,
			scopes:   []account.Scopes{account.ScopeTransactionsRead, account.ScopeChargesRead | account.ScopePayoutsRead},
			resource: account.ResourceTransactions,
			answer:   (*API).listTransactions,
		},
		{
			method: http.MethodGet, path: "/med", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeMEDRead}, resource: account.ResourceMED,
			answer: (*API).listInfractions,
		},
		{
			method: http.MethodGet, path: "/med/{id}", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeMEDRead}, resource: account.ResourceMED,
			answer: (*API).getInfraction,
		},
		{
			method: http.MethodPost, path: "/med/{id}", key: idempotency.Unused,
			scopes: []account.Scopes{account.ScopeMEDWrite}, resource: account.ResourceMED,
			answer: (*API).submitDefense,
		},
		{method: http.MethodGet, path: "/openapi.yaml", open: true, key: idempotency.Unused, answer: (*API).openAPIYAML},
		{method: http.MethodGet, path: "/openapi.json", open: true, key: idempotency.Unused, answer: (*API).openAPIJSON},
		{method: http.MethodGet, path: "/card_payments", key: idempotency.Unused, answer: absent},
		{method: http.MethodPost, path: "/card_payments", key: idempotency.Unused, answer: absent},
	}
	for _, path := range []string{"/boletos", "/card/charges"} {
		table = append(table,
			&route{method: http.MethodPost, path: path, key: idempotency.Unused, answer: reserved},
			&route{method: http.MethodGet, path: path, key: idempotency.Unused, answer: reserved},
			&route{method: http.MethodGet, path: path + "/{id}", key: idempotency.Unused, answer: reserved},
		)
	}
	return table
}

// reserved answers routes of payment methods that do not exist yet.
func reserved(*API, *call) (httpkit.Answer, error) {
	return httpkit.Answer{}, fault.New(fault.NotAvailable, "", "this payment method is reserved and not available yet")
}

// absent answers a name that is taken for later and does not even count as reserved.
func absent(*API, *call) (httpkit.Answer, error) { return httpkit.Answer{}, errNoRoute }
