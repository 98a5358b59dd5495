package charge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// passes are how old payments are when an acquirer's list of them is read: at once for payments nobody told us of, and
// again later for money that was given back since, which no list tells by itself. After 90 days nothing is given back.
var passes = []time.Duration{0, 10 * time.Minute, 24 * time.Hour, 90 * 24 * time.Hour}

const (
	readEvery    = 20 * time.Second            // of business time; passes over old payments are read less often
	readShare    = 20                          // of a pass's age that may go by between two reads
	readOverlap  = 30 * time.Second            // that is read again, because clocks differ and lists may be late
	windowMax    = 24 * time.Hour              // read at once after a long absence
	windowMin    = time.Minute + 2*readOverlap // is read however much it lists; half of it is still beyond the overlap
	pagesMax     = 2000                        // of a window; one that has more is halved
	settledMax   = 50_000                      // payments that are known to be settled, twice
	unmatchedMax = 500                         // that are listed
)

// Reconcile reads each acquirer's list of payments since the last time and settles what is unknown here.
func (s *Service) Reconcile(ctx context.Context) (did bool, err error) {
	var silent silence
	for _, health := range s.Router.Health() {
		at, _ := s.Router.Get(health.Acquirer)
		for _, age := range passes {
			some, readErr := s.reconcile(ctx, at, age)
			did, err = did || some, errors.Join(err, readErr)
			if silent.note(at.Name(), readErr) {
				break
			}
		}
	}
	return did && err == nil, err
}

// reconcile makes one read of one pass and reports whether there is more to read.
func (s *Service) reconcile(ctx context.Context, at acquirer.Acquirer, age time.Duration) (more bool, err error) {
	name := at.Name()
	if age > 0 {
		name = fmt.Sprintf("%s, %s later", name, age)
	}
	until := s.Clock.Now().Add(-age)
	read, err := s.readUntil(ctx, name)
	if err != nil || until.Sub(read) < max(readEvery, age/readShare) {
		return false, err
	}
	// One node at a time; the others have nothing to add.
	lock, err := s.DB.TryLock(ctx, lockName(name))
	if errors.Is(err, sqldb.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock(ctx)

	window := acquirer.Window{From: read.Add(-readOverlap), To: until}
	if until.Sub(read) > windowMax {
		window.To = read.Add(windowMax)
	}
	for {
		whole, err := s.readWindow(ctx, at, window)
		if err != nil {
			return false, err
		}
		if whole {
			break
		}
		window.To = window.From.Add(window.To.Sub(window.From) / 2)
	}
	return window.To.Before(until), s.setRead(ctx, name, window.To)
}

// readWindow settles what a window lists, and reports whether it came to the end. What fails keeps nothing else from
// being settled.
func (s *Service) readWindow(ctx context.Context, at acquirer.Acquirer, w acquirer.Window) (whole bool, err error) {
	var failed error
	for pages := 0; ; pages++ {
		if pages == pagesMax && w.To.Sub(w.From) > windowMin {
			return false, failed
		}
		page, err := s.list(ctx, at, w)
		if err != nil {
			return false, errors.Join(failed, err)
		}
		if page.Unreadable > 0 {
			s.Log.LogAttrs(ctx, slog.LevelError, "acquirer lists payments that make no sense",
				slog.String("acquirer", at.Name()), slog.Int("payments", page.Unreadable), slog.Time("from", w.From), slog.Time("to", w.To))
		}
		if err := each(page.Payments, func(p *acquirer.Payment) error { return s.match(ctx, at.Name(), p) }); err != nil {
			failed = err
		}
		if page.Next == "" {
			return true, failed
		}
		w.Cursor = page.Next
	}
}

func (s *Service) list(ctx context.Context, at acquirer.Acquirer, w acquirer.Window) (acquirer.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	return at.ListPayments(ctx, w)
}

// readUntil returns until when a list was read. One that never was begins now, so that nothing is missed when the first
// reads fail.
func (s *Service) readUntil(ctx context.Context, name string) (time.Time, error) {
	read, err := sqldb.One(ctx, s.DB, sqldb.Scalar[int64], selectCursor, name)
	if errors.Is(err, sqldb.ErrNoRows) {
		now := s.Clock.Now()
		return now, s.setRead(ctx, name, now)
	}
	return time.UnixMicro(read).UTC(), err
}

func (s *Service) setRead(ctx context.Context, name string, until time.Time) error {
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, upsertCursor, name, until.UnixMicro())
		return nil
	})
}

// lockName spreads lists over lock keys. The number means nothing.
func lockName(name string) int64 {
	key := int64(0x5265636f)
	for _, b := range []byte(name) {
		key = key*131 + int64(b)
	}
	return key
}

// match settles a payment that an acquirer has, or lists it as nobody's.
func (s *Service) match(ctx context.Context, name string, p *acquirer.Payment) error {
	if s.settled.has(settledName(name, p)) {
		return nil
	}
	c, err := s.byTxID(ctx, p.TxID)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return s.unmatched(ctx, name, p, "it names no charge of ours")
	case err != nil:
		return err
	case c.Acquirer != name:
		return s.unmatched(ctx, name, p, "its charge is at another acquirer")
	}
	if _, returned := returnedOf(p); c.EndToEndID == p.EndToEndID && c.Refunded == returned {
		s.settled.add(settledName(name, p))
		return nil
	}
	// Its charge knows the key that it must have been paid to.
	_, err = s.look(ctx, &c, p.EndToEndID)
	return err
}

// settled remembers payments that are settled, so that lists that are read again cost no queries. It forgets the oldest.
type settled struct {
	mu         sync.Mutex
	young, old map[string]bool
}

// settledName names a payment as far as it has come.
func settledName(acquirer string, p *acquirer.Payment) string {
	_, returned := returnedOf(p)
	return acquirer + " " + p.EndToEndID + " " + returned.String()
}

func (s *settled) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.young[name] || s.old[name]
}

func (s *settled) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= settledMax {
		s.young, s.old = map[string]bool{}, s.young
	}
	s.young[name] = true
}

// unmatched lists a payment as nobody's.
func (s *Service) unmatched(ctx context.Context, name string, p *acquirer.Payment, reason string) error {
	now := s.Clock.Now()
	paidAt := p.PaidAt
	if paidAt.IsZero() {
		paidAt = now
	}
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertUnmatched, name, p.EndToEndID, null(p.TxID), int64(p.Amount), paidAt.UnixMicro(), now.UnixMicro(), reason)
		return nil
	})
	if err == nil {
		s.settled.add(settledName(name, p)) // until it changes, there is nothing more to say
	}
	return err
}

// Unmatched is a payment that belongs to no charge.
type Unmatched struct {
	Acquirer   string
	EndToEndID string
	TxID       string // "" for none
	Amount     money.BRL
	PaidAt     time.Time
	FoundAt    time.Time // business time
	Reason     string
}

// ListUnmatched returns the payments that were found last and belong to no charge.
func ListUnmatched(ctx context.Context, q sqldb.Querier) ([]Unmatched, error) {
	return sqldb.All(ctx, q, func(r sqldb.Row) (u Unmatched, err error) {
		var amount, paidAt, foundAt int64
		err = r.Scan(&u.Acquirer, &u.EndToEndID, &u.TxID, &amount, &paidAt, &foundAt, &u.Reason)
		u.Amount, u.PaidAt, u.FoundAt = money.BRL(amount), moment(paidAt), moment(foundAt)
		return u, err
	}, listUnmatched, unmatchedMax)
}
