package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// What scripts/torture sets.
const (
	tortureKillsVariable = "PONTE_TORTURE_KILLS" // how often the server is killed
	tortureSeedVariable  = "PONTE_TORTURE_SEED"  // what the faults and the load are drawn from

	tortureKillsDefault = 5
	tortureSeedDefault  = 1
	plantedKills        = 3 // enough to find what is planted
)

const (
	clerks       = 8                      // that send payouts
	clerkPause   = 10 * time.Millisecond  // at most, between two payouts of a clerk
	chaosPause   = 60 * time.Millisecond  // at most, between two faults
	tortureServe = 500 * time.Millisecond // at most, between two kills
	endTimeMax   = 3 * time.Minute        // for the last payout to end, in real time
	opening      = money.BRL(50_000_000)  // of each account
	bankOpening  = money.BRL(1_000_000_000)
)

// number returns a variable's number, or another one without it.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number above zero", variable, text)
	}
	return n
}

// TestTorture sends payouts and withdrawals and takes deposits in, while faults of every kind come and go at both acquirers
// and at the crypto provider, callbacks are lost and doubled, the clock jumps and the server is killed at random moments.
// When it is over, every one has ended, the banks and the provider sent the money of each that is completed once and of
// each that failed never, each deposit has one address and what the provider settled for it, and the books agree to the
// last unit.
func TestTorture(t *testing.T) {
	t.Parallel()
	kills, seed := number(t, tortureKillsVariable, tortureKillsDefault), number(t, tortureSeedVariable, tortureSeedDefault)
	each(t, func(t *testing.T, in *installation) {
		r := newTorture(t, in, uint64(seed))
		r.run(kills)
		r.finish()
		for _, problem := range r.check() {
			t.Error(problem)
		}
		t.Logf("seed %d: %s", seed, r.counts())
	})
}

// TestTortureFindsWhatIsPlanted tortures a binary that fails over from unknown outcomes and takes the crypto provider's word
// failed for final, and fails unless both show.
func TestTortureFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "planted")
	if err := buildInto(path, "-tags", "planted_failover"); err != nil {
		t.Fatal(err)
	}
	in := onSQLite(t)
	in.binary = path
	r := newTorture(t, in, tortureSeedDefault)
	r.run(plantedKills)
	r.loseOne()
	r.failOne()
	r.finish()
	problems := r.check()
	for _, found := range []string{"and its money left", "and its coins left"} {
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, found) }) {
			t.Errorf("nobody noticed what %s: %q, %s", found, problems, r.counts())
		}
	}
	t.Logf("found: %s", strings.Join(problems, "; "))
}

// torture is one run.
type torture struct {
	t       *testing.T
	in      *installation
	bank    *process
	world   *testkit.World
	server  atomic.Pointer[process]
	url     atomic.Pointer[string]
	client  *http.Client
	seed    uint64
	closing chan struct{} // closed when no new payout is to be begun

	accounts  []tortured
	depositor tortured // who takes coins in
	numbers   atomic.Int64
	faults    atomic.Int64
	kills     int

	mu       sync.Mutex
	answers  map[string]string // last answer of each external_id, such as 201 processing
	statuses map[string]int    // answers by their text
}

// tortured is an account whose money is at stake.
type tortured struct{ id, key string }

func newTorture(t *testing.T, in *installation, seed uint64) *torture {
	t.Helper()
	r := &torture{
		t: t, in: in, seed: seed, client: &http.Client{Timeout: sendTimeMax}, closing: make(chan struct{}),
		answers: map[string]string{}, statuses: map[string]int{},
	}
	home := install(t, "", "--data", t.TempDir())
	home.binary = in.binary
	r.bank = home.launch(t, "simulator", "--listen", "127.0.0.1:0", "--settle-after", "200ms", "--log-level", "error")
	r.bank.ready(t, simulating)
	r.world = testkit.WorldAt(r.bank.url)
	r.start()
	for i := range 3 {
		account, key := in.account(t, fmt.Sprint("payer ", i))
		in.must(t, "account", "set", account, "rate_limit=1000000", "cash_out_fee=0.37+1.1%", "crypto_out_fee=0.37+1.1%")
		in.must(t, "account", "adjust", account, "--currency", "USDT", "--amount", coinOpening.String(), "--reason", "torture")
		in.must(t, "account", "adjust", account, "--currency", "BRL", "--amount", opening.String(), "--reason", "torture")
		r.accounts = append(r.accounts, tortured{account, key})
	}
	account, key := in.account(t, "depositor")
	in.must(t, "account", "set", account, "rate_limit=1000000", "crypto_in_fee=0.25+1.1%")
	r.depositor = tortured{account, key}
	return r
}

