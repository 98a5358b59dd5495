package testkit

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/ponte-pay/ponte/internal/money"
)

// Things are identifiers of what an account has, one of each kind.
type Things struct {
	Charge     string // paid
	Payout     string
	Infraction string // about the charge, open
	Deposit    string
	Withdrawal string
}

// Stock gives an account one thing of each kind. pass lets a minute of business time pass, and what is then due be done.
func (s *Service) Stock(tb testing.TB, a Account, w *World, pass func()) (t Things) {
	tb.Helper()
	s.Adjust(tb, a.ID, money.CurrencyBRL, "5000.00")
	s.Adjust(tb, a.ID, money.CurrencyUSDT, "5000.00")
	create := func(path, body string) (id, code string) {
		var thing struct {
			ID  string `json:"id"`
			Pix struct {
				CopyPaste string `json:"copy_paste"`
			} `json:"pix"`
		}
		s.Do(tb, Request{
			Method: http.MethodPost, Path: "/v1" + path, Key: a.Key, Body: body, Header: http.Header{"Idempotency-Key": {"stock-" + path}},
		}).Want(tb, http.StatusCreated).Decode(tb, &thing)
		return thing.ID, thing.Pix.CopyPaste
	}
	var code string
	t.Charge, code = create("/charges", `{"amount": 125.90, "external_id": "stock-order", "description": "Pedido 1042", "payer_name": "Maria Silva"}`)
	paid := w.Pay(tb, Payment{CopyPaste: code})
	t.Payout, _ = create("/payouts", `{"amount": 80, "pix_key": "maria@example.org", "external_id": "stock-refund"}`)
	t.Deposit, _ = create("/crypto/charges", `{"amount": 50, "pay_currency": "usdttrc20", "external_id": "stock-topup"}`)
	t.Withdrawal, _ = create("/crypto/payouts",
		`{"amount": 100, "currency": "usdtbsc", "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "external_id": "stock-withdrawal"}`)
	s.Get(tb, a.Key, "/v1/charges/"+t.Charge).Want(tb, http.StatusOK) // asks the bank
	w.Do(tb, http.MethodPost, "/sim/med", fmt.Sprintf(`{"end_to_end_id": %q, "reason": "não recebi"}`, paid), nil)
	pass()
	Wait(tb, "the infraction", func() bool {
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		s.Get(tb, a.Key, "/v1/med").Want(tb, http.StatusOK).Decode(tb, &list)
		if len(list.Data) > 0 {
			t.Infraction = list.Data[0].ID
		}
		return t.Infraction != ""
	})
	return t
}
