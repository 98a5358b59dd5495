package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// What is done to deposits while payouts are tortured. They have an account of their own.
const (
	depositClerks = 3          // that take coins in
	depositPrefix = "deposit-" // of their external_ids
)

func isDeposit(external string) bool { return strings.HasPrefix(external, depositPrefix) }

// depositJSON is a deposit as callers see it.
type depositJSON struct {
	ID         string       `json:"id"`
	ExternalID *string      `json:"external_id"`
	Status     string       `json:"status"`
	Address    *string      `json:"pay_address"`
	PaymentID  *string      `json:"payment_id"`
	Received   *json.Number `json:"received_amount"`
	Fee        *json.Number `json:"fee"`
	Refunded   *json.Number `json:"refunded_amount"`
}

// depositClerk takes coins in again and again: once, twice, late, or never.
func (r *torture) depositClerk(ctx context.Context, random *rand.Rand) error {
	for r.isWanted(ctx, random) {
		external := fmt.Sprint(depositPrefix, r.numbers.Add(1))
		body := fmt.Sprintf(`{"amount": %d, "pay_currency": %q, "external_id": %q}`,
			20+random.IntN(100), []string{"usdtbsc", "usdttrc20", "ltc", "eth"}[random.IntN(4)], external)
		made, err := r.takeIn(ctx, external, body)
		if err != nil || made.Address == nil {
			return err
		}
		for range random.IntN(3) {
			order := fmt.Sprintf(`{"pay_address": %q, "amount": "%d.%02d", "callback": %v}`, *made.Address, 1+random.IntN(90), random.IntN(100), random.IntN(3) > 0)
			if status, answer, err := r.world.Try(ctx, http.MethodPost, "/sim/crypto/deposit", order); err != nil || status != http.StatusOK {
				return fmt.Errorf("%s: %d %s, %w", order, status, answer, err)
			}
		}
		if random.IntN(3) == 0 { // somebody looks; who looks at a dead server sees nothing
			_, _, _ = r.send(ctx, r.depositor.key, http.MethodGet, "/v1/crypto/charges/ext:"+external, "", "")
		}
	}
	return nil
}

// takeIn sends one request until it has an address, which must be the same each time. It returns without one when nobody
// wants it any more.
func (r *torture) takeIn(ctx context.Context, external, body string) (made depositJSON, err error) {
	began := testkit.Real.Real()
	for testkit.Real.RealSince(began) < stuckAfter {
		status, answer, err := r.send(ctx, r.depositor.key, http.MethodPost, "/v1/crypto/charges", "", body)
		if err == nil {
			var told struct {
				depositJSON
				Error struct {
					Code      string `json:"code"`
					Retryable bool   `json:"retryable"`
				} `json:"error"`
			}
			if err := json.Unmarshal(answer, &told); err != nil {
				return made, fmt.Errorf("%s: %d %s: %w", external, status, answer, err)
			}
			r.note(external, fmt.Sprint(status, " ", told.Status, told.Error.Code))
			switch {
			case status == http.StatusCreated, status == http.StatusOK && told.Address != nil:
				return told.depositJSON, nil
			case status == http.StatusOK, status == http.StatusAccepted && r.isClosing():
				return made, nil // a fault refused it at the second asking; or it comes to its end without us
			case status == http.StatusAccepted:
			case status == http.StatusUnprocessableEntity && (told.Error.Code == "charge_failed" || told.Error.Code == "unsupported_currency"):
				// A fault refused it: nothing is stored.
			case !told.Error.Retryable && told.Error.Code != "external_id_in_progress":
				return made, fmt.Errorf("%s: %d %s", external, status, answer)
			case status >= http.StatusInternalServerError && r.isClosing():
				return made, nil // nobody wants it any more; whether it is stored is seen in the end
			}
		}
		if err := testkit.Real.Wait(ctx, tryAgain); err != nil {
			return made, err
		}
	}
	return made, fmt.Errorf("%s is stuck", external)
}

var depositOperations = []string{"payment.create", "payment.create", "payment.create", "payment.get", "payment.get"}

// depositChaos breaks the making of addresses, and has payments confirmed, fail, expire and go back.
func (r *torture) depositChaos(ctx context.Context, random *rand.Rand) error {
	for !r.isClosing() {
		if err := testkit.Real.Wait(ctx, time.Duration(random.Int64N(int64(2*chaosPause)))); err != nil {
			return err
		}
		var body string
		path := "/sim/faults"
		if random.IntN(2) == 0 {
			kind := faultKinds[random.IntN(len(faultKinds))]
			if kind == "refuse" {
				kind = "http_429" // the other chaos refuses
			}
			body = fmt.Sprintf(`{"target": "crypto", "operation": %q, "kind": %q, "times": %d, "delay_ms": %d}`,
				depositOperations[random.IntN(len(depositOperations))], kind, 1+random.IntN(2), random.IntN(50))
			r.faults.Add(1)
		} else {
			books, err := r.depositBooks(ctx)
			if err != nil {
				return err
			}
			if len(books) == 0 {
				continue
			}
			b := books[len(books)-1-random.IntN(min(len(books), 20))]
			path, body = "/sim/crypto/charges/"+b.ID+"/"+[]string{"confirm", "confirm", "fail", "expire", "refund"}[random.IntN(5)], "{}"
		}
		status, answer, err := r.world.Try(ctx, http.MethodPost, path, body)
		if err != nil || (status != http.StatusOK && status != http.StatusConflict && status != http.StatusUnprocessableEntity) {
			return fmt.Errorf("%s %s: %d %s, %w", path, body, status, answer, err)
		}
	}
	return nil
}

