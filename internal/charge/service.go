package charge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/plainjson"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Services are what charges stand on.
type Services struct {
	DB       *sqldb.DB
	Clock    *clock.Clock
	IDs      *id.Generator
	Ledger   *ledger.Ledger
	Accounts *account.Service
	Once     *idempotency.Engine
	Router   *acquirer.Router
	Events   *event.Log
	Log      *slog.Logger
	Render   func(*Charge) ([]byte, error) // the charge as events show it, and as whoever asks is shown a paid one
	// Postback refuses a URL that is not an active endpoint of the account; "" is none.
	Postback func(ctx context.Context, account id.Account, url string) error
	// Heard is told what became of each notification; nil for nobody.
	Heard func(acquirer string, v Verdict)
}

// Service creates charges and follows them.
type Service struct {
	Services
	looks    inquiry.Looks                  // questions to acquirers
	stuck    inquiry.Stuck                  // payments that cannot be followed
	settled  inquiry.Memory                 // payments that need no second look
	hints    *inquiry.Hints[hint]           // notifications that wait to be looked up
	recent   inquiry.Recent[string, Charge] // charges that were just made here
	copies   *copies                        // of paid charges
	keys     keys                           // that charges pay to
	together *inquiry.Together              // many questions at once

	mu   sync.Mutex
	kept map[id.Account]kept // settings read lately
}

// New returns the service.
func New(s Services) *Service {
	if s.Heard == nil {
		s.Heard = func(string, Verdict) {}
	}
	return &Service{
		Services: s, hints: inquiry.NewHints[hint](s.Clock, s.Log), together: &inquiry.Together{Clock: s.Clock, Log: s.Log},
		copies: newCopies(s.DB),
	}
}

// Request asks for a charge.
type Request struct {
	Account       account.Account
	Key           string   // Idempotency-Key
	Hash          [32]byte // of the body, by meaning
	Amount        money.BRL
	Description   string
	PayerName     string
	PayerDocument string
	ExpiresIn     time.Duration
	ExternalID    string
	PostbackURL   string
	Split         account.Split
	Origin        account.Origin // "" means the API
}

// Create makes the charge, or returns the one that its key or its external_id made before.
func (s *Service) Create(ctx context.Context, r Request) (Charge, idempotency.Outcome, error) {
	c, outcome, err := idempotency.Do(ctx, s.Once, idempotency.Request{
		Policy: idempotency.Pix, Account: r.Account.ID, Route: "POST /charges", Find: "GET /charges/ext:", Key: r.Key, Hash: r.Hash,
		Kind: "charge", ExternalID: r.ExternalID, Any: selectAnyClaim,
	}, func(ctx context.Context) (idempotency.Found[Charge], error) {
		return s.claimed(ctx, &r)
	}, func(ctx context.Context, claim idempotency.Claim) (Charge, error) {
		return s.create(ctx, &r, claim)
	})
	if outcome == idempotency.Replayed {
		c = c.AsCreated()
	}
	return c, outcome, err
}

// claimed finds what holds the request's key and what holds its external_id.
func (s *Service) claimed(ctx context.Context, r *Request) (found idempotency.Found[Charge], err error) {
	rows, err := sqldb.All(ctx, s.DB, scanCharge, selectClaimed, int64(r.Account.ID), r.Key, r.ExternalID)
	for _, c := range rows {
		stored := &idempotency.Stored[Charge]{Resource: c, Hash: c.hash, KeyAt: c.CreatedAt(), SameMaterial: c.Amount == r.Amount}
		if r.Key != "" && c.key == r.Key {
			found.ByKey = stored
		}
		if r.ExternalID != "" && c.ExternalID == r.ExternalID {
			found.ByExternalID = stored
		}
	}
	return found, err
}

