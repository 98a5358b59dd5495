package auditor

import (
	"context"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// model is what the auditor knows from the outside: who asked for what, who was told what, who paid what.
type model struct {
	payments map[string]*payment           // by their end-to-end ids
	sends    map[string][]*send            // of payouts, by the names that banks know them by
	asked    map[creation]*asked           // by what a creation is known by
	answers  []Answer                      // to creations, since the last look
	fees     map[int64]map[string][]string // that accounts ever had, by what they are for
	received map[delivered]int             // how often a receiver took an event
	bodies   map[string]string             // of events, as they were first received
	owed     map[Debt]bool
}

// payment is money that a payer sent.
type payment struct {
	amount int64
	txid   string
	old    bool // it was there at the last look
}

// send is one request to a bank to send a payout.
type send struct {
	acquirer string
	isDead   bool // it is proven that nothing came of it
}

// creation is what a creation is known by: a key or an external_id.
type creation struct {
	account    int64
	route      string
	isExternal bool
	name       string
}

// asked is what a key or an external_id made.
type asked struct {
	id      string
	meaning string
}

// delivered names an event at a receiver.
type delivered struct{ url, event string }

func newModel() model {
	return model{
		payments: map[string]*payment{}, sends: map[string][]*send{}, asked: map[creation]*asked{}, fees: map[int64]map[string][]string{},
		received: map[delivered]int{}, bodies: map[string]string{}, owed: map[Debt]bool{},
	}
}

// Paid notes that a payer has sent money.
func (a *Auditor) Paid(endToEndID, txid, amount string) {
	a.model.payments[endToEndID] = &payment{amount: units(amount, brlDecimals), txid: strings.ToLower(txid)}
}

// Fee notes that an account has a fee from now on, written as operators write it.
func (a *Auditor) Fee(account id.Account, of, text string) {
	fees := a.model.fees[int64(account)]
	if fees == nil {
		fees = map[string][]string{}
		a.model.fees[int64(account)] = fees
	}
	if !slices.Contains(fees[of], text) {
		fees[of] = append(fees[of], text)
	}
}

// Send notes that a bank is about to be asked to send a payout, and returns what notes that nothing can come of it. Nobody
// may be asked while another bank may have sent it.
func (a *Auditor) Send(acquirer, name string) (dead func()) {
	name = strings.ToLower(name)
	for _, s := range a.model.sends[name] {
		if s.acquirer != acquirer && !s.isDead {
			a.fail("payout %s is sent to %s while nobody knows whether %s has sent it", name, acquirer, s.acquirer)
		}
	}
	s := &send{acquirer: acquirer}
	a.model.sends[name] = append(a.model.sends[name], s)
	return func() { s.isDead = true }
}

// Answer is what a caller was told about a creation.
type Answer struct {
	Account  id.Account
	Route    string // such as POST /charges
	Key      string // "" for none
	External string // "" for none
	Meaning  string // of the body: equal for requests that mean the same
	Material string // of it, what an external_id stands for
	Status   int
	Code     string // of a refusal
	ID       string // of the thing; "" for none
	State    string // of the thing
	Amount   string
}

// Answered notes what a caller was told. What was refused for good before must not be made by it.
func (a *Auditor) Answered(x Answer) {
	a.model.answers = append(a.model.answers, x)
	if x.Status == 409 && strings.EqualFold(x.Code, "IDEMPOTENCY_CONFLICT") && x.Key != "" {
		known := a.model.asked[creation{int64(x.Account), x.Route, false, x.Key}]
		external := a.model.asked[creation{int64(x.Account), x.Route, true, x.External}]
		if known != nil && known.meaning == x.Meaning && (external == nil || external.meaning == x.Material) {
			a.fail("%s: key %s is refused although its body means the same", x.Route, x.Key)
		}
	}
	if x.ID == "" {
		return
	}
	for _, name := range []struct {
		isExternal    bool
		name, meaning string
	}{{false, x.Key, x.Meaning}, {true, x.External, x.Material}} {
		if name.name == "" {
			continue
		}
		by := creation{int64(x.Account), x.Route, name.isExternal, name.name}
		known := a.model.asked[by]
		switch {
		case known == nil:
			a.model.asked[by] = &asked{x.ID, name.meaning}
		case known.id != x.ID:
			a.fail("%s: %q made %s and then %s", x.Route, name.name, known.id, x.ID)
		case known.meaning != name.meaning:
			a.fail("%s: %q is answered with %s although it asks for something else", x.Route, name.name, x.ID)
		}
	}
}

// readTables are where things stand that callers can ask for, by the routes that made them.
var readTables = map[string]string{RouteCharge: "charge", RoutePayout: "payout", RouteDeposit: "deposit"}

// Shown checks what a caller is shown who asks for a thing: where it stands now.
func (a *Auditor) Shown(ctx context.Context, x Answer) {
	at, ok := a.named(x)
	if !ok {
		return
	}
	stored, err := sqldb.One(ctx, a.db, sqldb.Scalar[string], `SELECT status FROM `+readTables[x.Route]+` WHERE account_id = $1 AND id = $2`, at.account, at.id)
	if err != nil {
		stored = err.Error()
	}
	a.compareShown(x, stored)
}

func (a *Auditor) compareShown(x Answer, stored string) {
	if x.State != stored {
		a.fail("%s is shown as %s, it is %s", x.ID, x.State, stored)
	}
}

// Debt is an event that an endpoint must be told of.
type Debt struct {
	Account id.Account
	Event   string
	URL     string
}

// Owes notes that an event was written which somebody must be told of.
func (a *Auditor) Owes(d Debt) { a.model.owed[d] = true }

// Received notes that a receiver got an event, and whether it took it. It must be the same each time, of an account that the
// receiver belongs to, and durable.
func (a *Auditor) Received(url, event, body string, took bool) {
	if first, known := a.model.bodies[event]; known && first != body {
		a.fail("event %s came with two bodies", event)
	}
	a.model.bodies[event] = body
	if took {
		a.model.received[delivered{url, event}]++
	}
}

// Fails notes what somebody else found.
func (a *Auditor) Fails(what string) { a.fail("%s", what) }
