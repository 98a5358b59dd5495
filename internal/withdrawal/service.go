package withdrawal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Services are what withdrawals stand on.
type Services struct {
	DB          *sqldb.DB
	Clock       *clock.Clock
	IDs         *id.Generator
	Ledger      *ledger.Ledger
	Once        *idempotency.Engine
	Events      *event.Log
	Provider    chain.Payer
	CallbackURL func() string // where the provider sends notifications; "" while nobody can
	Log         *slog.Logger
	Render      func(*Withdrawal) ([]byte, error) // the withdrawal as an event shows it
}

// Service creates withdrawals and follows them.
type Service struct {
	Services
	hints *inquiry.Hints[hint] // notifications that wait to be looked up
}

// New returns the service.
func New(s Services) *Service {
	return &Service{Services: s, hints: inquiry.NewHints[hint](s.Clock, s.Log)}
}

// Request asks for a withdrawal. At least one of Key and ExternalID is not empty.
type Request struct {
	Account    account.Account
	Key        string   // Idempotency-Key; "" for none
	Hash       [32]byte // of the body, by meaning
	Amount     money.USDT
	Coin       chain.Coin     // one of those that are sent
	Address    string         // in the form that address.Check returns
	ExtraID    string         // "" for none
	ExternalID string         // "" for none
	Origin     account.Origin // "" means the API
}

// creationTimeMax is how long a whole creation may take, in real time, whatever the provider does.
const creationTimeMax = 15 * time.Second

// Create makes the withdrawal and has the provider asked once to send it, or returns the one that its key or its
// external_id made before, as it stands.
func (s *Service) Create(ctx context.Context, r Request) (Withdrawal, idempotency.Outcome, error) {
	return idempotency.Do(ctx, s.Once, idempotency.Request{
		Policy: idempotency.Crypto, Account: r.Account.ID, Route: "POST /crypto/payouts", Key: r.Key, Hash: r.Hash,
		Kind: "crypto_payout", ExternalID: r.ExternalID,
	}, func(ctx context.Context) (idempotency.Found[Withdrawal], error) {
		return s.claimed(ctx, &r)
	}, func(ctx context.Context, claim idempotency.Claim) (Withdrawal, error) {
		return s.create(ctx, &r, claim)
	})
}

// claimed finds what holds the request's key and what holds its external_id.
func (s *Service) claimed(ctx context.Context, r *Request) (found idempotency.Found[Withdrawal], err error) {
	rows, err := sqldb.All(ctx, s.DB, scanWithdrawal, selectClaimed, int64(r.Account.ID), r.Key, r.ExternalID)
	for _, w := range rows {
		stored := &idempotency.Stored[Withdrawal]{
			Resource: w, Hash: w.hash, KeyAt: w.CreatedAt(),
			SameMaterial: w.Amount == r.Amount && w.Currency == r.Coin.Code && w.Address == r.Address && w.ExtraID == r.ExtraID,
		}
		if r.Key != "" && w.key == r.Key {
			found.ByKey = stored
		}
		if r.ExternalID != "" && w.ExternalID == r.ExternalID {
			found.ByExternalID = stored
		}
	}
	return found, err
}

// create holds the money and has it sent.
func (s *Service) create(ctx context.Context, r *Request, claim idempotency.Claim) (Withdrawal, error) {
	began := s.Clock.Real()
	settings := r.Account.Settings
	for _, err := range []error{
		settings.Permit(account.CreateCryptoPayout), settings.PermitUSDT(r.Amount), permitAmount(r.Amount),
	} {
		if err != nil {
			return Withdrawal{}, err
		}
	}
	asking, cancel := context.WithTimeout(ctx, creationTimeMax)
	defer cancel()
	f := feeOf(settings.CryptoOutFee, r.Coin, r.Amount)
	worth, err := s.appraise(asking, r)
	if err != nil {
		return Withdrawal{}, s.refuse(ctx, r, f, err)
	}
	w := Withdrawal{
		Account: r.Account.ID, ExternalID: r.ExternalID, Status: Processing, Currency: r.Coin.Code, Address: r.Address, ExtraID: r.ExtraID,
		Amount: r.Amount, Fee: f.whole, ConversionFee: f.conversion, Coins: worth.Coins, Origin: cmp.Or(r.Origin, account.OriginAPI), Provider: s.Provider.Name(), Sends: 1,
		key: r.Key, hash: r.Hash,
	}
	if err := s.hold(ctx, &w, claim); err != nil {
		return Withdrawal{}, err
	}
	// From here on it is the account's money that is at stake, and not the caller's patience.
	ctx = context.WithoutCancel(ctx)
	sending, cancelSending := context.WithTimeout(ctx, creationTimeMax-s.Clock.RealSince(began))
	defer cancelSending()
	s.dispatch(ctx, sending, &w)
	return w, nil
}

// permitAmount refuses what is less than anybody may withdraw, whatever the network would take.
func permitAmount(amount money.USDT) error {
	if amount >= chain.WithdrawalMin {
		return nil
	}
	return fault.New(fault.Unprocessable, "below_minimum", fmt.Sprintf("the amount must be at least %s USDT", chain.WithdrawalMin))
}