func (s *Service) create(ctx context.Context, r *Request, claim idempotency.Claim) (Charge, error) {
	settings := r.Account.Settings
	for _, err := range []error{
		settings.Permit(account.CreateCharge), settings.PermitSplit(r.Split), settings.PermitBRL(r.Amount),
	} {
		if err != nil {
			return Charge{}, err
		}
	}
	if err := s.Postback(ctx, r.Account.ID, r.PostbackURL); err != nil {
		return Charge{}, err
	}
	// What is made at an acquirer is stored, also when the caller has gone: its repetition then finds the charge.
	ctx = context.WithoutCancel(ctx)
	// The acquirer's name for it is made before the call, its own identifier inside the transaction: identifiers order
	// lists, and one that waited for an acquirer would appear behind what a reader has already passed.
	txid := id.Token(s.IDs.New(), r.Account.ID)
	at, err := s.Router.CreateCharge(ctx, acquirer.NewCharge{
		TxID: txid, Amount: r.Amount, ExpiresIn: r.ExpiresIn, Description: r.Description,
		PayerName: r.PayerName, PayerDocument: r.PayerDocument,
	})
	if err != nil {
		return Charge{}, err
	}
	c := Charge{
		Account: r.Account.ID, TxID: txid, ExternalID: r.ExternalID, Status: Pending, Amount: r.Amount,
		Description: r.Description, PayerName: r.PayerName, PayerDocument: r.PayerDocument, PostbackURL: r.PostbackURL,
		Origin: cmp.Or(r.Origin, account.OriginAPI), Acquirer: at.Acquirer, Routing: describe(at.Attempts), CopyPaste: at.Charge.CopyPaste, key: r.Key, hash: r.Hash,
	}
	kept, err := s.store(ctx, c, r.ExpiresIn, claim)
	switch {
	case err == nil:
		s.recent.Add(txid, kept)
		s.keys.learn(at.Acquirer, txid, at.Charge.Key)
	case !errors.Is(err, sqldb.ErrCommitUnknown):
		s.Router.Abandon(at.Acquirer, txid) // nobody was shown it
	}
	return kept, err
}

// describe tells operators why a charge is where it is, as JSON.
func describe(attempts []acquirer.Attempt) string {
	to := append(make([]byte, 0, routingBytesUsual), '[')
	for i, a := range attempts {
		if i > 0 {
			to = append(to, ',')
		}
		to = plainjson.AppendMember(to, `{"acquirer":`, a.Acquirer)
		to = plainjson.AppendMember(to, `,"reason":`, string(a.Reason))
		to = plainjson.AppendMember(to, `,"outcome":`, a.Outcome.String())
		if a.Err != nil {
			to = plainjson.AppendOptional(to, `,"error":`, a.Err.Error())
		}
		to = append(plainjson.AppendNumber(to, `,"took_ms":`, a.Took.Milliseconds()), '}')
	}
	return string(append(to, ']'))
}

// routingBytesUsual is what the description of one attempt takes, so that room is made once.
const routingBytesUsual = 128

// store writes the charge and its event in one round trip.
func (s *Service) store(ctx context.Context, c Charge, expiresIn time.Duration, claim idempotency.Claim) (Charge, error) {
	var created id.ID
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if c.ID.IsZero() { // kept when the answer to COMMIT is lost, so that the second run meets the first
			c.ID, created = s.IDs.New(), s.IDs.New()
			c.ExpiresAt = c.ID.Time().Add(expiresIn)
		}
		data, err := s.Render(&c)
		if err != nil {
			return err
		}
		if !claim.UnbindBefore.IsZero() {
			tx.Queue(ctx, unbindKey, int64(c.Account), c.key, id.First(claim.UnbindBefore))
		}
		c.insert(ctx, tx)
		return s.Events.Write(ctx, tx, event.Event{
			Account: c.Account, ID: created, Type: event.ChargeCreated, Ref: c.ID, Data: data, Postback: c.PostbackURL,
		})
	})
	if !errors.Is(err, sqldb.ErrConflict) {
		return c, err
	}
	own, findErr := get(ctx, s.DB, c.Account, c.ID)
	if findErr == nil {
		return own, nil // the first run had committed
	}
	switch {
	case errors.Is(findErr, sqldb.ErrNoRows):
		return Charge{}, sqldb.ErrConflict
	case errors.Is(err, sqldb.ErrCommitUnknown): // it may be ours that is in the way
		findErr = fmt.Errorf("%w: %w", sqldb.ErrCommitUnknown, findErr)
	}
	return Charge{}, findErr
}

// ErrNotFound is returned for a charge that the account does not have.
var ErrNotFound = fault.New(fault.NotFound, "", "there is no such charge")

// Prefix of a charge's identifier.
const prefix = id.Charge

// Get returns a charge by chg_..., by its txid or by ext:<external_id>. One that is pending and not expired is first
// looked up at its acquirer, so that a lost notification does not matter; when the acquirer is silent, what is stored
// counts. Of one that is paid, when its money is released may be a minute old, and nothing else: see copies.go. Others may be
// given the same charge: it is not for changing.
func (s *Service) Get(ctx context.Context, owner id.Account, ref string) (*Charge, error) {
	now, by := s.Clock.Now(), asked{owner, ref}
	kept, seen := s.copies.get(ctx, by, now)
	if kept != nil {
		return kept, nil
	}
	c, err := s.find(ctx, owner, ref)
	switch {
	case err != nil:
		return nil, err
	case c.Status == Paid:
		data, err := s.Render(&c)
		if err != nil {
			return nil, err
		}
		c.shown = string(data)
		return s.copies.keep(by, now, c, seen), nil
	case c.Status != Pending || !now.Before(c.ExpiresAt):
		return &c, nil
	}
	if err := s.Check(ctx, &c); err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "acquirer could not be asked", slog.String("charge", prefix.Format(c.ID)), slog.String("error", err.Error()))
	}
	if c, err = get(ctx, s.DB, owner, c.ID); err != nil { // somebody else may have moved it
		return nil, err
	}
	return &c, nil
}

