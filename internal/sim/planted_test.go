package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// planted are mistakes that people make. Each is found within 500 seeds; the seed says by which. docs/reliability.md has
// the same table.
var planted = []struct {
	name  string
	seed  uint64 // that finds it
	shows string // what the auditor says of it
	new   func() *plant
}{
	{"a payout fails over although nobody knows whether it was sent", 2, "while nobody knows whether", failoverOnUnknown},
	{"a payout that fails gives nothing back", 2, "cash_out_failed is 0", missingRelease},
	{"an event is written after its transaction", 1, "has 0 events", eventOutside},
	{"a payment that is heard of twice is credited twice", 1, "is credited with", doubleCredit},
	{"an Idempotency-Key counts together with the bytes of its body", 1, " and then ", idempotencyByBytes},
	{"a charge expires without a last question", 11, "expired although", expiryUnasked},
	{"balances are locked in the opposite order", 6, "locks balance", lockOrderReversed},
	{"a fee is rounded down", 2, "the fee of", feeRoundedDown},
	{"a withdrawal that the provider calls failed is given back", 4, "and its coins left", failedIsFinal},
	{"a payout is sent again under another name", 2, "that is none of ours", renamedResend},
	{"a forged notification is believed", 2, "and nobody paid it", forgedBelieved},
	{"a debit does not look at the balance", 5, "more than it had", overdraft},
	{"the folder deletes credits and dies", 1, "its transfers make", foldLoses},
	{"an attempt that failed counts as delivered", 5, "is said to be delivered", deliveredAnyway},
	{"a charge expires although it was paid meanwhile", 46, "is expired", expiryOverPaid},
	{"a COMMIT without an answer is taken for done", 2, "which is not stored", commitBelieved},
	{"money that was given back is debited each time that it is told", 1, "the account has -", refundTwice},
	{"nobody is told of an event", 1, "nothing is kept of telling", toldToNobody},
	{"a copy of a paid charge is shown without a look whether it has changed", 14, "is shown as paid", copyUnasked},
}

func same(s sqldb.Statement) []sqldb.Statement { return []sqldb.Statement{s} }

// instead changes a statement's text.
func instead(s sqldb.Statement, old, now string) []sqldb.Statement {
	return same(sqldb.Statement{SQL: strings.Replace(s.SQL, old, now, 1), Args: s.Args})
}

func is(s sqldb.Statement, prefix string) bool { return strings.HasPrefix(s.SQL, prefix) }

// with returns a statement with another argument, counted from 1 as in its text.
func with(s sqldb.Statement, place int, value any) sqldb.Statement {
	args := slices.Clone(s.Args)
	args[place-1] = value
	return sqldb.Statement{SQL: s.SQL, Args: args}
}

func onStatement(f func(b *boot, s sqldb.Statement) []sqldb.Statement) *plant {
	return &plant{onStatement: f}
}

// answerWith is an answer that nobody gave.
func answerWith(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
	}
}

func isSend(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/v3/gn/pix/")
}

func failoverOnUnknown() *plant {
	return &plant{onResponse: func(r *http.Request, response *http.Response, err error) (*http.Response, error) {
		if isSend(r) && (errors.Is(err, errReset) || errors.Is(err, errTimeout)) {
			return answerWith(r, http.StatusTooManyRequests, `{"nome":"indisponivel","mensagem":"tente outro"}`), nil
		}
		return response, err
	}}
}

// Places of arguments.
const (
	transferID, transferAmount, transferKind, transferOnce = 2, 6, 7, 9
	deltaID, deltaAmount                                   = 4, 5
	takeAmount, takeID, takeNeed                           = 1, 2, 6
)

// arg returns an argument, counted from 1.
func arg[T any](s sqldb.Statement, place int) T {
	v, _ := s.Args[place-1].(T)
	return v
}

const (
	intoTransfer = "INSERT INTO transfer"
	intoDelta    = "INSERT INTO delta"
	takeFrom     = "UPDATE balance SET amount = amount -"
)

func missingRelease() *plant {
	var lost id.ID
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		switch {
		case is(s, intoTransfer) && arg[string](s, transferKind) == "cash_out_failed":
			lost = arg[id.ID](s, transferID)
			return nil
		case is(s, intoDelta) && arg[id.ID](s, deltaID) == lost, is(s, takeFrom) && arg[id.ID](s, takeID) == lost:
			return nil
		}
		return same(s)
	})
}

