// Package ledger moves money between the books of an account. It is the only writer of money: what it holds always adds
// up, and no guarded book goes below zero unless the mover may take it there.
//
// A transfer takes an amount from one book and gives it to another of the same account and currency, so that every
// transfer balances by itself. Transfers are never changed or deleted.
//
// Money that comes in never waits: it is written as a delta beside the balance, and a balance is what is folded plus the
// deltas that wait. Money that goes out takes from what is folded, and only where that is not enough locks the balance
// and folds first.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Book is one of the places where an account's money can be.
type Book string

// The guarded books hold the account's own money. Each has a balance.
const (
	Available Book = "available"  // can be paid out now
	Pending   Book = "pending"    // received, not released yet
	Blocked   Book = "blocked"    // held by an infraction or a review
	InTransit Book = "in_transit" // on its way out
)

// The other books are the world's side of a transfer. They have no balance: it is re-added when it is asked for.
const (
	Acquirer   Book = "acquirer"   // money at the acquirers and providers
	Fees       Book = "fees"       // what the account was charged
	Adjustment Book = "adjustment" // what operators corrected
)

// guarded are the books with a balance, in the order in which they are locked.
var guarded = []Book{Available, Blocked, InTransit, Pending}

var outside = []Book{Acquirer, Fees, Adjustment}

func (b Book) isGuarded() bool { return slices.Contains(guarded, b) }
func (b Book) isKnown() bool   { return b.isGuarded() || slices.Contains(outside, b) }

// Kind says why money moved. Each package that moves money declares its own.
type Kind string

// Transfer moves an amount from one book to another.
type Transfer struct {
	ID       id.ID // set by [Tx.Post]; tells when
	Account  id.Account
	Amount   money.Amount // above zero
	Source   Book
	Target   Book
	Kind     Kind
	Ref      id.ID  // the thing it belongs to; zero for none
	OnceKey  string // posted at most once for this account and kind; "" for no such rule
	Memo     string // an operator's reason; "" for none
	After    id.ID  // its ID is above this one; zero for no such rule
	Overdraw bool   // may take its source below zero
}

// ErrInvalid is returned for a transfer that can never be posted: a defect of its maker.
var ErrInvalid = errors.New("ledger: not a transfer")

func (t *Transfer) validate() error {
	switch {
	case t.Account == 0:
		return fmt.Errorf("%w: no account", ErrInvalid)
	case t.Amount.Units <= 0:
		return fmt.Errorf("%w: amount %d", ErrInvalid, t.Amount.Units)
	case !slices.Contains(money.Currencies, t.Amount.Currency):
		return fmt.Errorf("%w: currency %q", ErrInvalid, t.Amount.Currency)
	case !t.Source.isKnown() || !t.Target.isKnown() || t.Source == t.Target:
		return fmt.Errorf("%w: from %q to %q", ErrInvalid, t.Source, t.Target)
	case t.Kind == "":
		return fmt.Errorf("%w: no kind", ErrInvalid)
	}
	return nil
}

// InsufficientError reports that a book does not hold what was to be taken from it.
type InsufficientError struct {
	Book    Book
	Balance money.Amount // what it held
	Need    money.Amount // what was to be taken
}

func (e *InsufficientError) Error() string {
	return fmt.Sprintf("ledger: %s holds %s %s, %s is needed", e.Book, e.Balance, e.Balance.Currency, e.Need)
}

// Ledger posts transfers.
type Ledger struct {
	db     *sqldb.DB
	ids    *id.Generator
	folder *folder
	fold   foldFunc // lockAndFold; tests try wrong ones
}

// New returns the ledger of db.
func New(db *sqldb.DB, ids *id.Generator, c *clock.Clock) *Ledger {
	return &Ledger{db: db, ids: ids, folder: newFolder(c), fold: lockAndFold}
}

// Open gives a new account its books, all empty. It belongs into the transaction that stores the account.
func Open(ctx context.Context, tx *sqldb.Tx, account id.Account) {
	for _, c := range money.Currencies {
		for _, b := range guarded {
			tx.Queue(ctx, insertBalance, int64(account), string(c), string(b), id.First(epoch))
		}
	}
}

