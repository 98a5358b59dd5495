package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/dashboard"
	"github.com/ponte-pay/ponte/internal/dashboard/reference"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// warehouse is an account that has more of everything than a page shows, and an operator with much to look after.
type warehouse struct {
	*testkit.Service
	shop            testkit.Account
	owner, operator *testkit.Browser
	things          *strings.Replacer // puts things into the variables of paths
}

// Rows of an account with a past. They go around the services: the account does not add up.
const (
	insertPastCharge = `INSERT INTO charge (account_id, id, txid, external_id, idem_hash, status, amount, fee, refunded, description, payer_name, acquirer, routing, copy_paste, end_to_end_id, paid_at, expires_at)
VALUES ($1, $2, $3, $4, $5, 'paid', 123456, 100, 0, 'Encomenda com entrega na porta, frete e embrulho', 'Maria da Silva Sauro', 'alpha', '[{"acquirer":"alpha","reason":"first","outcome":"accepted"}]', '0002', $6, 1, 1)`
	insertPastTransfer = `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind, ref, once_key)
VALUES ($1, $2, 'BRL', 'acquirer', 'available', 123456, 'cash_in', $2, $3)`
	insertPastEvent   = `INSERT INTO event (account_id, id, type, data, ref) VALUES ($1, $2, 'charge.paid', $3, $2)`
	insertPastSending = `INSERT INTO delivery (account_id, event_id, endpoint_id, lane, state, attempt, due_at) VALUES ($1, $2, $3, 0, $4, 1, 0)`
	insertPastAttempt = `INSERT INTO delivery_attempt (account_id, event_id, endpoint_id, number, at, took, status) VALUES ($1, $2, $3, 1, $4, 12000, 200)`
	insertPastPayout  = `INSERT INTO payout (account_id, id, external_id, idem_hash, status, answer, amount, fee, returned, pix_key, recipient_name, description, acquirer, sends, sent_at, check_at, routing, end_to_end_id, completed_at)
VALUES ($1, $2, $3, $4, 'completed', 'processing', 5000, 100, 0, 'fornecedor-de-farinha@moinho.example.com.br', 'Moinho Central', 'Farinha do mês', 'alpha', 1, 1, 1, '[]', $5, 1)`
	insertPastDeposit = `INSERT INTO deposit (account_id, id, external_id, idem_hash, status, price, pay_currency, provider, asks, asked_at, payment_id, pay_address, pay_amount, received, fee, refunded, paid_at)
VALUES ($1, $2, $3, $4, 'paid', 5000, 'usdttrc20', 'chain', 1, 1, $3, 'TP8moQfkuza3ykPWcdLUEhdq39hP69pwVi', '50.01', 50000000, 500000, 0, 1)`
	insertPastWithdrawal = `INSERT INTO withdrawal (account_id, id, external_id, idem_hash, status, currency, address, amount, fee, conversion_fee, coins, provider, sends, check_at, completed_at)
VALUES ($1, $2, $3, $4, 'completed', 'usdtbsc', '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 100000000, 1000000, 0, '100', 'chain', 1, 1, 1)`
	insertPastInfraction = `INSERT INTO infraction (account_id, id, acquirer, acquirer_id, charge_id, external_id, end_to_end_id, paid, amount, from_pending, debited, status, reason, opened_at, deadline_at, resolved_at, hand_tries, hand_doubt)
VALUES ($1, $2, 'alpha', $3, $2, $3, $4, 123456, 123456, 0, 0, 'rejected', 'não reconheço a compra', 1, 1, 1, 0, 0)`
)

