package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// What is done to withdrawals while payouts are tortured.
const (
	coinClerks  = 4                           // that withdraw
	coinPrefix  = "coin-"                     // of their external_ids
	coinOpening = money.USDT(500_000_000_000) // of each account
)

func isCoin(external string) bool { return strings.HasPrefix(external, coinPrefix) }

// coinAddresses are where coins are sent.
var coinAddresses = []struct{ currency, address string }{
	{"usdtbsc", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
	{"usdterc20", "0x1EBAeF7Bee7B3a7B2EEfC72e86593Bf15ED37522"},
	{"trx", "TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS"},
	{"ltc", "LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz"},
	{"btc", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"},
}

// coinClerk withdraws again and again. Each request is repeated until it is answered, as its caller must.
func (r *torture) coinClerk(ctx context.Context, random *rand.Rand) error {
	for r.isWanted(ctx, random) {
		n := r.numbers.Add(1)
		a := r.accounts[n%int64(len(r.accounts))]
		external := fmt.Sprint(coinPrefix, n)
		to := coinAddresses[random.IntN(len(coinAddresses))]
		body := fmt.Sprintf(`{"amount": %d.%06d, "currency": %q, "address": %q, "external_id": %q}`,
			60+random.IntN(100), random.IntN(1_000_000), to.currency, to.address, external)
		key := ""
		if random.IntN(2) == 0 {
			key = "key-" + external
		}
		if err := r.withdraw(ctx, a, external, key, body); err != nil {
			return err
		}
		if random.IntN(10) == 0 { // somebody repeats it although it was answered
			_, _, _ = r.send(ctx, a.key, http.MethodPost, "/v1/crypto/payouts", key, body)
		}
	}
	return nil
}

// withdraw sends one request until it is answered with something that is not to be repeated.
func (r *torture) withdraw(ctx context.Context, a tortured, external, key, body string) error {
	began := testkit.Real.Real()
	for testkit.Real.RealSince(began) < stuckAfter {
		status, answer, err := r.send(ctx, a.key, http.MethodPost, "/v1/crypto/payouts", key, body)
		if err == nil {
			var told struct {
				Status string `json:"status"`
				Error  struct {
					Code      string `json:"code"`
					Retryable bool   `json:"retryable"`
				} `json:"error"`
			}
			if err := json.Unmarshal(answer, &told); err != nil {
				return fmt.Errorf("%s: %d %s: %w", external, status, answer, err)
			}
			r.note(external, fmt.Sprint(status, " ", told.Status, told.Error.Code))
			switch {
			case status == http.StatusCreated, status == http.StatusOK:
				return nil
			case status == http.StatusUnprocessableEntity && slices.Contains([]string{"currency_unavailable", "invalid_address"}, told.Error.Code):
				return nil // a fault refused what is asked for beforehand: nothing is stored
			case !told.Error.Retryable && told.Error.Code != "external_id_in_progress":
				return fmt.Errorf("%s: %d %s", external, status, answer)
			case status >= http.StatusInternalServerError && r.isClosing():
				return nil // nobody wants it any more; whether it is stored is seen in the end
			}
		}
		if err := testkit.Real.Wait(ctx, tryAgain); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is stuck", external)
}

var coinOperations = []string{
	"payout.send", "payout.send", "payout.send", "payout.get", "payout.get", "payout.verify", "payout.verify", "token", "minimum", "estimate", "*",
}

// coinChaos breaks things at the provider, and has payouts fail, which is not final, be finished and be rejected.
func (r *torture) coinChaos(ctx context.Context, random *rand.Rand) error {
	for !r.isClosing() {
		if err := testkit.Real.Wait(ctx, time.Duration(random.Int64N(int64(2*chaosPause)))); err != nil {
			return err
		}
		var path, body string
		if random.IntN(2) == 0 {
			delay := random.IntN(50)
			kind := faultKinds[random.IntN(len(faultKinds))]
			if kind == "slow" && random.IntN(10) == 0 {
				delay = 5500 // longer than one try may take
			}
			times := 1 + random.IntN(3)
			if kind == "refuse" {
				times = 0 // until the other chaos mends
			}
			path, body = "/sim/faults", fmt.Sprintf(`{"target": "crypto", "operation": %q, "kind": %q, "times": %d, "delay_ms": %d}`,
				coinOperations[random.IntN(len(coinOperations))], kind, times, delay)
			r.faults.Add(1)
		} else {
			books, err := r.coinBooks(ctx)
			if err != nil {
				return err
			}
			// Only what was verified can fail and still be sent.
			open := slices.DeleteFunc(books, func(b coinBook) bool {
				return b.Status != "PROCESSING" && b.Status != "SENDING" && b.Status != "FAILED"
			})
			if len(open) == 0 {
				continue
			}
			b := open[random.IntN(len(open))]
			path, body = "/sim/crypto/payouts/"+b.ID+"/"+[]string{"fail", "fail", "finish", "reject"}[random.IntN(4)], "{}"
		}
		status, answer, err := r.world.Try(ctx, http.MethodPost, path, body)
		if err != nil || (status != http.StatusOK && status != http.StatusConflict && status != http.StatusUnprocessableEntity) {
			return fmt.Errorf("%s %s: %d %s, %w", path, body, status, answer, err)
		}
	}
	return nil
}

// coinBook is a payout in the provider's books.
type coinBook struct {
	ID         string `json:"id"`
	ExternalID string `json:"external_id"`
	Currency   string `json:"currency"`
	Address    string `json:"address"`
	Amount     string `json:"amount"`
	Status     string `json:"status"`
	TxHash     string `json:"tx_hash"`
	Executions int    `json:"executions"`
}

func (r *torture) coinBooks(ctx context.Context) ([]coinBook, error) {
	status, answer, err := r.world.Try(ctx, http.MethodGet, "/sim/crypto/books", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("books: %d %s", status, answer)
	}
	var books struct {
		Payouts []coinBook `json:"payouts"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &books)
	}
	return books.Payouts, err
}

// endFailed brings what the provider calls failed to its end, one way or the other.
func (r *torture) endFailed() {
	r.t.Helper()
	books, err := r.coinBooks(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for i, b := range books {
		if b.Status == "FAILED" {
			r.world.Do(r.t, http.MethodPost, "/sim/crypto/payouts/"+b.ID+"/"+[]string{"finish", "reject"}[i%2], "{}", nil)
		}
	}
}

// failOne has a withdrawal fail at the provider, be noticed, and then be sent all the same.
func (r *torture) failOne() {
	r.t.Helper()
	r.world.Mend(r.t)
	a := r.accounts[0]
	external := fmt.Sprint(coinPrefix, r.numbers.Add(1))
	to := coinAddresses[0]
	body := fmt.Sprintf(`{"amount": 60, "currency": %q, "address": %q, "external_id": %q}`, to.currency, to.address, external)
	for failed := ""; failed == ""; { // until one is caught between its verification and its end
		if err := r.withdraw(r.t.Context(), a, external, "", body); err != nil {
			r.t.Fatal(err)
		}
		name := ""
		for token, p := range r.listCoins(a) {
			if *p.ExternalID == external {
				name = token
			}
		}
		testkit.Within(r.t, stuckAfter, "the payout to be verified", func() bool {
			status, _, err := r.world.Try(r.t.Context(), http.MethodPost, "/sim/crypto/payouts/"+name+"/fail", "{}")
			if err != nil {
				r.t.Fatal(err)
			}
			books, err := r.coinBooks(r.t.Context())
			if err != nil {
				r.t.Fatal(err)
			}
			i := slices.IndexFunc(books, func(b coinBook) bool { return b.ExternalID == name })
			if status == http.StatusOK {
				failed = books[i].ID
			}
			return status == http.StatusOK || (i >= 0 && books[i].Status == "FINISHED")
		})
		if failed == "" {
			external = fmt.Sprint(coinPrefix, r.numbers.Add(1))
			body = fmt.Sprintf(`{"amount": 60, "currency": %q, "address": %q, "external_id": %q}`, to.currency, to.address, external)
			continue
		}
		testkit.Within(r.t, stuckAfter, "the failure to be noticed", func() bool { return r.listCoins(a)[name].Status == "failed" })
		r.world.Do(r.t, http.MethodPost, "/sim/crypto/payouts/"+failed+"/finish", "{}", nil)
	}
}

type coinJSON struct {
	ID         string      `json:"id"`
	ExternalID *string     `json:"external_id"`
	Currency   string      `json:"currency"`
	Amount     json.Number `json:"amount"`
	Gross      json.Number `json:"gross_amount"`
	Status     string      `json:"status"`
	TxHash     *string     `json:"tx_hash"`
}

// listCoins returns the withdrawals of an account by the names that the provider knows them by.
func (r *torture) listCoins(a tortured) map[string]coinJSON {
	r.t.Helper()
	owner, err := id.ParseAccount(a.id)
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]coinJSON{}
	for query := "?limit=200"; query != ""; {
		var page struct {
			Data []coinJSON `json:"data"`
			Next *string    `json:"next_starting_after"`
		}
		testkit.Do(r.t, *r.url.Load(), testkit.Request{Path: "/v1/crypto/payouts" + query, Key: a.key}).Want(r.t, http.StatusOK).Decode(r.t, &page)
		for _, p := range page.Data {
			x, err := id.CryptoPayout.Parse(p.ID)
			if err != nil {
				r.t.Fatal(err)
			}
			all[id.Token(x, owner)] = p
		}
		query = ""
		if page.Next != nil {
			query = "?limit=200&starting_after=" + *page.Next
		}
	}
	return all
}

// checkCoins holds the withdrawals against the books of the provider and against what callers were told.
func (r *torture) checkCoins() (problems []string) {
	r.t.Helper()
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	books, err := r.coinBooks(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	made := map[string][]coinBook{}
	for _, b := range books {
		made[b.ExternalID] = append(made[b.ExternalID], b)
	}
	found := map[string]coinJSON{}
	for _, a := range r.accounts {
		want := coinOpening
		for name, p := range r.listCoins(a) {
			found[*p.ExternalID] = p
			switch p.Status {
			case "completed":
				want -= usdt(r, p.Gross.String())
			case "failed":
			default:
				problem("%s is %s", p.ID, p.Status)
			}
			executions, hashes := 0, []string{}
			for _, b := range made[name] {
				executions += b.Executions
				if b.Executions > 0 {
					hashes = append(hashes, b.TxHash)
				}
				if b.Currency != p.Currency || (strings.HasPrefix(p.Currency, "usdt") && !decimal.RequireFromString(b.Amount).Equal(decimal.RequireFromString(p.Amount.String()))) {
					problem("%s of %s %s is in the books as %+v", p.ID, p.Amount, p.Currency, b)
				}
			}
			switch {
			case p.Status == "completed" && executions != 1, p.Status == "failed" && executions != 0:
				problem("%s is %s and its coins left %d times", p.ID, p.Status, executions)
			case p.Status == "completed" && (p.TxHash == nil || !slices.Contains(hashes, *p.TxHash)):
				problem("%s has the hash %v, the provider has %v", p.ID, p.TxHash, hashes)
			}
			delete(made, name)
		}
		var shown accountJSON
		r.in.json(r.t, &shown, "account", "show", a.id)
		if got := shown.Balances["USDT"]; got.Available != want.String() || got.InTransit != "0.000000" {
			problem("%s has %+v, and should have %s USDT", a.id, got, want)
		}
	}
	for name, list := range made {
		problem("the provider has %+v of %s, of which nobody knows", list, name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for external, told := range r.answers {
		if !isCoin(external) {
			continue
		}
		p, exists := found[external]
		switch stored := strings.HasPrefix(told, "201") || strings.HasPrefix(told, "200"); {
		case stored && !exists:
			problem("%s was answered %s and is not there", external, told)
		case told == "201 failed" && p.Status != "failed", told == "201 completed":
			problem("%s was answered %s and is %s", external, told, p.Status)
		}
	}
	return problems
}

func usdt(r *torture, text string) money.USDT {
	r.t.Helper()
	a, err := money.ParseUSDT(text)
	if err != nil {
		r.t.Fatalf("amount %q: %v", text, err)
	}
	return a
}