// depositBook is a payment in the provider's books.
type depositBook struct {
	ID         string `json:"id"`
	Parent     string `json:"parent_id"`
	ExternalID string `json:"external_id"`
	Settled    string `json:"settled_amount"`
	Status     string `json:"status"`
}

func (r *torture) depositBooks(ctx context.Context) ([]depositBook, error) {
	status, answer, err := r.world.Try(ctx, http.MethodGet, "/sim/crypto/books", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("books: %d %s", status, answer)
	}
	var books struct {
		Payments []depositBook `json:"payments"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &books)
	}
	return books.Payments, err
}

// listDeposits returns all deposits, without asking the provider.
func (r *torture) listDeposits() (all []depositJSON) {
	r.t.Helper()
	for query := "?limit=200"; query != ""; {
		var page struct {
			Data []depositJSON `json:"data"`
			Next *string       `json:"next_starting_after"`
		}
		testkit.Do(r.t, *r.url.Load(), testkit.Request{Path: "/v1/crypto/charges" + query, Key: r.depositor.key}).Want(r.t, http.StatusOK).Decode(r.t, &page)
		all = append(all, page.Data...)
		query = ""
		if page.Next != nil {
			query = "?limit=200&starting_after=" + *page.Next
		}
	}
	return all
}

// endDeposits waits until what nobody told of is found by its age or in the lists.
func (r *torture) endDeposits() {
	r.t.Helper()
	began := testkit.Real.Real()
	for len(r.checkDeposits()) > 0 && testkit.Real.RealSince(began) < endTimeMax {
		r.world.Do(r.t, http.MethodPost, "/sim/clock", `{"advance_seconds": 400}`, nil)
		_ = testkit.Real.Wait(r.t.Context(), time.Second)
	}
}

// checkDeposits holds the deposits against the books of the provider and against what callers were told.
func (r *torture) checkDeposits() (problems []string) {
	r.t.Helper()
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	books, err := r.depositBooks(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	owner, err := id.ParseAccount(r.depositor.id)
	if err != nil {
		r.t.Fatal(err)
	}
	settled, addresses := map[string]money.USDT{}, map[string]int{}
	for _, b := range books {
		amount, ok := chain.FloorUSDT(decimal.RequireFromString(b.Settled))
		if !ok {
			r.t.Fatalf("%+v", b)
		}
		settled[b.ID] = amount
		if b.Parent == "" {
			addresses[b.ExternalID]++
		}
	}
	units := func(n *json.Number) money.USDT {
		if n == nil {
			return 0
		}
		return usdt(r, n.String())
	}
	var want money.USDT
	found := map[string]depositJSON{}
	for _, d := range r.listDeposits() {
		want += units(d.Received) - units(d.Fee) - units(d.Refunded)
		x, err := id.CryptoCharge.Parse(d.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		made := addresses[id.Token(x, owner)]
		if d.ExternalID != nil {
			found[*d.ExternalID] = d
			switch {
			case d.Status == "processing" || d.Status == "waiting" || d.Status == "confirming":
				problem("%s is %s", d.ID, d.Status)
			case made != 1 && d.PaymentID != nil, made != 0 && d.PaymentID == nil:
				problem("%s is %s and has %d addresses", d.ID, d.Status, made)
			}
		}
		if d.PaymentID == nil {
			continue
		}
		if got, theirs := units(d.Received)-units(d.Refunded), settled[*d.PaymentID]; got != theirs {
			problem("%s is %s and has %s, of which the provider settled %s", d.ID, d.Status, got, theirs)
		}
		delete(settled, *d.PaymentID)
	}
	for paymentID, amount := range settled {
		if amount != 0 {
			problem("the provider settled %s of %s, of which nobody knows", amount, paymentID)
		}
	}
	var shown accountJSON
	r.in.json(r.t, &shown, "account", "show", r.depositor.id)
	if got := shown.Balances["USDT"]; got.Available != want.String() {
		problem("%s has %+v, and should have %s USDT", r.depositor.id, got, want)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for external, told := range r.answers {
		if _, exists := found[external]; isDeposit(external) && strings.HasPrefix(told, "20") && !exists {
			problem("%s was answered %s and is not there", external, told)
		}
	}
	return problems
}