// Tx is a transaction that can post.
type Tx struct {
	*sqldb.Tx
	l      *Ledger
	slow   bool // lock and fold before taking
	posted bool
}

// foldError says that what is folded does not cover a debit: the transaction is run again and folds first.
type foldError struct {
	short  *change
	posted []*Transfer // what was to be posted
}

func (e *foldError) Error() string { return "ledger: fold first" }

// Write runs f in a transaction like [sqldb.DB.Write]; f may run more than once.
func (l *Ledger) Write(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	return l.write(ctx, l.db.Write, f)
}

// WriteWithin is Write for who cannot wait that long: all of it ends within limit, of real time.
func (l *Ledger) WriteWithin(ctx context.Context, limit time.Duration, f func(ctx context.Context, tx *Tx) error) error {
	began := l.folder.clock.Real()
	return l.write(ctx, func(ctx context.Context, run func(context.Context, *sqldb.Tx) error) error {
		return l.db.WriteWithin(ctx, limit-l.folder.clock.RealSince(began), run)
	}, f)
}

type writeFunc func(ctx context.Context, run func(context.Context, *sqldb.Tx) error) error

func (l *Ledger) write(ctx context.Context, writeOnce writeFunc, f func(ctx context.Context, tx *Tx) error) error {
	write := func(slow bool) error {
		return writeOnce(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return f(ctx, &Tx{Tx: tx, l: l, slow: slow})
		})
	}
	err := write(false)
	if fold, ok := errors.AsType[*foldError](err); ok {
		if err := l.refuse(ctx, fold); err != nil {
			return err
		}
		err = write(true)
	}
	return err
}

// refuse returns an [*InsufficientError] when a balance does not cover what is to be taken from it. It locks nothing: of a
// crowd that wants more than there is, those who get nothing are not to stand in each other's way.
func (l *Ledger) refuse(ctx context.Context, fold *foldError) error {
	c := fold.short
	if c.overdraw {
		return nil
	}
	shown, err := Balances(ctx, l.db, c.at.account, c.at.currency)
	if err != nil {
		return nil //nolint:nilerr // whoever locks it finds out
	}
	if held := *shown.Of(c.at.book); held+c.units < 0 {
		return cmp.Or(findPosted(ctx, l.db, fold.posted), error(c.insufficient(held)))
	}
	return nil
}

// insufficient says that a balance does not cover a change.
func (c *change) insufficient(held int64) *InsufficientError {
	return &InsufficientError{
		Book:    c.at.book,
		Balance: money.Amount{Currency: c.at.currency, Units: held},
		Need:    money.Amount{Currency: c.at.currency, Units: -c.units},
	}
}

// Post writes transfers and moves the balances. It is called once in a transaction, as its last statement, because a
// debit locks the balance until COMMIT. It sets each transfer's ID.
//
// It fails with an [*InsufficientError], and with [sqldb.ErrConflict], then or at COMMIT, when a OnceKey was used.
func (tx *Tx) Post(ctx context.Context, transfers ...*Transfer) error {
	if tx.posted {
		return fmt.Errorf("%w: a second Post in one transaction", ErrInvalid)
	}
	tx.posted = true
	changes, err := net(transfers)
	if err != nil {
		return err
	}
	var floor id.ID
	if tx.slow {
		if floor, err = tx.lockAll(ctx, changes); err != nil {
			return cmp.Or(findPosted(ctx, tx.Tx, transfers), err)
		}
	}
	for _, t := range transfers {
		if t.After.Compare(floor) > 0 {
			floor = t.After
		}
		t.ID = tx.l.ids.After(floor)
		floor = t.ID
		tx.Queue(ctx, insertTransfer, int64(t.Account), t.ID, string(t.Amount.Currency), string(t.Source), string(t.Target),
			t.Amount.Units, string(t.Kind), t.Ref, null(t.OnceKey), null(t.Memo))
	}
	for _, c := range changes {
		if c.units > 0 {
			tx.Queue(ctx, insertDelta, int64(c.at.account), string(c.at.currency), string(c.at.book), c.last.ID, c.units)
			tx.AfterCommit(func() { tx.l.folder.credited(c.at) })
		}
	}
	for _, c := range changes {
		if c.units < 0 {
			tx.Rank(int64(c.at.account))
			tx.take(ctx, c, transfers)
		}
	}
	return nil
}

