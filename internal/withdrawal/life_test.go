package withdrawal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// end is how the life of a withdrawal of 100 with a fee of 1 ends, in an account that had 1000.
type end struct {
	told    string // what the creation was answered
	status  withdrawal.State
	balance ledger.Balance
	posted  string
	events  string
	made    string // payouts at the provider, and how often their coins left
	doubt   bool   // nobody knows whether coins left
}

const (
	held  = "crypto_out 101.000000 available>in_transit"
	sent  = held + ", crypto_out_sent 100.000000 in_transit>acquirer, crypto_out_fee 1.000000 in_transit>fees"
	given = held + ", crypto_out_failed 101.000000 in_transit>available"

	wasAccepted  = "processing processing"
	wasCompleted = wasAccepted + ", completed completed"
	hasFailed    = wasAccepted + ", failed failed"

	created = "created processing"
)

var (
	whole   = ledger.Balance{Available: 1000_000000}
	waiting = ledger.Balance{Available: 899_000000, InTransit: 101_000000}
	gone    = ledger.Balance{Available: 899_000000}
)

// lives are what can happen to a withdrawal. A step is a word with its arguments: an operation, the kind of a fault and how
// often breaks something at the provider; the others are below.
var lives = []struct {
	name  string
	steps string
	end   end
}{
	{"made", "post", end{created, withdrawal.Processing, waiting, held, wasAccepted, "WAITING 0", false}},
	{"verified", "post, hear", end{created, withdrawal.Processing, waiting, held, wasAccepted, "PROCESSING 0", false}},
	{"verified once", "post, hear, hear, later 10s, check, later 30s, check", end{created, withdrawal.Processing, waiting, held, wasAccepted, "PROCESSING 0", false}},
	{"sent, told", "post, hear, finish, hear", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"sent, told twice and late", "post, hear, finish, hear, hear, later 1h, check, hear", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"sent, told by nobody", "post, check, finish, later 30s, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"rejected", "post, hear, reject, hear", end{created, withdrawal.Failed, whole, given, hasFailed, "REJECTED 0", false}},
	{"rejected before it was verified", "post, reject, hear", end{created, withdrawal.Failed, whole, given, hasFailed, "REJECTED 0", false}},
	{"rejected, told by nobody, twice", "post, check, reject, later 30s, check, later 1h, check, hear", end{created, withdrawal.Failed, whole, given, hasFailed, "REJECTED 0", false}},
	{"never verified", "payout.verify http_500 0, post, hear, later 30s, check, later 61m, check", end{created, withdrawal.Failed, whole, given, hasFailed, "REJECTED 0", false}},

	{"failed is not final", "post, hear, fail, hear", end{created, withdrawal.Processing, waiting, held, wasAccepted, "FAILED 0", true}},
	{"failed is not final for long", "post, hear, fail, hear, later 24h, check, later 1h, check", end{created, withdrawal.Processing, waiting, held, wasAccepted, "FAILED 0", true}},
	{"failed, then sent", "post, hear, fail, hear, finish, later 1m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"failed, then rejected", "post, hear, fail, hear, reject, hear", end{created, withdrawal.Failed, whole, given, hasFailed, "REJECTED 0", false}},

	{"refused", "payout.send reject 1, post", end{"created failed", withdrawal.Failed, whole, given, hasFailed, "", false}},
	{"refused, and asked for again", "payout.send reject 1, post, post", end{"created failed, existing failed", withdrawal.Failed, whole, given, hasFailed, "", false}},
	{"asked too often", "payout.send http_429 1, post", end{created, withdrawal.Processing, waiting, held, wasAccepted, "", false}},
	{"asked too often, then sent", "payout.send http_429 1, post, later 10s, check, check, finish, later 30s, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"asked too often for an hour", "payout.send http_429 0, post, later 10s, check, later 59m, check, later 2m, check, mend, later 1h, check", end{created, withdrawal.Failed, whole, given, hasFailed, "", false}},
	{"no token", "token http_500 0, post, mend, later 10s, check, check, finish, later 30s, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},

	{"answer lost, found at once", "payout.send lost_executed 1, post, hear, finish, hear", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"answer unreadable, found at once", "payout.send garbage 1, post, hear, finish, hear", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"answer lost and nobody answers", "payout.send lost_executed 1, payout.get http_500 1, post", end{created, withdrawal.Processing, waiting, held, wasAccepted, "WAITING 0", true}},
	{"answer lost and nobody answers, repeated", "payout.send lost_executed 1, payout.get http_500 1, post, post", end{created + ", existing processing", withdrawal.Processing, waiting, held, wasAccepted, "WAITING 0", true}},
	{"answer lost and nobody answers, found later", "payout.send lost_executed 1, payout.get http_500 1, post, later 30s, check, finish, later 30s, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"answer lost, nothing happened", "payout.send lost_not_executed 1, post", end{created, withdrawal.Processing, waiting, held, wasAccepted, "", true}},
	{"answer lost, nothing happened, looked for soon", "payout.send lost_not_executed 1, post, later 30s, check, later 4m, check", end{created, withdrawal.Processing, waiting, held, wasAccepted, "", true}},
	{"answer lost, nothing happened, made again", "payout.send lost_not_executed 1, post, later 6m, check, check, finish, later 2m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"server error, made again", "payout.send http_500 1, post, later 6m, check, check, finish, later 2m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"made again and refused", "payout.send http_500 1, post, payout.send reject 1, later 6m, check", end{created, withdrawal.Failed, whole, given, hasFailed, "", false}},
	{"made again and asked too often", "payout.send http_500 1, post, payout.send http_429 1, later 6m, check, later 2m, check, check, finish, later 3m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"made again and lost", "payout.send http_500 1, post, payout.send lost_executed 1, later 6m, check, later 2m, check, finish, later 3m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"made again and lost twice", "payout.send http_500 1, post, payout.send lost_not_executed 1, later 6m, check, later 6m, check, check, finish, later 4m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"lost, and found when it is over", "payout.send lost_executed 1, payout.get http_500 0, post, later 2h, mend, check", end{created, withdrawal.Failed, whole, given, hasFailed, "REJECTED 0", false}},

	{"verification lost, done", "payout.verify lost_executed 1, post, check, finish, later 1m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"verification lost, not done", "payout.verify lost_not_executed 1, post, check, later 10s, check, finish, later 1m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"verification refused", "payout.verify reject 1, post, check, later 1m, check, finish, later 1m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"verification asked too often", "payout.verify http_429 1, post, check, later 1m, check, finish, later 1m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"provider gone while it is under way", "post, hear, payout.get http_500 0, later 1h, check, later 1h, check, mend, finish, later 10m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},

	{"quirks", "quirk payouts_as_array, quirk payout_needs_token, quirk html_errors, payout.send http_500 1, post, later 6m, check, check, finish, later 2m, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
	{"a provider that knows its ids", "quirk unique_external_id, payout.send lost_executed 1, payout.get http_500 1, post, later 30s, check, finish, later 30s, check", end{created, withdrawal.Completed, gone, sent, wasCompleted, "FINISHED 1", false}},
}

func TestLives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, life := range lives {
			t.Run(life.name, func(t *testing.T) {
				n := newWorld(t).node(n.db)
				l := &liver{node: n}
				a := n.holder(1000_000000)
				var answers []string
				for step := range strings.SplitSeq(life.steps, ", ") {
					if step == "post" {
						answers = append(answers, told(n.Create(t.Context(), request(a, "order 42", 100_000000))))
					} else {
						l.live(step)
					}
					if len(n.all(a.ID)) > 0 {
						l.withdrawal = n.stored(a.ID, "order 42")
					}
				}
				got := end{
					told: strings.Join(answers, ", "), status: l.withdrawal.Status, balance: n.balance(a.ID), posted: n.transfers(a.ID),
					events: n.events(a.ID), made: n.made(l.withdrawal), doubt: !l.withdrawal.DoubtAt.IsZero(),
				}
				if diff := cmp.Diff(life.end, got, cmp.AllowUnexported(end{})); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s", diff, n.log)
				}
				n.audit()
			})
		}
	})
}

// liver lives the life of one withdrawal.
type liver struct {
	*node
	withdrawal withdrawal.Withdrawal
}

func (l *liver) live(step string) {
	l.t.Helper()
	words := strings.Fields(step)
	switch {
	case len(words) == 3: // a fault
		var times int
		_, _ = fmt.Sscan(words[2], &times)
		l.fault(words[0], words[1], times)
	case words[0] == "later":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			l.t.Fatal(err)
		}
		l.advance(d)
	case words[0] == "quirk":
		l.quirk(words[1])
	case step == "mend":
		l.mend()
	case step == "check":
		l.step(l.CheckDue)
	case step == "hear":
		l.Hint(l.name, l.withdrawal.ProviderID)
		l.step(l.FollowHints)
	case step == "finish", step == "fail", step == "reject":
		l.order(l.withdrawal, step)
	default:
		l.t.Fatalf("what is %q?", step)
	}
}