// firstCheck is when a withdrawal is looked up that nobody was told about: after its creation has ended, however slow.
const firstCheck = 20 * time.Second

var (
	errInsufficient = fault.New(fault.Unprocessable, "insufficient_balance", "the USDT balance does not cover the amount and its fee")
	errUnwritten    = fault.New(fault.Unavailable, "", "it is not known whether the withdrawal was stored: repeat the same request")
)

// refuse says why a withdrawal cannot be made. That the provider cannot be asked comes last: whoever lacks the money is told
// that, and need not come again.
func (s *Service) refuse(ctx context.Context, r *Request, f fee, cause error) error {
	if fault.As(cause).Kind == fault.Unprocessable {
		return cause
	}
	b, err := ledger.Balances(ctx, s.DB, r.Account.ID, money.CurrencyUSDT)
	if err == nil && b.Available < int64(r.Amount+f.whole) {
		return errInsufficient
	}
	return cause
}

// hold stores the withdrawal with its money held, before anybody is asked to send it: the next moment may be our last.
func (s *Service) hold(ctx context.Context, w *Withdrawal, claim idempotency.Claim) error {
	var accepted id.ID
	var entry *oplog.Entry
	if w.Origin == account.OriginManual { // of what came by a key, the key tells who
		entry = oplog.Begin(ctx, s.IDs, oplog.Entry{
			Action: oplog.WithdrawalSend, Account: w.Account,
			After: oplog.Fields{"amount": w.Amount.String(), "fee": w.Fee.String(), "coin": w.Currency},
		})
	}
	err := s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		if w.ID.IsZero() { // kept when the answer to COMMIT is lost, so that the second run meets the first
			w.ID, accepted = s.IDs.New(), s.IDs.New()
			w.SentAt = w.ID.Time()
			w.CheckAt = w.SentAt.Add(firstCheck)
		}
		data, err := s.Render(w)
		if err != nil {
			return err
		}
		if !claim.UnbindBefore.IsZero() {
			tx.Queue(ctx, unbindKey, int64(w.Account), w.key, id.First(claim.UnbindBefore))
		}
		w.insert(ctx, tx.Tx)
		if entry != nil {
			entry.Subject = prefix.Format(w.ID)
			entry.Write(ctx, tx.Tx)
		}
		err = s.Events.Write(ctx, tx.Tx, event.Event{Account: w.Account, ID: accepted, Type: event.CryptoPayoutProcessing, Ref: w.ID, Data: data})
		if err != nil {
			return err
		}
		return tx.Post(ctx, w.hold())
	})
	if errors.Is(err, sqldb.ErrConflict) {
		_, findErr := get(ctx, s.DB, w.Account, w.ID)
		switch {
		case findErr == nil:
			return nil // the first run had committed
		case errors.Is(findErr, sqldb.ErrNoRows):
			return sqldb.ErrConflict
		}
		err = errors.Join(sqldb.ErrCommitUnknown, findErr)
	}
	if errors.Is(err, sqldb.ErrCommitUnknown) { // if it is stored it will be sent, and a repetition finds it
		unwritten := *errUnwritten
		unwritten.Cause = err
		return &unwritten
	}
	if short, ok := errors.AsType[*ledger.InsufficientError](err); ok {
		insufficient := *errInsufficient
		insufficient.Cause = short
		return &insufficient
	}
	return err
}

const prefix = id.CryptoPayout

// ErrNotFound is returned for a withdrawal that the account does not have.
var ErrNotFound = fault.New(fault.NotFound, "", "there is no such crypto payout")

// Get returns a withdrawal by cpo_..., as it is stored.
func (s *Service) Get(ctx context.Context, owner id.Account, ref string) (Withdrawal, error) {
	x, err := prefix.Parse(ref)
	if err != nil {
		return Withdrawal{}, ErrNotFound
	}
	w, err := get(ctx, s.DB, owner, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = ErrNotFound
	}
	return w, err
}

// ErrCursor is returned for a page that starts after a withdrawal that the account does not have.
var ErrCursor = &fault.Error{
	Kind: fault.Unprocessable, Public: "starting_after names no crypto payout of this account",
	Issues: []fault.Issue{{Path: "starting_after", Message: "must be the id of a crypto payout of this account, or a date"}},
}

// Page says which withdrawals are wanted.
type Page struct {
	StartingAfter string    // the id of the last one seen; "" for none
	Before        time.Time // only older ones; zero for none
	Limit         int
}

// List returns an account's withdrawals, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, owner id.Account, p Page) (list []Withdrawal, more bool, err error) {
	border := id.Max
	switch {
	case !p.Before.IsZero():
		border = id.First(p.Before)
	case p.StartingAfter != "":
		x, err := prefix.Parse(p.StartingAfter)
		if err != nil {
			return nil, false, ErrCursor
		}
		switch known, err := exists(ctx, s.DB, owner, x); {
		case err != nil:
			return nil, false, err
		case !known:
			return nil, false, ErrCursor
		}
		border = x
	}
	list, err = before(ctx, s.DB, owner, border, p.Limit+1)
	if err != nil {
		return nil, false, err
	}
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, nil
}
