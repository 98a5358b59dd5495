package simulator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

const childVariable = "PONTE_SIMULATOR_CHILD"

// TestMain runs a simulator on the folder that is named in the environment, if one is, until it is killed.
func TestMain(m *testing.M) {
	folder := os.Getenv(childVariable)
	if folder == "" {
		os.Exit(m.Run())
	}
	s, err := Open(Options{Data: folder, Clock: clock.New(nil), SettleAfter: 20 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := httptest.NewServer(s.Handler())
	go func() { _ = s.Serve(context.Background()) }()
	fmt.Println(server.URL)
	select {}
}

// TestKill kills a simulator that is at work, again and again. Whatever it told must be there when it comes back.
func TestKill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	seen := &witness{charges: map[string]bool{}, payments: map[string]string{}, payouts: map[string]bool{}, invoices: map[string]bool{}}
	var moved int64
	for round := range 3 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+folder)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		control, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		control = strings.TrimSpace(control)
		var accounts []Account
		clocktest.Wait(t, "its acquirers", func() bool {
			accounts = nil
			send(t, http.DefaultClient, request(t, "GET", control+"/sim/acquirers", "")).into(t, http.StatusOK, &accounts)
			return !strings.HasSuffix(accounts[1].BaseURL, ".simulator")
		})
		seen.check(t, control, moved)
		send(t, http.DefaultClient, request(t, "POST", control+"/sim/clock", `{"advance_seconds":1000}`)).want(t, http.StatusOK)
		moved += 1000

		before := seen.count()
		var wg sync.WaitGroup
		for worker := range 8 {
			b := &bank{tb: t, account: accounts[worker%2], client: &http.Client{Transport: &http.Transport{}}}
			b.access = b.token()
			wg.Go(func() { seen.work(b, control, (round*8+worker)*1_000_000) })
		}
		clocktest.Wait(t, "some work", func() bool { return seen.count() > before+100 })
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		wg.Wait()
	}
	w := openWorld(t, folder, clock.New(nil))
	seen.check(t, w.control, moved)
}

// witness remembers what a simulator told.
type witness struct {
	mu       sync.Mutex
	charges  map[string]bool
	payments map[string]string // amounts
	payouts  map[string]bool
	invoices map[string]bool // of the crypto provider
}

func (s *witness) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.payments)
}

// work creates, pays and sends until the simulator is gone.
func (s *witness) work(b *bank, control string, from int) {
	for n := from; ; n++ {
		got, err := b.try("PUT", "/v2/cob/"+txidOf(n), b.body("10.00"))
		if err != nil || got.status != http.StatusCreated {
			return
		}
		s.mu.Lock()
		s.charges[b.account.Name+" "+txidOf(n)] = true
		s.mu.Unlock()
		got, err = try(b.client, request(b.tb, "POST", control+"/sim/pix/pay", `{"txid":"`+txidOf(n)+`"}`))
		var paid struct {
			EndToEndID string `json:"end_to_end_id"`
		}
		if err != nil || json.Unmarshal([]byte(got.body), &paid) != nil || paid.EndToEndID == "" {
			return
		}
		s.mu.Lock()
		s.payments[paid.EndToEndID] = "10.00"
		s.mu.Unlock()
		got, err = b.try("PUT", "/v3/gn/pix/"+txidOf(n), b.payoutBody("3.00", "52998224725"))
		if err != nil || got.status != http.StatusCreated {
			return
		}
		s.mu.Lock()
		s.payouts[b.account.Name+" "+txidOf(n)] = true
		s.mu.Unlock()
		if !s.workWithCoins(b, control) {
			return
		}
	}
}

// workWithCoins asks the crypto provider for an address and sends coins there. It reports false when the simulator is gone.
func (s *witness) workWithCoins(b *bank, control string) bool {
	got, err := try(b.client, request(b.tb, "GET", control+"/sim/crypto/account", ""))
	var account chainworld.Account
	if err != nil || json.Unmarshal([]byte(got.body), &account) != nil {
		return false
	}
	r := request(b.tb, "POST", account.BaseURL+"/payment", `{"price_amount":30,"price_currency":"usd","pay_currency":"ton"}`)
	r.Header.Set("X-Api-Key", account.APIKey)
	got, err = try(b.client, r)
	var i invoice
	if err != nil || json.Unmarshal([]byte(got.body), &i) != nil || i.ID == "" {
		return false
	}
	s.mu.Lock()
	s.invoices[i.ID+" 0"] = true
	s.mu.Unlock()
	got, err = try(b.client, request(b.tb, "POST", control+"/sim/crypto/deposit", `{"pay_address":"`+i.Address+`","amount":"12.5"}`))
	if err != nil || got.status != http.StatusOK {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.invoices, i.ID+" 0")
	s.invoices[i.ID+" 12.5"] = true
	return true
}

// check fails unless everything that was told is in the books, and the clock is where it was.
func (s *witness) check(t *testing.T, control string, moved int64) {
	t.Helper()
	var books bookJSON
	send(t, http.DefaultClient, request(t, "GET", control+"/sim/pix/books", "")).into(t, http.StatusOK, &books)
	var coins chainworld.Books
	send(t, http.DefaultClient, request(t, "GET", control+"/sim/crypto/books", "")).into(t, http.StatusOK, &coins)
	paid := map[string]string{}
	for _, p := range coins.Payments {
		paid[p.ID] = p.PaidAmount
	}
	for told := range s.invoices {
		// What was told as unpaid may have been paid by a request whose answer was lost.
		if id, amount, _ := strings.Cut(told, " "); paid[id] == "" || (amount != "0" && paid[id] != amount) {
			t.Errorf("crypto payment %s is %q", told, paid[id])
		}
	}
	charges, payments := map[string]bool{}, map[string]string{}
	for _, c := range books.Charges {
		charges[c.Acquirer+" "+c.TxID] = true
	}
	for _, p := range books.Payments {
		payments[p.EndToEndID] = p.Amount
	}
	for c := range s.charges {
		if !charges[c] {
			t.Errorf("charge %s is lost", c)
		}
	}
	for e2e, amount := range s.payments {
		if payments[e2e] != amount {
			t.Errorf("payment %s is %q, want %s", e2e, payments[e2e], amount)
		}
	}
	payouts := map[string]int{}
	for _, p := range books.Payouts {
		payouts[p.Acquirer+" "+p.ID]++
		if (p.Status == "REALIZADO") != (p.Executions == 1) || p.Executions > 1 {
			t.Errorf("payout %+v", p)
		}
	}
	for p := range s.payouts {
		if payouts[p] != 1 {
			t.Errorf("payout %s is there %d times", p, payouts[p])
		}
	}
	if want := fmt.Sprintf("%d.00", 20_000_000+10*len(books.Payments)-3*len(books.Payouts)); books.Balance != want {
		t.Errorf("balance %s, want %s", books.Balance, want)
	}
	send(t, http.DefaultClient, request(t, "GET", control+"/sim/clock", "")).want(t, http.StatusOK, fmt.Sprintf(`"offset_seconds":%d,`, moved))
}

// listenOn takes the port of a base URL.
func listenOn(baseURL string) (net.Listener, error) {
	return net.Listen("tcp", strings.TrimPrefix(baseURL, "http://"))
}