func (r *torture) start() {
	r.t.Helper()
	p := r.in.serve(r.t, "--simulator", r.bank.url, "--log-level", "error")
	r.server.Store(p)
	r.url.Store(&p.url)
}

// run puts the server under load and kills it so many times.
func (r *torture) run(kills int) {
	r.t.Helper()
	var running sync.WaitGroup
	failed := make(chan error, clerks+coinClerks+depositClerks+3)
	for i := range clerks {
		random := rand.New(rand.NewPCG(r.seed, uint64(i)))
		running.Go(func() { failed <- r.clerk(r.t.Context(), random) })
	}
	running.Go(func() { failed <- r.chaos(r.t.Context(), rand.New(rand.NewPCG(r.seed, clerks))) })
	for i := range coinClerks {
		random := rand.New(rand.NewPCG(r.seed, uint64(1000+i)))
		running.Go(func() { failed <- r.coinClerk(r.t.Context(), random) })
	}
	running.Go(func() { failed <- r.coinChaos(r.t.Context(), rand.New(rand.NewPCG(r.seed, 1000+coinClerks))) })
	for i := range depositClerks {
		random := rand.New(rand.NewPCG(r.seed, uint64(2000+i)))
		running.Go(func() { failed <- r.depositClerk(r.t.Context(), random) })
	}
	running.Go(func() { failed <- r.depositChaos(r.t.Context(), rand.New(rand.NewPCG(r.seed, 2000+depositClerks))) })
	random := rand.New(rand.NewPCG(r.seed, clerks+1))
	for range kills {
		if err := testkit.Real.Wait(r.t.Context(), killAfter+time.Duration(random.Int64N(int64(tortureServe)))); err != nil {
			r.t.Fatal(err)
		}
		p := r.server.Load()
		p.signal(r.t, syscall.SIGKILL)
		p.wait(r.t)
		r.kills++
		r.start()
	}
	close(r.closing)
	running.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			r.t.Error(err)
		}
	}
}

func (r *torture) isClosing() bool {
	select {
	case <-r.closing:
		return true
	default:
		return false
	}
}

// isWanted pauses as callers do, because a server that is only ever busy meets kills at the same few lines, and reports
// whether a clerk shall begin another.
func (r *torture) isWanted(ctx context.Context, random *rand.Rand) bool {
	return testkit.Real.Wait(ctx, time.Duration(random.Int64N(int64(clerkPause)))) == nil && !r.isClosing()
}

// clerk sends one payout after the other. Each request is repeated until it is answered, as its caller must.
func (r *torture) clerk(ctx context.Context, random *rand.Rand) error {
	for r.isWanted(ctx, random) {
		n := r.numbers.Add(1)
		a := r.accounts[n%int64(len(r.accounts))]
		external := fmt.Sprintf("torture-%d", n)
		body := fmt.Sprintf(`{"amount": %d.%02d, "pix_key": "person-%d@example.org", "external_id": %q}`, 2+random.IntN(300), random.IntN(100), n%50, external)
		key := ""
		if random.IntN(2) == 0 {
			key = "key-" + external
		}
		if err := r.pay(ctx, a, external, key, body); err != nil {
			return err
		}
		if random.IntN(4) == 0 { // somebody looks; who looks at a dead server sees nothing
			_, _, _ = r.send(ctx, a.key, http.MethodGet, "/v1/payouts/ext:"+external, "", "")
		}
		if random.IntN(20) == 0 { // somebody repeats it although it was answered
			_, _, _ = r.send(ctx, a.key, http.MethodPost, "/v1/payouts", key, body)
		}
	}
	return nil
}

// pay sends one request until it is answered with something that is not to be repeated.
func (r *torture) pay(ctx context.Context, a tortured, external, key, body string) error {
	began := testkit.Real.Real()
	for testkit.Real.RealSince(began) < stuckAfter {
		status, answer, err := r.send(ctx, a.key, http.MethodPost, "/v1/payouts", key, body)
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
			case status == http.StatusCreated, status == http.StatusOK, status == http.StatusGatewayTimeout:
				return nil
			case !told.Error.Retryable && told.Error.Code != "external_id_in_progress":
				return fmt.Errorf("%s: %d %s", external, status, answer)
			case status == http.StatusBadGateway && r.isClosing():
				return nil // it was not stored, and nobody wants it any more
			}
		}
		if err := testkit.Real.Wait(ctx, tryAgain); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is stuck", external)
}

