package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// medLivesVariable says how many infractions are opened while the server is killed; by hand that may be many.
const (
	medLivesVariable = "PONTE_MED_LIVES"
	medLivesDefault  = 40
	medSeed          = 6
)

// court has payments made and disputed, whatever becomes of the server meanwhile.
type court struct {
	*till
	lives  int64
	opened atomic.Int64

	mu     sync.Mutex
	claims []string // as the bank has them: the payment, the amount and where it stands
}

// undecided is where an infraction stands that nobody decided: open or under review, by whether it was defended.
const undecided = "undecided"

type infractionJSON struct {
	ID         string      `json:"id"`
	EndToEndID string      `json:"end_to_end_id"`
	Amount     json.Number `json:"amount"`
	Status     string      `json:"status"`
}

// order has something happen in the bank.
func (k *court) order(ctx context.Context, path string, body map[string]any) (id string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	status, answer, err := k.world.Try(ctx, http.MethodPost, path, string(text))
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("%s %s: %d %s, %w", path, text, status, answer, err)
	}
	var told struct {
		ID         string `json:"id"`
		EndToEndID string `json:"end_to_end_id"`
	}
	err = json.Unmarshal(answer, &told)
	if told.ID == "" {
		return told.EndToEndID, err
	}
	return told.ID, err
}

// run lives one life after the other: a charge, its payment, what is claimed of it, and how that ends.
func (k *court) run(ctx context.Context, random *rand.Rand) error {
	for k.opened.Load() < k.lives {
		n := k.numbers.Add(1)
		c, err := k.make(ctx, n)
		if err != nil {
			return err
		}
		amount, err := money.ParseBRL(c.Amount.String())
		if err != nil {
			return err
		}
		e2e, err := k.order(ctx, "/sim/pix/pay", map[string]any{"copy_paste": c.Pix.CopyPaste, "callback": random.IntN(2) == 0})
		if err != nil {
			return err
		}
		var ours []string
		for range 1 + random.IntN(2) {
			claimed := amount
			if random.IntN(2) == 0 {
				claimed = 1 + money.BRL(random.Int64N(int64(amount)))
			}
			name, err := k.order(ctx, "/sim/med", map[string]any{"end_to_end_id": e2e, "amount": claimed.String()})
			if err != nil {
				return err
			}
			k.opened.Add(1)
			how := []string{"accept", "accept", "reject", "cancel", ""}[random.IntN(5)]
			ours = append(ours, fmt.Sprintf("%s %s %s", e2e, claimed, map[string]string{
				"accept": "accepted", "reject": "rejected", "cancel": "cancelled", "": undecided,
			}[how]))
			if random.IntN(2) == 0 {
				k.defend(ctx)
			}
			if random.IntN(4) == 0 { // refused when nothing is left
				_, _ = k.order(ctx, "/sim/pix/refund", map[string]any{"end_to_end_id": e2e, "amount": (1 + money.BRL(random.Int64N(int64(amount)))).String()})
			}
			if how == "" {
				continue
			}
			if _, err := k.order(ctx, "/sim/med/"+name+"/"+how, map[string]any{}); err != nil {
				return err
			}
		}
		k.mu.Lock()
		k.claims = append(k.claims, ours...)
		k.mu.Unlock()
		if _, err := k.order(ctx, "/sim/clock", map[string]any{"advance_seconds": 10 + random.IntN(20)}); err != nil {
			return err
		}
	}
	return nil
}

// defend defends the newest infraction that is open, if the server lives and knows one. It may be decided meanwhile.
func (k *court) defend(ctx context.Context) {
	status, answer, err := k.send(ctx, http.MethodGet, "/v1/med?status=open&limit=1", "", "")
	if err != nil || status != http.StatusOK {
		return
	}
	var page struct {
		Data []infractionJSON `json:"data"`
	}
	if json.Unmarshal(answer, &page) == nil && len(page.Data) == 1 {
		_, _, _ = k.send(ctx, http.MethodPost, "/v1/med/"+page.Data[0].ID, "", `{"defense_text": "Entregue."}`)
	}
}

// TestKillDuringDisputes kills the server at random moments while payments are disputed, defended, decided and given back:
// in the end every infraction stands where the bank says, and both have the same money.
func TestKillDuringDisputes(t *testing.T) {
	t.Parallel()
	lives, count := int64(number(t, medLivesVariable, medLivesDefault)), number(t, killsVariable, killsDefault)
	each(t, func(t *testing.T, in *installation) {
		bank := install(t, "", "--data", t.TempDir()).launch(t, "simulator", "--listen", "127.0.0.1:0")
		bank.ready(t, simulating)
		p := in.serve(t, "--simulator", bank.url)
		account, key := in.account(t, "shop")
		in.must(t, "account", "set", account, "rate_limit=1000000", "release_delay=2m")
		k := &court{lives: lives, till: &till{world: testkit.WorldAt(bank.url), key: key, client: &http.Client{Timeout: sendTimeMax}, made: map[string]string{}}}
		k.server.Store(&p.url)
		var running sync.WaitGroup
		failed := make(chan error, tills)
		for i := range tills {
			running.Go(func() { failed <- k.run(t.Context(), rand.New(rand.NewPCG(medSeed, uint64(i)))) })
		}
		for killed := 0; killed < count || k.opened.Load() < lives/2; killed++ {
			if err := testkit.Real.Wait(t.Context(), killAfter+rand.N(killWithin)); err != nil {
				t.Fatal(err)
			}
			p.signal(t, syscall.SIGKILL)
			p.wait(t)
			p = in.serve(t, "--simulator", bank.url)
			k.server.Store(&p.url)
		}
		running.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				t.Error(err)
			}
		}
		k.check(t, in, p, account)
		p.stop(t)
	})
}