func eventOutside() *plant {
	waiting := map[*boot][]sqldb.Statement{}
	return &plant{
		onBegin: func(b *boot) { waiting[b] = nil },
		onStatement: func(b *boot, s sqldb.Statement) []sqldb.Statement {
			if !is(s, "INSERT INTO event") {
				return same(s)
			}
			waiting[b] = append(waiting[b], s)
			return nil
		},
		onCommitted: func(b *boot) {
			l := b.life
			for _, s := range waiting[b] {
				l.auditor.Touched(s.SQL)
				err := l.db.Write(l.ctx, func(ctx context.Context, tx *sqldb.Tx) error {
					tx.Queue(ctx, s.SQL, s.Args...)
					return nil
				})
				if err != nil {
					l.note("event: %v", err)
				}
			}
			waiting[b] = nil
		},
	}
}

func doubleCredit() *plant {
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		if is(s, intoTransfer) && arg[string](s, transferKind) == "inflow" {
			return same(with(s, transferOnce, fmt.Sprint(arg[string](s, transferOnce), " ", arg[id.ID](s, transferID))))
		}
		return same(s)
	})
}

func idempotencyByBytes() *plant {
	return &plant{onRequest: func(r *http.Request, body string) {
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			sum := sha256.Sum256([]byte(body))
			r.Header.Set("Idempotency-Key", key+"-"+hex.EncodeToString(sum[:8]))
		}
	}}
}

func expiryUnasked() *plant {
	p := &plant{}
	p.onResponse = func(r *http.Request, response *http.Response, err error) (*http.Response, error) {
		if p.working == "expiry" && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/cob/") {
			return answerWith(r, http.StatusNotFound, `{"type":"https://pix.bcb.gov.br/api/v2/error/CobNaoEncontrado","title":"nada","status":404,"detail":"nada"}`), nil
		}
		return response, err
	}
	return p
}

func lockOrderReversed() *plant {
	books := map[*boot]map[string]bool{}
	var first *sqldb.Statement
	return &plant{
		onBegin: func(b *boot) { books[b], first = map[string]bool{}, nil },
		onStatement: func(b *boot, s sqldb.Statement) []sqldb.Statement {
			switch {
			case is(s, intoTransfer) && slices.Contains([]string{"available", "pending", "blocked", "in_transit"}, arg[string](s, 4)):
				books[b][arg[string](s, 4)] = true
			case is(s, takeFrom) && len(books[b]) == 2 && first == nil:
				first = &s
				return nil
			case is(s, takeFrom) && first != nil:
				return []sqldb.Statement{s, *first}
			}
			return same(s)
		},
	}
}

func feeRoundedDown() *plant {
	short := false
	return &plant{
		onBegin: func(*boot) { short = false },
		onStatement: func(_ *boot, s sqldb.Statement) []sqldb.Statement {
			const amount, fee = 8, 9
			switch {
			case is(s, "INSERT INTO payout"):
				of, charged := arg[int64](s, amount), arg[int64](s, fee)
				for _, text := range fees { // which of them it was, is plain unless it was not rounded
					fixed, percent := parseFee(text)
					if fixed+of*percent/1_000_000 == charged-1 && of*percent%1_000_000 >= 500_000 {
						short = true
						return same(with(s, fee, charged-1))
					}
				}
			case short && is(s, intoTransfer):
				return same(with(s, transferAmount, arg[int64](s, transferAmount)-1))
			case short && is(s, intoDelta):
				return same(with(s, deltaAmount, arg[int64](s, deltaAmount)-1))
			case short && is(s, takeFrom):
				return same(with(with(s, takeAmount, arg[int64](s, takeAmount)-1), takeNeed, arg[int64](s, takeNeed)-1))
			case short && is(s, "UPDATE balance SET amount = $1"):
				return same(with(s, 1, arg[int64](s, 1)+1))
			}
			return same(s)
		},
	}
}

