package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

var (
	timelineList = regexp.MustCompile(`(?s)<ol class="timeline">.*?</ol>`)
	timelineRow  = regexp.MustCompile(`(?s)<div><strong>([^<]+)</strong>(?: · ([^<]+))?</div>\s*<div class="soft">(<time|–)`)
)

// timeline returns what a page says that happened, in its order: "untimed" marks what has no time.
func (x *shop) timeline(t *testing.T, page string) (rows []string) {
	t.Helper()
	body := x.owner.Get(t, page).Want(t, http.StatusOK).Body
	for _, m := range timelineRow.FindAllStringSubmatch(timelineList.FindString(body), -1) {
		row := strings.TrimSpace(m[1] + " " + strings.ReplaceAll(m[2], "\u00a0", " "))
		if m[3] != "<time" {
			row += " untimed"
		}
		rows = append(rows, row)
	}
	return rows
}

func (x *shop) wantTimeline(t *testing.T, page, want string) {
	t.Helper()
	if got := strings.Join(x.timeline(t, page), " / "); got != want {
		t.Errorf("%s\ngot  %s\nwant %s", page, got, want)
	}
}

// settle lets the banks tell, and what is due happen.
func (x *shop) settle(t *testing.T) {
	t.Helper()
	for range 2 {
		x.Deliver(t)
		x.Advance(t, time.Minute)
		x.Step(t)
	}
}

func public(page string) string { return page[strings.LastIndex(page, "/")+1:] }

// What has no event of its own has a time all the same: that of the transfer that it made, or of the operator's log.
func TestEndsHaveTimes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		x := newShop(t, s, "Padaria")
		x.owner.AddTOTP(t, s)
		s.Set(t, x.account.ID, "cash_in_fee=1.00")
		s.Adjust(t, x.account.ID, money.CurrencyBRL, "100.00")

		refunded := x.charge(t, "35", "devolvida")
		e2e := x.pay(t, refunded)
		for _, amount := range []string{"10.00", "25.00"} {
			s.World().Do(t, http.MethodPost, "/sim/pix/refund", fmt.Sprintf(`{"end_to_end_id": %q, "amount": %q}`, e2e, amount), nil)
			x.settle(t)
		}
		x.wantTimeline(t, refunded, "Cobrança criada / Cobrança paga / Devolvido R$ 10,00 / Devolvida R$ 25,00")
		x.owner.Get(t, refunded).Want(t, http.StatusOK, "<dt>Tarifa</dt><dd>R$\u00a01,00</dd>") // it stays charged

		disputed := x.charge(t, "40", "contestada")
		e2e = x.pay(t, disputed)
		var opened struct{ ID string }
		s.World().Do(t, http.MethodPost, "/sim/med", fmt.Sprintf(`{"end_to_end_id": %q}`, e2e), &opened)
		x.settle(t)
		shown := x.owner.Get(t, disputed).Want(t, http.StatusOK, "Infrações (MED)</h2>", "Aberta")
		link := regexp.MustCompile(`href="(` + x.path + `/infractions/inf_[0-9a-z]{26})"`).FindStringSubmatch(shown.Body)
		if link == nil {
			t.Fatalf("no infraction is linked: %s", shown.Body)
		}
		x.owner.Get(t, link[1]).Want(t, http.StatusOK, "contestada")
		x.owner.Get(t, refunded).Lacks(t, link[1])
		s.World().Do(t, http.MethodPost, "/sim/med/"+opened.ID+"/accept", "", nil)
		x.settle(t)
		x.wantTimeline(t, disputed, "Cobrança criada / Cobrança paga / Devolvida R$ 40,00")
		s.Set(t, x.account.ID, "disabled_resources=med")
		x.owner.Get(t, disputed).Lacks(t, link[1]) // its page is not there
		s.Set(t, x.account.ID, "disabled_resources=none")

		// By the acquirer, and by an operator, which is logged before the acquirer is asked.
		removed, cancelled := x.charge(t, "50", "removida"), x.charge(t, "51", "cancelada")
		entry := oplog.Begin(t.Context(), s.Core.IDs, oplog.Entry{Action: oplog.ChargeCancel, Account: x.account.ID, Subject: public(cancelled)})
		err := s.Core.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { entry.Write(ctx, tx); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range []string{removed, cancelled} {
			txid := regexp.MustCompile(`id="c-txid">([^<]+)<`).FindStringSubmatch(x.owner.Get(t, page).Body)[1]
			s.World().Do(t, http.MethodPost, "/sim/pix/remove", fmt.Sprintf(`{"txid": %q}`, txid), nil)
			s.Get(t, x.account.Key, "/v1/charges/"+public(page)).Want(t, http.StatusOK)
		}
		x.wantTimeline(t, removed, "Cobrança criada / Cancelada untimed")
		x.wantTimeline(t, cancelled, "Cobrança criada / Cancelada")

		returned := x.payout(t, "20,00", "ana@example.com", "devolvido")
		x.settle(t)
		s.World().Do(t, http.MethodPost, "/sim/pix/payouts/"+s.World().Payouts(t)[0].ID+"/return", `{}`, nil)
		x.settle(t)
		x.wantTimeline(t, returned, "Pagamento aceito / Pagamento concluído / Devolvido pelo banco R$ 20,00")
		x.owner.Get(t, returned).Want(t, http.StatusOK, `<strong>alpha</strong><span class="badge good">enviou</span>`)
	})
}

