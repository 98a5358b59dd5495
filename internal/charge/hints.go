package charge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	hintsMax     = 20_000           // notifications that wait; the lists of payments find what is dropped
	hintTriesMax = 12               // then it is dropped
	hintWait     = time.Second      // after the first failure, doubled after each
	hintWaitMax  = 10 * time.Minute // of business time, as hintWait
	workersMax   = 16               // charges that are looked at at once
)

// hint is a notification: somebody says that a payment was made. It is not believed, only looked up.
type hint struct {
	acquirer   string
	endToEndID string
	txid       string // "" when it names none
}

// Verdict is what became of a notification once its acquirer was asked about the payment.
type Verdict string

const (
	Settled     Verdict = "settled"      // it paid its charge
	Duplicate   Verdict = "duplicate"    // it was credited before
	WrongAmount Verdict = "wrong_amount" // it was credited, and is not what the charge asked for
	Foreign     Verdict = "foreign"      // it is not for this acquirer, this key or any charge of ours: listed, if it exists
	Unknown     Verdict = "unknown"      // its acquirer knows of no such payment: forged
)

// patience is what a hint has been through.
type patience struct {
	tries int       // that failed
	due   time.Time // business time of the next
}

// Hint notes a notification and reports whether there was room. What is lost is found by [Service.Reconcile].
func (s *Service) Hint(acquirer, endToEndID, txid string) bool {
	return s.await(hint{acquirer, endToEndID, txid}, patience{})
}

// await puts a hint where FollowHints finds it. One that waits already is due when either is.
func (s *Service) await(h hint, p patience) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hints == nil {
		s.hints = map[hint]patience{}
	}
	if waits, ok := s.hints[h]; ok {
		if p.due.Before(waits.due) {
			s.hints[h] = p
		}
		return true
	}
	if len(s.hints) >= hintsMax {
		return false
	}
	s.hints[h] = p
	return true
}

// notice is a hint that is due.
type notice struct {
	hint
	patience
}

func (s *Service) takeHints() (due []notice) {
	now := s.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, p := range s.hints {
		if !p.due.After(now) {
			due = append(due, notice{h, p})
			delete(s.hints, h)
		}
	}
	return due
}

// FollowHints looks up the notifications that are due. Those that cannot be looked up wait for a while and are tried
// again; an acquirer that does not answer is asked no further in this step, so that it keeps nobody else waiting.
func (s *Service) FollowHints(ctx context.Context) (did bool, err error) {
	due := s.takeHints()
	var silent silence
	err = each(due, func(n *notice) error {
		if silent.has(n.acquirer) {
			s.putBack(ctx, n, 0)
			return nil
		}
		verdict, err := s.followHint(ctx, n.hint)
		if err == nil {
			s.Heard(n.acquirer, verdict)
			return nil
		}
		s.putBack(ctx, n, 1)
		if !isAcquirers(err) {
			return err
		}
		// Not a failure of the step: the others must not wait for it to be repeated.
		if silent.note(n.acquirer, err) {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "acquirer could not be asked", slog.String("acquirer", n.acquirer), slog.String("error", err.Error()))
		}
		return nil
	})
	return len(due) > 0 && err == nil, err
}

func isAcquirers(err error) bool {
	_, ok := errors.AsType[*acquirer.Error](err)
	return ok
}

// putBack makes a hint wait after so many more failures.
func (s *Service) putBack(ctx context.Context, n *notice, failures int) {
	wait := min(hintWait<<n.tries, hintWaitMax)
	n.tries += failures
	n.due = s.Clock.Now().Add(wait)
	if n.tries >= hintTriesMax || !s.await(n.hint, n.patience) {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "notification given up", slog.String("acquirer", n.acquirer), slog.String("end_to_end_id", n.endToEndID))
	}
}

func (s *Service) followHint(ctx context.Context, h hint) (Verdict, error) {
	c, err := s.byTxID(ctx, h.txid)
	switch {
	case err == nil && c.Acquirer == h.acquirer:
		return s.look(ctx, &c, h.endToEndID)
	case err == nil:
		return Foreign, nil // not for this acquirer to say
	case !errors.Is(err, sqldb.ErrNoRows):
		return "", err
	}
	at, ok := s.Router.Get(h.acquirer)
	if !ok {
		return Foreign, nil
	}
	asking, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	p, err := at.GetPayment(asking, h.endToEndID)
	if errors.Is(err, acquirer.ErrNotFound) {
		return Unknown, nil
	}
	if err != nil {
		return "", err
	}
	return Foreign, s.match(ctx, h.acquirer, &p)
}

// byTxID returns the charge that an acquirer knows by a txid, or [sqldb.ErrNoRows]. The case does not matter.
func (s *Service) byTxID(ctx context.Context, txid string) (Charge, error) {
	x, owner, err := id.ParseToken(txid)
	if err != nil {
		return Charge{}, sqldb.ErrNoRows
	}
	return sqldb.One(ctx, s.DB, scanCharge, selectChargeByTxID, int64(owner), id.Token(x, owner))
}

// silence are the acquirers that did not answer in a step.
type silence struct{ names sync.Map }

func (s *silence) has(name string) bool {
	_, ok := s.names.Load(name)
	return ok
}

// note notes an acquirer when err means that it would not answer the next question either, and reports whether that is
// news.
func (s *silence) note(name string, err error) bool {
	failure, ok := errors.AsType[*acquirer.Error](err)
	if !ok || failure.Class == acquirer.Protocol || failure.Class == acquirer.Business {
		return false
	}
	_, known := s.names.LoadOrStore(name, struct{}{})
	return !known
}

// each calls f for every item, several at once, and returns one of the failures.
func each[T any](items []T, f func(*T) error) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	failures := make(chan error, workersMax)
	for range min(workersMax, len(items)) {
		workers.Go(func() {
			var failed error
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				if err := f(&items[i]); err != nil {
					failed = err
				}
			}
			failures <- failed
		})
	}
	workers.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