// parseFee reads a fee in centavos and millionths.
func parseFee(text string) (fixed, share int64) {
	var reais, cents int64
	var percent float64
	_, _ = fmt.Sscanf(text, "%d.%d+%f%%", &reais, &cents, &percent)
	if !strings.Contains(text, ".") || strings.HasPrefix(text, "0+") {
		cents = 0
		_, _ = fmt.Sscanf(text, "0+%f%%", &percent)
	}
	return reais*100 + cents, int64(percent*10_000 + 0.5)
}

// rewritten changes the text of an answer.
func rewritten(response *http.Response, old, now string) *http.Response {
	body, _ := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(old), []byte(now))))
	return response
}

func failedIsFinal() *plant {
	return &plant{onResponse: func(r *http.Request, response *http.Response, err error) (*http.Response, error) {
		if err != nil || !strings.HasPrefix(r.URL.Path, "/v1/payout/") {
			return response, err
		}
		return rewritten(response, `"FAILED"`, `"REJECTED"`), nil
	}}
}

func renamedResend() *plant {
	sent := map[string]int{}
	return &plant{
		onSend: func(r *http.Request) {
			if n := sent[r.URL.Path]; isSend(r) && n > 0 {
				r.URL.Path = r.URL.Path[:len(r.URL.Path)-2] + fmt.Sprintf("%02d", n%100)
			}
		},
		onResponse: func(r *http.Request, response *http.Response, err error) (*http.Response, error) {
			if err != nil || response.StatusCode != http.StatusUnauthorized {
				sent[r.URL.Path]++
			}
			return response, err
		},
	}
}

func forgedBelieved() *plant {
	claims := map[string]string{}
	return &plant{
		onForged: func(body string) {
			var n struct {
				Pix []json.RawMessage `json:"pix"`
			}
			var one struct {
				EndToEndID string `json:"endToEndId"`
			}
			if json.Unmarshal([]byte(body), &n) == nil && len(n.Pix) > 0 && json.Unmarshal(n.Pix[0], &one) == nil {
				claims["/v2/pix/"+one.EndToEndID] = string(n.Pix[0])
			}
		},
		onResponse: func(r *http.Request, response *http.Response, err error) (*http.Response, error) {
			if claim := claims[r.URL.Path]; claim != "" && err == nil && response.StatusCode == http.StatusNotFound {
				return answerWith(r, http.StatusOK, claim), nil
			}
			return response, err
		},
	}
}

func overdraft() *plant {
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		if is(s, takeFrom) {
			return instead(s, "amount >= $6", "amount + $6 IS NOT NULL")
		}
		return same(s)
	})
}

func foldLoses() *plant {
	p := &plant{}
	p.onStatement = func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		if p.working == "fold" && is(s, "UPDATE balance SET amount = amount + $1") {
			return nil
		}
		return same(s)
	}
	return p
}

func deliveredAnyway() *plant {
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		if is(s, "UPDATE delivery SET state = $1, attempt") {
			return same(with(s, 1, "delivered"))
		}
		return same(s)
	})
}

func expiryOverPaid() *plant {
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		if is(s, "UPDATE charge SET status = $1 WHERE") {
			return instead(s, "status = $4", "(status = $4 OR status <> $4)")
		}
		return same(s)
	})
}

func commitBelieved() *plant {
	return &plant{onEnd: func(_ *boot, err error) error {
		if errors.Is(err, sqldb.ErrProbeCommit) {
			return nil
		}
		return err
	}}
}

func refundTwice() *plant {
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		switch {
		case is(s, intoTransfer) && arg[string](s, transferKind) == "refund":
			return same(with(s, transferOnce, fmt.Sprint(arg[string](s, transferOnce), " ", arg[id.ID](s, transferID))))
		case is(s, "INSERT INTO clawback"), is(s, "UPDATE clawback"):
			return nil
		}
		return same(s)
	})
}

func toldToNobody() *plant {
	return onStatement(func(_ *boot, s sqldb.Statement) []sqldb.Statement {
		if is(s, "INSERT INTO delivery") {
			return nil
		}
		return same(s)
	})
}

func copyUnasked() *plant {
	return &plant{onQuery: func(s sqldb.Statement) sqldb.Statement {
		if is(s, "SELECT count FROM paid_change") {
			return instead(s, "SELECT count", "SELECT 0 * count")[0]
		}
		return s
	}}
}