// newWarehouse makes an account with n charges and what comes of them, one every few seconds up to now.
func newWarehouse(tb testing.TB, database string, n int) *warehouse {
	tb.Helper()
	s := testkit.Start(tb, database)
	w := &warehouse{Service: s, shop: s.Account(tb, "Padaria e Confeitaria Aurora do Campo Limpo")}
	w.owner, w.operator = s.Person(tb, "ana@example.com", w.shop.ID, user.Owner), s.Person(tb, operatorEmail, 0, "")
	w.operator.AddTOTP(tb, s)
	endpoint := newEndpoint(tb, s, w.shop)
	hook, err := id.Endpoint.Parse(endpoint)
	if err != nil {
		tb.Fatal(err)
	}
	write := func(f func(ctx context.Context, tx *sqldb.Tx)) {
		tb.Helper()
		err := s.Core.DB.Write(tb.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			f(ctx, tx)
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	const slice, apart, rare = 500, 20 * time.Second, 10
	data := []byte(`{"id":"chg_x","txid":"` + strings.Repeat("x", 35) + `","external_id":"pedido","amount":1234.56,"status":"paid","description":"Encomenda com entrega na porta, frete e embrulho","pix":{"copy_paste":"` + strings.Repeat("0", 160) + `","qr_code_image":null}}`)
	now, number, zero := s.Core.Clock.Now(), int64(w.shop.ID), make([]byte, 32)
	var last id.ID
	for first := 0; first < n; first += slice {
		write(func(ctx context.Context, tx *sqldb.Tx) {
			for i := first; i < min(n, first+slice); i++ {
				at := now.Add(-time.Duration(n-i) * apart)
				x, name := id.First(at), fmt.Sprintf("pedido-%d-da-loja-do-centro", i)
				e2e := fmt.Sprintf("E90000001202611151140%011d", i)
				tx.Queue(ctx, insertPastCharge, number, x, "past"+name, name, zero, e2e)
				tx.Queue(ctx, insertPastTransfer, number, x, e2e)
				tx.Queue(ctx, insertPastEvent, number, x, data)
				state := "delivered"
				if i >= n-2*rare {
					state = "parked"
				}
				tx.Queue(ctx, insertPastSending, number, x, hook, state)
				tx.Queue(ctx, insertPastAttempt, number, x, hook, at.UnixMicro())
				tx.Queue(ctx, insertPastPayout, number, x, name, zero, "E"+e2e[1:30]+"p")
				if i%rare == 0 || n < slice {
					tx.Queue(ctx, insertPastDeposit, number, x, name, zero)
					tx.Queue(ctx, insertPastWithdrawal, number, x, name, zero)
					tx.Queue(ctx, insertPastInfraction, number, x, name, e2e)
					last = x
				}
			}
		})
	}
	w.crowd(tb, write)
	w.things = strings.NewReplacer(
		"{account}", w.shop.ID.String(), "/{$}", "/", "{token}", newLink(tb, s, w.shop),
		"charges/{id}", "charges/"+id.Charge.Format(last), "payouts/{id}", "payouts/"+id.Payout.Format(last), "infractions/{id}", "infractions/"+id.Infraction.Format(last),
		"deposits/{id}", "deposits/"+id.CryptoCharge.Format(last), "withdrawals/{id}", "withdrawals/"+id.CryptoPayout.Format(last),
		"{event}", event.Prefix.Format(last), "{endpoint}", endpoint, "{person}", newMember(tb, s, w.shop),
	)
	return w
}

// crowd gives the operator more than one page of whatever operators look after.
func (w *warehouse) crowd(tb testing.TB, write func(func(context.Context, *sqldb.Tx))) {
	tb.Helper()
	const many = 60
	now := w.Core.Clock.Now().UnixMicro()
	write(func(ctx context.Context, tx *sqldb.Tx) {
		for i := range many {
			name := fmt.Sprintf("E90000001202611151140%011d", i)
			tx.Queue(ctx, `INSERT INTO unmatched (acquirer, end_to_end_id, txid, amount, paid_at, found_at, reason) VALUES ('alpha', $1, 'outro-sistema-000000000000000001', 123456, $2, $2, 'it names no charge of ours')`, name, now)
			tx.Queue(ctx, `INSERT INTO unmatched_infraction (acquirer, acquirer_id, end_to_end_id, amount, status, opened_at, found_at, reason) VALUES ('alpha', $1, $1, 4200, 'open', $2, $2, 'its payment was credited to nobody')`, name, now)
			tx.Queue(ctx, `INSERT INTO unmatched_deposit (provider, payment_id, reference, amount, found_at, reason) VALUES ('chain', $1, 'order-7', 5250000, $2, 'it names no crypto charge of ours')`, name, now)
			tx.Queue(ctx, `UPDATE payout SET doubt_at = $1, status = 'processing', check_at = $1 WHERE account_id = $2 AND external_id = $3`, now, int64(w.shop.ID), fmt.Sprintf("pedido-%d-da-loja-do-centro", i))
			tx.Queue(ctx, `INSERT INTO person (id, email, name, password, operator, totp_step, totp_for, created_at) VALUES ($1, $2, 'Maria da Silva Sauro', '', FALSE, 0, '', 1)`, w.Core.IDs.New(), fmt.Sprintf("pessoa-%d@padaria-aurora.example.com.br", i))
		}
	})
	for i := range many / 2 {
		w.Account(tb, fmt.Sprintf("Loja de tudo um pouco número %d", i))
		w.Revoke(tb, w.Key(tb, w.shop.ID, "charges:read,balance:read"))
	}
}

func newLink(tb testing.TB, s *testkit.Service, a testkit.Account) string {
	tb.Helper()
	link, err := s.Core.Users.Invite(tb.Context(), user.Invitation{Email: "eva@example.com", Account: a.ID, Role: user.Viewer})
	if err != nil {
		tb.Fatal(err)
	}
	return link
}

// pages calls visit with every page that there is, and with whom it is for. A route about a new kind of thing has to be added.
func (w *warehouse) pages(tb testing.TB, visit func(route, path string, b *testkit.Browser)) {
	tb.Helper()
	manual, err := reference.New(api.OpenAPI)
	if err != nil {
		tb.Fatal(err)
	}
	for _, r := range dashboard.Routes() {
		path := w.things.Replace(r.Path)
		b := w.owner
		if folder, ok := strings.CutSuffix(path, "{page}"); ok {
			for _, p := range manual.Pages[1:] { // the guide has a route of its own
				visit(folder+p.Name, folder+p.Name, b)
			}
			continue
		}
		switch {
		case r.Method != http.MethodGet, strings.HasSuffix(path, "/live"), strings.HasSuffix(path, "/download"):
			continue // no page
		case strings.Contains(path, "{"):
			tb.Errorf("%s: this test knows no such thing", r.Path)
			continue
		case r.Who == "operator":
			b = w.operator
		}
		visit(r.Path, path, b)
	}
}

// Every page is small, in both languages, also when there is more than it shows.
func TestPagesAreSmall(t *testing.T) {
	t.Parallel()
	const bytesMax, few = 100 << 10, 60
	w := newWarehouse(t, sqltest.SQLite(t), few)
	for _, locale := range []string{"pt-BR", "en"} {
		for _, b := range []*testkit.Browser{w.owner, w.operator} {
			b.Post(t, "/preferences", url.Values{"locale": {locale}, "next": {"/"}}).Want(t, http.StatusSeeOther)
		}
		w.pages(t, func(route, path string, b *testkit.Browser) {
			shown := b.Get(t, path)
			if shown.Status == http.StatusSeeOther { // to where somebody who is signed in belongs
				return
			}
			shown.Want(t, http.StatusOK, `<html lang="`+locale+`"`)
			if len(shown.Body) > bytesMax {
				t.Errorf("%s in %s has %d bytes", route, locale, len(shown.Body))
			}
		})
	}
}

// BenchmarkPages opens every page of an account with a hundred thousand charges, as many payouts, events, deliveries and
// transfers, and every page of its operator.
func BenchmarkPages(b *testing.B) {
	for name, database := range map[string]func(testing.TB) string{"sqlite": sqltest.SQLite, "postgres": sqltest.Postgres} {
		b.Run(name, func(b *testing.B) {
			const many = 100_000
			w := newWarehouse(b, database(b), many)
			for range 50 { // what was added up since
				w.Step(b)
			}
			w.pages(b, func(route, path string, browser *testkit.Browser) {
				b.Run(strings.ReplaceAll(route, "/", "|"), func(b *testing.B) {
					for b.Loop() {
						browser.Get(b, path)
					}
				})
			})
		})
	}
}