// The same for coins that a provider gave back.
func TestRefundsOfDeposit(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	page := x.send(t, "/deposits", with(x.form(t, "/deposits/new"), "amount", "50", "pay_currency", "usdtbsc"))
	var made struct {
		PayAddress string `json:"pay_address"`
	}
	s.Get(t, x.account.Key, "/v1/crypto/charges/"+public(page)).Want(t, http.StatusOK).Decode(t, &made)
	var paid struct{ ID string }
	s.World().Do(t, http.MethodPost, "/sim/crypto/deposit", fmt.Sprintf(`{"pay_address": %q, "amount": "60"}`, made.PayAddress), &paid)
	x.settle(t)
	s.World().Do(t, http.MethodPost, "/sim/crypto/charges/"+paid.ID+"/refund", `{}`, nil)
	x.settle(t)
	rows := x.timeline(t, page)
	if last := rows[len(rows)-1]; !strings.HasPrefix(last, "Devolvido pelo provedor ") || strings.HasSuffix(last, "untimed") {
		t.Errorf("got %q", rows)
	}
}

// Money that came by a charge beside its own payment is on its page, and on no other.
func TestInflowsOfCharge(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		x := newShop(t, s, "Padaria")
		page, other := x.charge(t, "35", "curta"), x.charge(t, "36", "outra")
		code := copyPaste.FindStringSubmatch(x.owner.Get(t, page).Body)[1]
		short := s.World().Pay(t, testkit.Payment{CopyPaste: code, Amount: "20.00"})
		s.Deliver(t)
		x.owner.Get(t, page).Want(t, http.StatusOK, "Aguardando", "Entradas avulsas", "R$\u00a020,00", short)
		x.pay(t, page)
		second := s.World().Pay(t, testkit.Payment{CopyPaste: code})
		s.Deliver(t)
		x.owner.Get(t, page).Want(t, http.StatusOK, "Paga", "Entradas avulsas", short, second)
		x.owner.Get(t, other).Want(t, http.StatusOK).Lacks(t, "Entradas avulsas", short, second)
	})
}

// A payout that failed was not debited.
func TestFailedPayout(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	x.owner.AddTOTP(t, s)
	s.Adjust(t, x.account.ID, money.CurrencyBRL, "100.00")
	s.World().Break(t, testkit.Fault{Target: "alpha", Operation: "payout.send", Kind: "lost_executed", Times: 1})
	page := x.payout(t, "20,00", "ana@example.com", "e-1")
	s.World().Do(t, http.MethodPost, "/sim/pix/payouts/"+s.World().Payouts(t)[0].ID+"/fail", `{}`, nil)
	x.settle(t)
	x.owner.Get(t, page).Want(t, http.StatusOK, "Falhou", "devolvido ao saldo", `<strong>alpha</strong><span class="badge bad">recusou</span>`).Lacks(t, "Total debitado")
}

// An infraction whose time is over says so wherever it is shown, and asks for no defense.
func TestInfractionPastItsDeadline(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	e2e := x.pay(t, x.charge(t, "40", "contestada"))
	s.World().Do(t, http.MethodPost, "/sim/med", fmt.Sprintf(`{"end_to_end_id": %q}`, e2e), nil)
	x.settle(t)
	list := x.owner.Get(t, x.path+"/infractions").Want(t, http.StatusOK, "restam 6 d 23 h")
	page := regexp.MustCompile(x.path + `/infractions/inf_[0-9a-z]{26}`).FindString(list.Body)
	x.owner.Get(t, page).Want(t, http.StatusOK, "restam", "Apresente a defesa dentro do prazo")
	x.owner.Get(t, x.path).Want(t, http.StatusOK, "restam")
	s.Advance(t, 8*24*time.Hour)
	x.owner.Get(t, page).Want(t, http.StatusOK, "Aberta", "prazo encerrado", "o prazo da defesa acabou").Lacks(t, "restam", "Apresente a defesa", "Sua defesa")
	for _, path := range []string{x.path, x.path + "/infractions"} {
		x.owner.Get(t, path).Want(t, http.StatusOK, "prazo encerrado").Lacks(t, "restam")
	}
}
