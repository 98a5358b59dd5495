package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Service is what operators do with accounts, keys and blocked addresses. What they got wrong comes back as a
// [fault.Error] whose text is one clear line.
type Service struct {
	db     *sqldb.DB
	clock  *clock.Clock
	random io.Reader
	ids    *id.Generator // of entries of the operator log
}

// New returns a service on db. Account numbers and keys are drawn from random, which may be read by many at once.
func New(db *sqldb.DB, c *clock.Clock, random io.Reader) *Service {
	return &Service{db: db, clock: c, random: random, ids: id.NewGenerator(c.Now, random)}
}

const (
	// ListMax is the most accounts that one call lists.
	ListMax = 200

	keysListMax = 1000 // the most keys that are listed of one account
	drawsMax    = 10   // of numbers that turn out to be taken; two in a row mean broken randomness already
)

// errTaken means that a number just drawn belongs to somebody else, and errPrefixTaken that the prefix of a key does.
var (
	errTaken       = errors.New("every number drawn was taken")
	errPrefixTaken = fmt.Errorf("%w: a prefix", errTaken)
)

// ErrMade is returned for a form that has made an account before.
var ErrMade = fault.New(fault.Conflict, "account_made", "the same form has made an account before, whose key was shown then")

// Create stores an account with default settings, empty books and one key with full access, and returns that key, which
// is never shown again.
func (s *Service) Create(ctx context.Context, p Params) (Account, string, error) {
	return s.create(ctx, p, "", s.random)
}

// CreateOnce is [Service.Create] for a form, which makes one account however often it is sent. It fails with [ErrMade], and
// the account, for all but the first.
func (s *Service) CreateOnce(ctx context.Context, p Params, once string) (Account, string, error) {
	// The form's own numbers, in an order that is always the same: whoever is second meets the first there.
	return s.create(ctx, p, once, rand.NewChaCha8(sha256.Sum256([]byte("account "+once))))
}

func (s *Service) create(ctx context.Context, p Params, once string, numbers io.Reader) (Account, string, error) {
	p, err := p.clean()
	if err != nil {
		return Account{}, "", wrap(err)
	}
	a := Account{Name: p.Name, Document: p.Document, Settings: Defaults()}
	var k freshKey
	err = draw(func() error {
		a.CreatedAt = s.now()
		if !errors.Is(err, errPrefixTaken) {
			a.ID = id.NewAccount(numbers)
		}
		k = newKey(s.random, a.ID, AllScopes, a.CreatedAt)
		k.once = once
		entry := oplog.Begin(ctx, s.ids, oplog.Entry{
			Action: oplog.AccountCreate, Account: a.ID, Subject: a.ID.String(),
			After: oplog.Fields{"name": a.Name, "document": a.Document, "key": k.Prefix},
		})
		err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			entry.Write(ctx, tx)
			return create(ctx, tx, a, k)
		})
		return err
	})
	if errors.Is(err, ErrMade) {
		made, getErr := getAccount(ctx, s.db, a.ID)
		return made, "", wrap(cmp.Or(getErr, err))
	}
	if err != nil {
		return Account{}, "", wrap(err)
	}
	return a, k.text, nil
}

// create stores an account with its first key, or returns errTaken, or [ErrMade] when the same form made it. It is done as
// well when it had done it before: then the account's key is this very one, which nobody else could have drawn.
func create(ctx context.Context, tx *sqldb.Tx, a Account, k freshKey) error {
	isNew, err := insertAccount(ctx, tx, a)
	if err != nil {
		return err
	}
	if !isNew {
		err := expectKey(ctx, tx, k)
		if !errors.Is(err, errTaken) {
			return err
		}
		if made, onceErr := isMadeBy(ctx, tx, a.ID, k.once); made || onceErr != nil {
			return cmp.Or(onceErr, error(ErrMade))
		}
		return err
	}
	// A prefix that is there cannot be of an earlier run, which would have left its account too.
	if isNew, err = insertKey(ctx, tx, k); err != nil {
		return err
	}
	if !isNew {
		return errPrefixTaken
	}
	ledger.Open(ctx, tx, a.ID)
	return nil
}