func (s *Service) find(ctx context.Context, owner id.Account, ref string) (c Charge, err error) {
	external, isExternal := strings.CutPrefix(ref, "ext:")
	x, notID := prefix.Parse(ref)
	switch {
	case isExternal && external == "":
		return c, ErrNotFound
	case isExternal:
		c, err = sqldb.One(ctx, s.DB, scanCharge, selectChargeByExternal, int64(owner), external)
	case notID == nil:
		c, err = get(ctx, s.DB, owner, x)
	default:
		if token, account, err := id.ParseToken(ref); err == nil {
			ref = id.Token(token, account) // in the case that is stored
		}
		c, err = sqldb.One(ctx, s.DB, scanCharge, selectChargeByTxID, int64(owner), ref)
	}
	if errors.Is(err, sqldb.ErrNoRows) {
		err = ErrNotFound
	}
	return c, err
}

// ErrCursor is returned for a page that starts after a charge that the account does not have.
var ErrCursor = &fault.Error{
	Kind: fault.Invalid, Public: "starting_after names no charge of this account",
	Issues: []fault.Issue{{Path: "starting_after", Message: "must be the id of a charge of this account, or a date"}},
}

// Page says which charges are wanted.
type Page struct {
	StartingAfter string    // the id of the last one seen; "" for none
	Before        time.Time // only older ones; zero for none
	Limit         int
}

// List returns an account's charges, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, owner id.Account, p Page) (list []Charge, more bool, err error) {
	border := id.Max
	switch {
	case !p.Before.IsZero():
		border = id.First(p.Before)
	case p.StartingAfter != "":
		x, err := prefix.Parse(p.StartingAfter)
		if err != nil {
			return nil, false, ErrCursor
		}
		switch _, err := get(ctx, s.DB, owner, x); {
		case errors.Is(err, sqldb.ErrNoRows):
			return nil, false, ErrCursor
		case err != nil:
			return nil, false, err
		}
		border = x
	}
	list, err = Before(ctx, s.DB, owner, border, p.Limit+1)
	if err != nil {
		return nil, false, err
	}
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, nil
}

// ErrNotPending is returned for a charge that can no longer be cancelled.
var ErrNotPending = fault.New(fault.Conflict, "charge_not_pending", "only a pending charge can be cancelled")

// Cancel removes a pending charge at its acquirer and then here. A payment that came first wins.
func (s *Service) Cancel(ctx context.Context, public string) (Charge, error) {
	c, err := s.Find(ctx, public)
	if err != nil {
		return Charge{}, err
	}
	if c.Status != Pending {
		return c, ErrNotPending
	}
	at, ok := s.Router.Get(c.Acquirer)
	if !ok {
		return c, fmt.Errorf("charge: no acquirer %q is configured", c.Acquirer)
	}
	// Before it is asked for: the acquirer may do it and nobody hear of it.
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.ChargeCancel, Account: c.Account, Subject: public,
		Before: oplog.Fields{"status": string(c.Status)}, After: oplog.Fields{"status": string(Cancelled)},
	})
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { entry.Write(ctx, tx); return nil })
	if err != nil {
		return c, err
	}
	removeErr := at.RemoveCharge(ctx, c.TxID)
	// Whatever the acquirer said, what it shows now is the truth.
	if err := s.Check(ctx, &c); err != nil {
		return c, errors.Join(removeErr, err)
	}
	now, err := get(ctx, s.DB, c.Account, c.ID)
	switch {
	case err != nil, now.Status == Cancelled:
	case now.Status == Pending:
		err = removeErr
	default:
		err = ErrNotPending // somebody was faster
	}
	return now, err
}

// Find returns a charge of any account by chg_... .
func (s *Service) Find(ctx context.Context, public string) (Charge, error) {
	x, err := prefix.Parse(public)
	if err != nil {
		return Charge{}, ErrNotFound
	}
	return s.findAnywhere(ctx, x)
}

// findAnywhere looks for a charge in one account after the other: an operator does not have to know whose it is.
func (s *Service) findAnywhere(ctx context.Context, x id.ID) (Charge, error) {
	var after id.Account
	for {
		accounts, err := s.Accounts.List(ctx, after, account.ListMax)
		if err != nil {
			return Charge{}, err
		}
		if len(accounts) == 0 {
			return Charge{}, ErrNotFound
		}
		for _, a := range accounts {
			after = a.ID
			c, err := get(ctx, s.DB, a.ID, x)
			if !errors.Is(err, sqldb.ErrNoRows) {
				return c, err
			}
		}
	}
}