func (r *torture) note(external, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[external] = text
	r.statuses[text]++
}

// send sends a request to whatever server is there.
func (r *torture) send(ctx context.Context, key, method, path, idempotencyKey, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, *r.url.Load()+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", key)
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

var (
	faultKinds = []string{
		"refuse", "http_500", "http_429", "reject", "lost_executed", "lost_executed", "lost_not_executed", "slow", "garbage", "duplicate_callback",
	}
	faultOperations = []string{"payout.send", "payout.send", "payout.send", "payout.get", "payout.get", "token", "*"}
)

// chaos breaks things and mends them, moves the clock, and has payouts fail, settle in silence and come back.
func (r *torture) chaos(ctx context.Context, random *rand.Rand) error {
	for !r.isClosing() {
		if err := testkit.Real.Wait(ctx, time.Duration(random.Int64N(int64(chaosPause)))); err != nil {
			return err
		}
		method, path, body := http.MethodPost, "/sim/faults", ""
		switch roll := random.IntN(20); {
		case roll < 10:
			kind := faultKinds[random.IntN(len(faultKinds))]
			delay := random.IntN(50)
			if kind == "slow" && random.IntN(10) == 0 {
				delay = 5500 // longer than one try may take
			}
			body = fmt.Sprintf(`{"target": %q, "operation": %q, "kind": %q, "times": %d, "delay_ms": %d}`, []string{"alpha", "beta"}[random.IntN(2)],
				faultOperations[random.IntN(len(faultOperations))], kind, random.IntN(4), delay)
			r.faults.Add(1)
		case roll < 14:
			method = http.MethodDelete
		case roll < 16:
			path, body = "/sim/clock", fmt.Sprintf(`{"advance_seconds": %d}`, 1+random.IntN(30))
		case roll == 16:
			path, body = "/sim/clock", fmt.Sprintf(`{"advance_seconds": %d}`, 200+random.IntN(400))
		default:
			books, err := r.books(ctx)
			if err != nil {
				return err
			}
			if len(books.Payouts) == 0 {
				continue
			}
			b := books.Payouts[len(books.Payouts)-1-random.IntN(min(len(books.Payouts), 40))]
			what := []string{"settle", "fail", "return", "return"}[random.IntN(4)]
			amount := ""
			if what == "return" && random.IntN(2) == 0 {
				amount = `, "amount": "1.00"`
			}
			path = "/sim/pix/payouts/" + b.ID + "/" + what
			body = fmt.Sprintf(`{"acquirer": %q, "callback": %v%s}`, b.Acquirer, random.IntN(2) == 0, amount)
		}
		status, answer, err := r.world.Try(ctx, method, path, body)
		// What the books no longer allow is refused; that is as it should be.
		if err != nil || (status != http.StatusOK && status != http.StatusConflict && status != http.StatusUnprocessableEntity) {
			return fmt.Errorf("%s %s %s: %d %s, %w", method, path, body, status, answer, err)
		}
	}
	return nil
}

// bankBooks are the books of both acquirers.
type bankBooks struct {
	Payouts []bankPayout `json:"payouts"`
	Balance string       `json:"balance"`
}

type bankPayout struct {
	testkit.PayoutBook
	Returned string `json:"returned"`
}

func (r *torture) books(ctx context.Context) (books bankBooks, err error) {
	status, answer, err := r.world.Try(ctx, http.MethodGet, "/sim/pix/books", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("books: %d %s", status, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, &books)
	}
	return books, err
}

// finish mends everything and moves the clock on until every payout has ended.
func (r *torture) finish() {
	r.t.Helper()
	r.world.Mend(r.t)
	testkit.Within(r.t, endTimeMax, "all payouts to end", func() bool {
		r.endFailed()
		r.world.Do(r.t, http.MethodPost, "/sim/clock", `{"advance_seconds": 400}`, nil)
		_ = testkit.Real.Wait(r.t.Context(), time.Second) // which is how long what becomes due may take
		for _, a := range r.accounts {
			if slices.ContainsFunc(slices.Collect(maps.Values(r.list(a))), func(p tortureJSON) bool { return p.Status == "processing" }) {
				return false
			}
			if slices.ContainsFunc(slices.Collect(maps.Values(r.listCoins(a))), func(p coinJSON) bool { return p.Status == "processing" }) {
				return false
			}
		}
		return true
	})
	// Returns of which nobody told are found in the acquirers' lists, the last pass of which is read after 90 days.
	for range 4 {
		r.world.Do(r.t, http.MethodPost, "/sim/clock", `{"advance_seconds": 2700000}`, nil)
		_ = testkit.Real.Wait(r.t.Context(), 2*time.Second)
	}
	r.endDeposits()
}

type tortureJSON struct {
	ID         string      `json:"id"`
	ExternalID string      `json:"external_id"`
	Amount     json.Number `json:"amount"`
	Fee        json.Number `json:"fee"`
	Gross      json.Number `json:"gross_amount"`
	Status     string      `json:"status"`
	EndToEndID *string     `json:"end_to_end_id"`
}

// list returns the payouts of an account by the names that acquirers know them by, without asking any acquirer.
func (r *torture) list(a tortured) map[string]tortureJSON {
	r.t.Helper()
	owner, err := id.ParseAccount(a.id)
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]tortureJSON{}
	for query := "?limit=200"; query != ""; {
		var page struct {
			Data []tortureJSON `json:"data"`
			Next *string       `json:"next_starting_after"`
		}
		testkit.Do(r.t, *r.url.Load(), testkit.Request{Path: "/v1/payouts" + query, Key: a.key}).Want(r.t, http.StatusOK).Decode(r.t, &page)
		for _, p := range page.Data {
			x, err := id.Payout.Parse(p.ID)
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

// check holds what the service says against the books of the banks and against what callers were told, and returns what
// does not agree.
func (r *torture) check() (problems []string) {
	r.t.Helper()
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	books, err := r.books(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	executions, returned, ends := map[string]int{}, map[string]money.BRL{}, map[string][]string{}
	left := 2 * bankOpening
	for _, b := range books.Payouts {
		executions[b.ID] += b.Executions
		returned[b.ID] += amount(r.t, b.Returned)
		left += amount(r.t, b.Returned) - money.BRL(b.Executions)*amount(r.t, b.Amount)
		ends[b.ID] = append(ends[b.ID], b.EndToEndID)
	}
	if got := amount(r.t, books.Balance); got != left {
		problem("the banks hold %s, and should %s", got, left)
	}
	found := map[string]tortureJSON{}
	for _, a := range r.accounts {
		want := opening
		for name, p := range r.list(a) {
			found[p.ExternalID] = p
			settled := p.Status == "completed" || p.Status == "reversed"
			switch {
			case settled:
				want += returned[name] - amount(r.t, p.Gross.String())
			case p.Status != "failed":
				problem("%s is %s", p.ID, p.Status)
			}
			switch n := executions[name]; {
			case settled && n != 1, p.Status == "failed" && n != 0:
				problem("%s is %s and its money left %d times", p.ID, p.Status, n)
			case settled && (p.EndToEndID == nil || !slices.Contains(ends[name], *p.EndToEndID)):
				problem("%s has the end-to-end id %v, the banks have %v", p.ID, p.EndToEndID, ends[name])
			}
			if whole := returned[name] == amount(r.t, p.Amount.String()); settled && whole != (p.Status == "reversed") {
				problem("%s is %s and %s of %s came back", p.ID, p.Status, returned[name], p.Amount)
			}
			delete(executions, name)
		}
		var shown accountJSON
		r.in.json(r.t, &shown, "account", "show", a.id)
		if got := shown.Balances["BRL"]; got.Available != want.String() || got.InTransit != "0.00" {
			problem("%s has %+v, and should have %s", a.id, got, want)
		}
	}
	for name, n := range executions {
		if n != 0 {
			problem("the banks sent %s, of which nobody knows", name)
		}
	}
	problems = append(problems, r.checkAnswers(found)...)
	problems = append(problems, r.checkCoins()...)
	problems = append(problems, r.checkDeposits()...)
	var audit auditResult
	result := r.in.run(r.t, "audit", "--json")
	decodeOne(r.t, result.stdout, &audit)
	for _, p := range audit.Problems {
		problem("audit: %s %s", p.Account, p.What)
	}
	var doubts []doubtJSON
	r.in.json(r.t, &doubts, "payout", "doubt")
	if len(doubts) > 0 {
		problem("in doubt: %+v", doubts)
	}
	return problems
}

// checkAnswers holds the payouts that there are against what their callers were told.
func (r *torture) checkAnswers(found map[string]tortureJSON) (problems []string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for external, told := range r.answers {
		if isCoin(external) || isDeposit(external) {
			continue
		}
		p, exists := found[external]
		stored := strings.HasPrefix(told, "201") || strings.HasPrefix(told, "200") || strings.HasPrefix(told, "504")
		switch {
		case stored && !exists:
			problems = append(problems, fmt.Sprintf("%s was answered %s and is not there", external, told))
		case told == "201 failed" && p.Status != "failed":
			problems = append(problems, fmt.Sprintf("%s was answered %s and is %s", external, told, p.Status))
		case told == "201 completed":
			problems = append(problems, fmt.Sprintf("%s was answered %s", external, told))
		}
	}
	// By their own names too, which is what callers do after a 504.
	checked := 0
	for external, told := range r.answers {
		if isCoin(external) || isDeposit(external) {
			continue
		}
		if checked++; checked > 200 {
			break
		}
		a := r.accountOf(external)
		if status, answer, err := r.send(r.t.Context(), a.key, http.MethodGet, "/v1/payouts/ext:"+external, "", ""); err != nil ||
			(status != http.StatusOK) != (found[external].ID == "") || (status == http.StatusOK && !bytes.Contains(answer, []byte(found[external].ID))) {
			problems = append(problems, fmt.Sprintf("%s was answered %s, and GET answers %d %s, %v", external, told, status, answer, err))
		}
	}
	return problems
}

func (r *torture) accountOf(external string) tortured {
	n, _ := strconv.ParseInt(strings.TrimPrefix(external, "torture-"), 10, 64)
	return r.accounts[n%int64(len(r.accounts))]
}

// counts says what happened, for people.
func (r *torture) counts() string {
	r.t.Helper()
	states := map[string]int{}
	for _, a := range r.accounts {
		for _, p := range r.list(a) {
			states[p.Status]++
		}
		for _, p := range r.listCoins(a) {
			states["crypto "+p.Status]++
		}
	}
	for _, d := range r.listDeposits() {
		states["deposit "+d.Status]++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d kills, %d faults, payouts %v, of which %d took more than one send, answers %v",
		r.kills, r.faults.Load(), states, r.resent(), r.statuses)
}

// resent returns how many payouts took more than one send: elsewhere on proof, or again under the same name.
func (r *torture) resent() int64 {
	r.t.Helper()
	core, err := app.Open(r.t.Context(), config.Store{Database: r.in.database}, app.Existing)
	if err != nil {
		r.t.Fatal(err)
	}
	defer core.Close()
	n, err := sqldb.One(r.t.Context(), core.DB, sqldb.Scalar[int64], `SELECT (SELECT COUNT(*) FROM payout WHERE sends > 1) + (SELECT COUNT(*) FROM withdrawal WHERE sends > 1)`)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func amount(t *testing.T, text string) money.BRL {
	t.Helper()
	if text == "" {
		return 0
	}
	a, err := money.ParseBRL(text)
	if err != nil {
		t.Fatalf("amount %q: %v", text, err)
	}
	return a
}

// loseOne sends a payout of which whoever is asked loses the answer, so that whoever fails over from that sends it twice,
// whatever the seed brought.
func (r *torture) loseOne() {
	r.t.Helper()
	r.world.Mend(r.t)
	r.world.Do(r.t, http.MethodPost, "/sim/clock", `{"advance_seconds": 60}`, nil) // both are asked again
	for _, bank := range []string{"alpha", "beta"} {
		r.world.Break(r.t, testkit.Fault{Target: bank, Operation: "payout.send", Kind: "lost_executed", Times: 1, DelayMS: 1})
	}
	n := r.numbers.Add(1)
	external := fmt.Sprintf("torture-%d", n)
	body := fmt.Sprintf(`{"amount": 7.00, "pix_key": "person-%d@example.org", "external_id": %q}`, n%50, external)
	if err := r.pay(r.t.Context(), r.accounts[n%int64(len(r.accounts))], external, "", body); err != nil {
		r.t.Fatal(err)
	}
	r.world.Mend(r.t)
}