// isMadeBy reports whether a form has made a key of an account.
func isMadeBy(ctx context.Context, tx *sqldb.Tx, account id.Account, once string) (bool, error) {
	if once == "" {
		return false, nil
	}
	_, err := sqldb.One(ctx, tx, sqldb.Scalar[string], selectOnceSQL, account, once)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Get returns an account.
func (s *Service) Get(ctx context.Context, account id.Account) (Account, error) {
	a, err := getAccount(ctx, s.db, account)
	return a, wrap(err)
}

// List returns the accounts after one of them, or from the first for 0, in the order of their numbers: at most limit,
// and never more than [ListMax], which is also what 0 means. The list ends with an empty page.
func (s *Service) List(ctx context.Context, after id.Account, limit int) ([]Account, error) {
	if limit <= 0 || limit > ListMax {
		limit = ListMax
	}
	list, err := listAccounts(ctx, s.db, after, limit)
	return list, wrap(err)
}

// Set is [Service.Change] without a reason.
func (s *Service) Set(ctx context.Context, account id.Account, assignments []string) (Account, error) {
	return s.Change(ctx, account, assignments, "")
}

// Change changes settings, each written KEY=VALUE: all of them or, when one is refused, none. It returns the account as it
// then stands. Two that run at once both count. The reason is kept in the operator log; "" means that none was told.
func (s *Service) Change(ctx context.Context, account id.Account, assignments []string, reason string) (Account, error) {
	if reason != "" {
		if err := oplog.CheckReason(reason); err != nil {
			return Account{}, wrap(err)
		}
	}
	var a Account
	entry := oplog.Begin(ctx, s.ids, oplog.Entry{Action: oplog.AccountSet, Account: account, Subject: account.String(), Reason: reason})
	err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var err error
		// Locked, because all settings are written back and not only those that change.
		if a, err = lockAccount(ctx, tx, account); err != nil {
			return err
		}
		entry.Before = a.Settings.named(assignments)
		if err := a.Settings.apply(assignments); err != nil {
			return err
		}
		entry.After = a.Settings.named(assignments)
		entry.Write(ctx, tx)
		return updateSettings(ctx, tx, a)
	})
	if err != nil {
		return Account{}, wrap(err)
	}
	return a, nil
}

// CreateKey stores a key of an account and returns it with its secret, which is never shown again. An operator chooses
// what it may do.
func (s *Service) CreateKey(ctx context.Context, account id.Account, scopes Scopes) (Key, string, error) {
	return s.CreateKeyOnce(ctx, account, scopes, "")
}

// KeysMax is the most keys of an account that work at a time.
const KeysMax = 100

// Why somebody gets no key.
var (
	errKeysMany = fault.New(fault.Conflict, "keys_many", fmt.Sprintf("an account has at most %d keys: revoke one that is not used", KeysMax))
	errKeyMade  = fault.New(fault.Conflict, "key_made", "the same form has made a key before, which was shown then: revoke it if it was lost, and make another")
)

// CreateKeyOnce is [Service.CreateKey] for a form, which makes one key however often it is sent.
func (s *Service) CreateKeyOnce(ctx context.Context, account id.Account, scopes Scopes, once string) (Key, string, error) {
	if scopes == 0 {
		return Key{}, "", wrap(refuse(fault.Invalid, "a key needs at least one scope"))
	}
	var k freshKey
	err := draw(func() error {
		k = newKey(s.random, account, scopes, s.now())
		k.once = once
		entry := oplog.Begin(ctx, s.ids, oplog.Entry{
			Action: oplog.KeyCreate, Account: account, Subject: k.Prefix, After: oplog.Fields{"scopes": scopes.String()},
		})
		return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			// Locked, so that two that count at once do not both find room, nor one form make two.
			if _, err := lockAccount(ctx, tx, account); err != nil {
				return err
			}
			if stored, err := hasKey(ctx, tx, k); err != nil || stored { // by a run whose COMMIT was answered by nobody
				return err
			}
			if err := permitKey(ctx, tx, account, once); err != nil {
				return err
			}
			entry.Write(ctx, tx)
			return createKey(ctx, tx, k)
		})
	})
	if err != nil {
		return Key{}, "", wrap(err)
	}
	return k.Key, k.text, nil
}

