// Package auditor looks over a service's shoulder: it reads the tables with SQL of its own, the worlds' books over their
// control routes, and holds both against a model of what was asked and what was answered. It shares no code with the use
// cases and believes nothing that they say, so that a mistake would have to be made twice to go unnoticed.
package auditor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Auditor watches one life. Make it with [New].
type Auditor struct {
	db    *sqldb.DB
	world http.Handler // control routes of both worlds
	now   func() time.Time

	dirty map[string]bool // tables that were written to since the last look
	state tables          // as it was at the last look
	model model

	problems []string // found between two looks
}

// New returns an auditor. now tells business time.
func New(db *sqldb.DB, world http.Handler, now func() time.Time) *Auditor {
	a := &Auditor{db: db, world: world, now: now, dirty: map[string]bool{}, model: newModel()}
	for _, t := range watched {
		a.dirty[t.name] = true
	}
	return a
}

// Touched notes that a statement was run which may have changed a table.
func (a *Auditor) Touched(sql string) {
	word, rest, _ := strings.Cut(strings.TrimSpace(sql), " ")
	switch word {
	case "INSERT", "DELETE":
		_, rest, _ = strings.Cut(rest, " ") // INTO, FROM
	case "UPDATE":
	default:
		return
	}
	end := strings.IndexAny(rest, " \n(")
	if end < 0 {
		end = len(rest)
	}
	a.dirty[rest[:end]] = true
}

// fail notes a problem that shows outside of the tables.
func (a *Auditor) fail(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// Look checks all that must hold at any moment, and returns what does not. It reads only what was written to since the last
// look.
func (a *Auditor) Look(ctx context.Context) ([]string, error) {
	before := a.state
	changed, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	a.lookAtMoney(&before, changed)
	a.lookAtStates(&before, changed)
	a.lookAtEvents(changed)
	a.lookAtAnswers()
	a.lookAtNames(changed)
	for _, p := range a.model.payments {
		p.old = true
	}
	found := a.problems
	a.problems = nil
	slices.Sort(found)
	return slices.Compact(found), nil
}

// books asks the worlds for something.
func (a *Auditor) books(ctx context.Context, path string, into any) error {
	w := &answer{header: http.Header{}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return err
	}
	a.world.ServeHTTP(w, r)
	if w.status >= http.StatusBadRequest {
		return fmt.Errorf("auditor: %s: %d %s", path, w.status, w.body.Bytes())
	}
	return json.Unmarshal(w.body.Bytes(), into)
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answer) Header() http.Header         { return w.header }
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }
func (w *answer) WriteHeader(status int)      { w.status = status }

// bankBooks are the books of both banks.
type bankBooks struct {
	Payments    []bankPayment
	Payouts     []bankPayout
	Infractions []bankInfraction
	Balance     string
}

type bankPayment struct {
	Acquirer, TxID, Amount, Returned string
	EndToEndID                       string `json:"end_to_end_id"`
}

type bankPayout struct {
	Acquirer, ID, Amount, Status, Returned string
	EndToEndID                             string `json:"end_to_end_id"`
	Executions                             int
}

type bankInfraction struct {
	Acquirer, ID, Amount, Status string
	EndToEndID                   string `json:"end_to_end_id"`
}

// chainBooks are the books of the crypto provider.
type chainBooks struct {
	Payments []chainPayment
	Payouts  []chainPayout
}

type chainPayment struct {
	ID         string
	ParentID   string `json:"parent_id"`
	ExternalID string `json:"external_id"`
	Settled    string `json:"settled_amount"`
	Status     string
}

type chainPayout struct {
	ID         string
	ExternalID string `json:"external_id"`
	Currency   string
	Address    string
	Amount     string
	Status     string
	TxHash     string `json:"tx_hash"`
	Executions int
}

// units reads an amount in its smallest unit, such as centavos. What is beyond is cut off.
func units(text string, decimals int) int64 {
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = (fraction + strings.Repeat("0", decimals))[:decimals]
	negative := strings.HasPrefix(whole, "-")
	var n int64
	for _, c := range strings.TrimPrefix(whole, "-") + fraction {
		n = n*10 + int64(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

// Decimals of the two currencies.
const (
	brlDecimals  = 2
	usdtDecimals = 6
)

// named names a thing of an account at an acquirer.
func named(account int64, x id.ID) string { return id.Token(x, id.Account(account)) }