// findPosted returns [sqldb.ErrConflict] when one of the transfers was posted before: a repetition is told so, and not
// that the money it once took is gone.
func findPosted(ctx context.Context, q sqldb.Querier, transfers []*Transfer) error {
	for _, t := range transfers {
		if t.OnceKey == "" {
			continue
		}
		_, err := sqldb.One(ctx, q, scanTransfer, selectTransferOnce, int64(t.Account), string(t.Kind), t.OnceKey)
		switch {
		case err == nil:
			return sqldb.ErrConflict
		case !errors.Is(err, sqldb.ErrNoRows):
			return err
		}
	}
	return nil
}

// place is a balance.
type place struct {
	account  id.Account
	currency money.Currency
	book     Book
}

// compare orders balances as they are locked.
func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.account, o.account), cmp.Compare(p.currency, o.currency), cmp.Compare(p.book, o.book))
}

// change is what one Post does to one balance.
type change struct {
	at       place
	units    int64
	overdraw bool      // every debit in it may go below zero
	last     *Transfer // the last that touches it
	folded   int64     // what is in the balance, once it is locked and folded
	foldedTo id.ID     // the latest credit in that
}

// net adds up what transfers do to each balance, in the order in which balances are locked: by account, currency and
// book, so that two transactions never wait for each other.
func net(transfers []*Transfer) ([]*change, error) {
	var changes []*change
	add := func(t *Transfer, b Book, units int64) {
		if !b.isGuarded() {
			return
		}
		at := place{t.Account, t.Amount.Currency, b}
		i := slices.IndexFunc(changes, func(c *change) bool { return c.at == at })
		if i < 0 {
			i = len(changes)
			changes = append(changes, &change{at: at, overdraw: true})
		}
		c := changes[i]
		c.units += units
		c.overdraw = c.overdraw && (units > 0 || t.Overdraw)
		c.last = t
	}
	if len(transfers) == 0 {
		return nil, fmt.Errorf("%w: nothing to post", ErrInvalid)
	}
	for _, t := range transfers {
		if err := t.validate(); err != nil {
			return nil, err
		}
		add(t, t.Source, -t.Amount.Units)
		add(t, t.Target, t.Amount.Units)
	}
	slices.SortFunc(changes, func(a, b *change) int { return a.at.compare(b.at) })
	return changes, nil
}

// lockAll locks and folds every balance that is taken from and returns the highest identifier folded into any: a
// transfer above it shows, in the order of identifiers, only money that was there.
func (tx *Tx) lockAll(ctx context.Context, changes []*change) (floor id.ID, err error) {
	for _, c := range changes {
		if c.units >= 0 {
			continue
		}
		if c.folded, c.foldedTo, err = tx.l.fold(ctx, tx.Tx, c.at); err != nil {
			return floor, err
		}
		if c.foldedTo.Compare(floor) > 0 {
			floor = c.foldedTo
		}
		if c.folded+c.units < 0 && !c.overdraw {
			tx.l.folder.due(c.at) // the fold is rolled back with the rest; the folder does it again
			return floor, c.insufficient(c.folded)
		}
	}
	return floor, nil
}

// take takes from a balance: from what is folded when that covers it, which needs no look at the deltas because they are
// all above zero.
func (tx *Tx) take(ctx context.Context, c *change, transfers []*Transfer) {
	account, currency, book := int64(c.at.account), string(c.at.currency), string(c.at.book)
	if tx.slow {
		missing := fmt.Errorf("ledger: %s has no book %s %s", c.at.account, c.at.currency, c.at.book)
		tx.Guard(ctx, missing, setBalance, c.folded+c.units, c.foldedTo, account, currency, book)
		return
	}
	need, dated := -c.units, c.last.ID
	if c.overdraw { // whatever is there
		need, dated = math.MinInt64, id.Max
	}
	tx.Guard(ctx, &foldError{c, transfers}, takeBalance, -c.units, dated, account, currency, book, need)
}