// permitKey refuses a key that the same form has made before, or that is one too many.
func permitKey(ctx context.Context, tx *sqldb.Tx, account id.Account, once string) error {
	if made, err := isMadeBy(ctx, tx, account, once); made || err != nil {
		return cmp.Or(err, error(errKeyMade))
	}
	n, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countKeysSQL, account)
	if err == nil && n >= KeysMax {
		err = errKeysMany
	}
	return err
}

// createKey stores a key, or returns errTaken. It is done as well when it had done it before.
func createKey(ctx context.Context, tx *sqldb.Tx, k freshKey) error {
	isNew, err := insertKey(ctx, tx, k)
	if err != nil || isNew {
		return err
	}
	return expectKey(ctx, tx, k)
}

// expectKey returns errTaken unless k is stored.
func expectKey(ctx context.Context, tx *sqldb.Tx, k freshKey) error {
	stored, err := hasKey(ctx, tx, k)
	if err == nil && !stored {
		err = errTaken
	}
	return err
}

// ListKeys returns the keys of an account, the latest first and at most a thousand, revoked ones included.
func (s *Service) ListKeys(ctx context.Context, account id.Account) ([]Key, error) {
	if _, err := getAccount(ctx, s.db, account); err != nil {
		return nil, wrap(err)
	}
	keys, err := listKeys(ctx, s.db, account, keysListMax)
	return keys, wrap(err)
}

// RevokeKey ends the key with that prefix for good, on every node within two seconds. A key that was revoked before
// stays as it is.
func (s *Service) RevokeKey(ctx context.Context, prefix string) error {
	if !isPrefix(prefix) {
		// It is not repeated: it may be a whole key.
		return wrap(refuse(fault.Invalid, "a key is named by the 8 hex digits after bp_, such as 1a2b3c4d"))
	}
	now := s.now()
	entry := oplog.Begin(ctx, s.ids, oplog.Entry{
		Action: oplog.KeyRevoke, Subject: prefix, Before: oplog.Fields{"state": "works"}, After: oplog.Fields{"state": "revoked"},
	})
	return wrap(s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		revoked, err := revokeKey(ctx, tx, prefix, now)
		if revoked != 0 { // one that had ended before was not ended again
			entry.Account = revoked
			entry.Write(ctx, tx)
		}
		return err
	}))
}

// RevokeKeyOf is [Service.RevokeKey] for the people of an account, for whom the keys of others do not exist.
func (s *Service) RevokeKeyOf(ctx context.Context, account id.Account, prefix string) error {
	err := sqldb.ErrNoRows
	if isPrefix(prefix) {
		_, err = sqldb.One(ctx, s.db, sqldb.Scalar[string], selectOwnKeySQL, prefix, account)
	}
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return wrap(refuse(fault.NotFound, "no such key"))
	case err != nil:
		return wrap(err)
	}
	return s.RevokeKey(ctx, prefix)
}

// draw runs f until what it drew is not taken.
func draw(f func() error) error {
	var err error
	for range drawsMax {
		if err = f(); !errors.Is(err, errTaken) {
			return err
		}
	}
	return err
}

// now returns business time as it is stored.
func (s *Service) now() time.Time { return s.clock.Now().Truncate(time.Microsecond) }

// wrap puts the package's name before err.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("account: %w", err)
}
