package api_test

import (
	"net/http"
	"testing"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/testkit"
)

func TestBalance(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		s.Adjust(t, other.ID, money.CurrencyBRL, "777.77")
		want := func(body string) {
			t.Helper()
			got := s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK).Lacks(t, "777.77", other.ID.String(), a.ID.String(), "shop")
			// By their digits: an amount is never written with an exponent or without its centavos.
			if string(got.Body) != body+"\n" {
				t.Errorf("got %s, want %s", got.Body, body)
			}
		}
		want(`{"available_balance":0.00,"pending_balance":0.00,"blocked_balance":0.00,"total_balance":0.00,"currency":"BRL"}`)
		s.Adjust(t, a.ID, money.CurrencyBRL, "100")
		s.Adjust(t, a.ID, money.CurrencyBRL, "-30.5")
		s.Adjust(t, a.ID, money.CurrencyUSDT, "888.123456")
		hold, err := s.Core.Ledger.Hold(t.Context(), a.ID, 20_00, "review")
		if err != nil {
			t.Fatal(err)
		}
		want(`{"available_balance":49.50,"pending_balance":0.00,"blocked_balance":20.00,"total_balance":69.50,"currency":"BRL"}`)
		s.Step(t) // what was folded shows no other balance
		want(`{"available_balance":49.50,"pending_balance":0.00,"blocked_balance":20.00,"total_balance":69.50,"currency":"BRL"}`)
		if _, err := s.Core.Ledger.Release(t.Context(), a.ID, hold.ID); err != nil {
			t.Fatal(err)
		}
		s.Adjust(t, a.ID, money.CurrencyBRL, "-70.01")
		want(`{"available_balance":-0.51,"pending_balance":0.00,"blocked_balance":0.00,"total_balance":-0.51,"currency":"BRL"}`)
		s.Adjust(t, a.ID, money.CurrencyBRL, "9999999999.99")
		want(`{"available_balance":9999999999.48,"pending_balance":0.00,"blocked_balance":0.00,"total_balance":9999999999.48,"currency":"BRL"}`)
	})
}
