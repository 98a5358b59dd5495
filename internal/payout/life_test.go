package payout_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/payout"
)

// end is how the life of a payout of 10.00 with a fee of 1.00 ends, in an account that had 100.00.
type end struct {
	told       string // what the creation was answered
	status     payout.State
	balance    ledger.Balance
	posted     string
	events     string
	executions string // where its money left
}

const (
	held  = "cash_out 11.00 available>in_transit"
	sent  = held + ", cash_out_sent 10.00 in_transit>acquirer, cash_out_fee 1.00 in_transit>fees"
	given = held + ", cash_out_failed 11.00 in_transit>available"

	wasCreated   = "created processing"
	wasCompleted = wasCreated + ", completed completed"
	hasFailed    = wasCreated + ", failed failed"
)

var (
	whole   = ledger.Balance{Available: 10000}
	waiting = ledger.Balance{Available: 8900, InTransit: 1100}
	gone    = ledger.Balance{Available: 8900}
)

// lives are what can happen to a payout. A step is a word with its arguments: an acquirer's name, an operation, the kind
// of a fault and how often breaks something; the others are below.
var lives = []struct {
	name  string
	steps string
	end   end
}{
	{"sent", "post", end{"created processing", payout.Processing, waiting, held, wasCreated, ""}},
	{"settled, told", "post, settle, hear", end{"created processing", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"settled, told twice, late and under its end-to-end id", "post, settle, hear, hear, hear e2e, check", end{"created processing", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"settled, told by nobody, asked for", "post, settle, get", end{"created processing", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"settled, told by nobody, found", "post, settle, later 30s, check", end{"created processing", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"settled, told by nobody, listed", "post, settle, later 30s, list", end{"created processing", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"failed at the recipient's bank", "post, fail AC07, hear", end{"created processing", payout.Failed, whole, given, hasFailed, ""}},
	{"failed, then told settled", "post, fail AC07, hear, hear, get", end{"created processing", payout.Failed, whole, given, hasFailed, ""}},

	{"refused key", "alpha payout.send reject 1, post", end{"created failed", payout.Failed, whole, given, hasFailed, ""}},
	{"first is down", "alpha payout.send refuse 0, post, beta settle, hear", end{"created processing", payout.Completed, gone, sent, wasCompleted, "beta 1"}},
	{"first is asked too often", "alpha payout.send http_429 1, post", end{"created processing", payout.Processing, waiting, held, wasCreated, ""}},
	{"both are down", "alpha payout.send refuse 0, beta payout.send refuse 0, post", end{"created failed", payout.Failed, whole, given, hasFailed, ""}},
	{"both are known to be down", "alpha payout.send refuse 0, beta payout.send refuse 0, exhaust, post", end{"nobody", "", whole, "", "", ""}},
	{"first is down, second refuses the key", "alpha payout.send refuse 0, beta payout.send reject 1, post", end{"created failed", payout.Failed, whole, given, hasFailed, ""}},

	{"answer lost, found at once", "alpha payout.send lost_executed 1, post", end{"created processing", payout.Processing, waiting, held, wasCreated, ""}},
	{"answer unreadable, found at once", "alpha payout.send garbage 1, post, settle, hear", end{"created processing", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"answer lost and nobody answers", "alpha payout.send lost_executed 1, alpha payout.get http_500 1, post", end{"ambiguous", payout.Processing, waiting, held, wasCreated, ""}},
	{"answer lost and nobody answers, found later", "alpha payout.send lost_executed 1, alpha payout.get http_500 1, post, settle, later 30s, check", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"answer lost and nobody answers, repeated", "alpha payout.send lost_executed 1, alpha payout.get http_500 1, post, post", end{"ambiguous, existing processing", payout.Processing, waiting, held, wasCreated, ""}},
	{"answer lost, nothing happened", "alpha payout.send lost_not_executed 1, post", end{"ambiguous", payout.Processing, waiting, held, wasCreated, ""}},
	{"answer lost, nothing happened, asked soon", "alpha payout.send lost_not_executed 1, post, get, later 30s, check, later 4m, check, get", end{"ambiguous", payout.Processing, waiting, held, wasCreated, ""}},
	{"answer lost, nothing happened, sent again", "alpha payout.send lost_not_executed 1, post, later 6m, check, settle, hear", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"server error, sent again", "alpha payout.send http_500 1, post, later 6m, check, settle, get", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"sent again and refused", "alpha payout.send http_500 1, post, alpha payout.send reject 1, later 6m, check", end{"ambiguous", payout.Failed, whole, given, hasFailed, ""}},
	{"sent again and down, and again", "alpha payout.send http_500 1, post, alpha payout.send http_429 1, later 6m, check, later 6m, check, settle, get", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"sent again and lost", "alpha payout.send http_500 1, post, alpha payout.send lost_executed 1, later 6m, check, later 30s, check, settle, later 5m, check", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"sent again and lost twice", "alpha payout.send http_500 1, post, alpha payout.send lost_not_executed 1, later 6m, check, later 6m, check, settle, get", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "alpha 1"}},
	{"second's answer lost", "alpha payout.send refuse 0, beta payout.send lost_not_executed 1, post, later 6m, check, beta settle, get", end{"ambiguous", payout.Completed, gone, sent, wasCompleted, "beta 1"}},

	{"returned", "post, settle, hear, return, hear", end{"created processing", payout.Reversed, ledger.Balance{Available: 9900}, sent + ", cash_out_return 10.00 acquirer>available", wasCompleted, "alpha 1"}},
	{"returned before it was heard of", "post, settle, return, get, hear", end{"created processing", payout.Reversed, ledger.Balance{Available: 9900}, sent + ", cash_out_return 10.00 acquirer>available", wasCompleted, "alpha 1"}},
	{"returned, told by its end-to-end id", "post, settle, hear, return, hear e2e, hear e2e", end{"created processing", payout.Reversed, ledger.Balance{Available: 9900}, sent + ", cash_out_return 10.00 acquirer>available", wasCompleted, "alpha 1"}},
	{"returned, told by nobody", "post, settle, hear, later 1m, return, later 11m, list", end{"created processing", payout.Reversed, ledger.Balance{Available: 9900}, sent + ", cash_out_return 10.00 acquirer>available", wasCompleted, "alpha 1"}},
	{"returned in part", "post, settle, hear, return 4.00, hear", end{"created processing", payout.Completed, ledger.Balance{Available: 9300}, sent + ", cash_out_return 4.00 acquirer>available", wasCompleted, "alpha 1"}},
	{"returned in parts", "post, settle, hear, return 4.00, hear, return 6.00, hear, hear", end{"created processing", payout.Reversed, ledger.Balance{Available: 9900}, sent + ", cash_out_return 4.00 acquirer>available, cash_out_return 6.00 acquirer>available", wasCompleted, "alpha 1"}},
}

func TestLives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, life := range lives {
			t.Run(life.name, func(t *testing.T) {
				n := newWorld(t).node(n.db)
				l := &liver{node: n}
				a := n.payer(10000)
				var answers []string
				for step := range strings.SplitSeq(life.steps, ", ") {
					if step == "post" {
						p, outcome, err := n.Create(t.Context(), request(a, "order 42", 1000))
						answers = append(answers, told(p, outcome, err))
						if len(n.all(a.ID)) > 0 {
							l.payout = n.stored(a.ID, "order 42")
						}
						continue
					}
					l.live(step)
				}
				got := end{told: strings.Join(answers, ", "), balance: n.balance(a.ID), posted: n.transfers(a.ID), events: n.events(a.ID)}
				if !l.payout.ID.IsZero() {
					l.payout = n.stored(a.ID, "order 42")
					got.status, got.executions = l.payout.Status, n.executions(l.payout)
				}
				if diff := cmp.Diff(life.end, got, cmp.AllowUnexported(end{})); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s", diff, n.log)
				}
				n.audit()
			})
		}
	})
}

// liver lives the life of one payout.
type liver struct {
	*node
	payout payout.Payout
}

func (l *liver) live(step string) {
	l.t.Helper()
	words := strings.Fields(step)
	at := l.payout.Acquirer
	switch {
	case len(words) == 4: // a fault
		var times int
		_, _ = fmt.Sscan(words[3], &times)
		l.fault(words[0], words[1], words[2], times)
	case words[0] == "later":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			l.t.Fatal(err)
		}
		l.advance(d)
	case step == "check":
		l.step(l.CheckDue)
	case step == "list":
		l.step(l.Reconcile)
	case step == "get":
		if _, err := l.Get(l.t.Context(), l.payout.Account, "ext:order 42"); err != nil {
			l.t.Fatal(err)
		}
	case step == "hear":
		l.Hint(at, "", l.payout.Name())
		l.step(l.FollowHints)
	case step == "hear e2e":
		l.Hint(at, l.stored(l.payout.Account, "order 42").EndToEndID, "")
		l.step(l.FollowHints)
	case strings.HasSuffix(step, "settle"):
		l.order(l.payout, "settle", nil)
	case words[0] == "fail":
		l.order(l.payout, "fail", map[string]any{"reason": words[1]})
	case words[0] == "return":
		body := map[string]any{}
		if len(words) == 2 {
			body["amount"] = words[1]
		}
		l.order(l.payout, "return", body)
	case step == "exhaust": // until the breakers of both are open
		a := l.payer(1_000_000)
		for i := range 10 {
			_, _, _ = l.Create(l.t.Context(), request(a, strconv.Itoa(i), 1000))
		}
	default:
		l.t.Fatalf("what is %q?", step)
	}
}