// check waits until the service knows what the bank does, and holds the money of both against each other.
func (k *court) check(t *testing.T, in *installation, p *process, account string) {
	t.Helper()
	slices.Sort(k.claims)
	want := strings.Join(k.claims, "\n")
	var got []string
	testkit.Wait(t, "all infractions to be where the bank says", func() bool {
		k.world.Do(t, http.MethodPost, "/sim/clock", `{"advance_seconds": 60}`, nil)
		got = k.listInfractions(t, p)
		return strings.Join(got, "\n") == want
	})
	k.world.Do(t, http.MethodPost, "/sim/clock", `{"advance_seconds": 1200}`, nil) // money that was given back is looked for again
	var books struct {
		Payments []struct {
			Amount   string `json:"amount"`
			Returned string `json:"returned"`
		} `json:"payments"`
	}
	k.world.Do(t, http.MethodGet, "/sim/pix/books", "", &books)
	var bank money.BRL
	for _, b := range books.Payments {
		bank += parse(t, b.Amount) - parse(t, b.Returned)
	}
	var ours money.BRL
	var shown accountJSON
	testkit.Wait(t, "the books to be equal", func() bool {
		shown = accountJSON{}
		in.json(t, &shown, "account", "show", account)
		b := shown.Balances["BRL"]
		ours = parse(t, b.Available) + parse(t, b.Pending) + parse(t, b.Blocked)
		return ours == bank
	})
	t.Logf("%d infractions of %d payments, %s BRL are left", len(got), len(books.Payments), bank)
	var audit auditResult
	in.json(t, &audit, "audit")
	if len(audit.Problems) != 0 {
		t.Errorf("%+v", audit)
	}
}

func parse(t *testing.T, text string) money.BRL {
	t.Helper()
	digits, below := strings.CutPrefix(text, "-")
	amount, err := money.ParseBRL(digits)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if below {
		return -amount
	}
	return amount
}

// listInfractions returns all infractions as court.claims has them, in order.
func (k *court) listInfractions(t *testing.T, p *process) (all []string) {
	t.Helper()
	for query := "?limit=100"; query != ""; {
		var page struct {
			Data []infractionJSON `json:"data"`
			Next *string          `json:"next_starting_after"`
		}
		testkit.Do(t, p.url, testkit.Request{Path: "/v1/med" + query, Key: k.key}).Want(t, http.StatusOK).Decode(t, &page)
		for _, f := range page.Data {
			status := f.Status
			if status == "open" || status == "under_review" {
				status = undecided
			}
			all = append(all, fmt.Sprintf("%s %s %s", f.EndToEndID, f.Amount, status))
		}
		query = ""
		if page.Next != nil {
			query = "?limit=100&starting_after=" + *page.Next
		}
	}
	slices.Sort(all)
	return all
}

// TestDoctorSeesDisputes shows operators what only they can do something about.
func TestDoctorSeesDisputes(t *testing.T) {
	t.Parallel()
	bank := install(t, "", "--data", t.TempDir()).launch(t, "simulator", "--listen", "127.0.0.1:0")
	bank.ready(t, simulating)
	world := testkit.WorldAt(bank.url)
	in, other := onSQLite(t), onSQLite(t)
	p := in.serve(t, "--simulator", bank.url)
	other.serve(t, "--simulator", bank.url)
	_, key := in.account(t, "shop")
	k := &court{till: &till{world: world, key: key, client: &http.Client{Timeout: sendTimeMax}, made: map[string]string{}}}
	k.server.Store(&p.url)
	c, err := k.make(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	e2e, err := k.order(t.Context(), "/sim/pix/pay", map[string]any{"copy_paste": c.Pix.CopyPaste})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.order(t.Context(), "/sim/med", map[string]any{"end_to_end_id": e2e}); err != nil {
		t.Fatal(err)
	}
	// wait has time pass until the doctor finds something.
	wait := func(in *installation, check, text string) {
		t.Helper()
		testkit.Wait(t, check+": "+text, func() bool {
			world.Do(t, http.MethodPost, "/sim/clock", `{"advance_seconds": 60}`, nil)
			r := in.call(t, "doctor", "--json", "--simulator", bank.url)
			var findings []findingJSON
			decodeOne(t, r.stdout, &findings)
			return slices.ContainsFunc(findings, func(f findingJSON) bool { return f.Check == check && strings.Contains(f.Detail, text) })
		})
	}
	wait(other, "infractions", "1 are about no payment of a charge")
	var list []string
	testkit.Wait(t, "the infraction to be known", func() bool {
		list = k.listInfractions(t, p)
		return len(list) == 1
	})
	world.Do(t, http.MethodPost, "/sim/faults", `{"target": "alpha", "operation": "med.defend", "kind": "http_500", "times": 0}`, nil)
	k.defend(t.Context())
	wait(in, "defenses", "1 wait for their acquirer")
	world.Do(t, http.MethodPost, "/sim/clock", `{"advance_seconds": 604800}`, nil)
	world.Do(t, http.MethodDelete, "/sim/faults", "", nil)
	wait(in, "defenses", "1 were refused as late")
	wait(in, "infractions", "all are about payments of charges")
}
