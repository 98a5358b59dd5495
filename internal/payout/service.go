package payout

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
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
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Services are what payouts stand on.
type Services struct {
	DB     *sqldb.DB
	Clock  *clock.Clock
	IDs    *id.Generator
	Ledger *ledger.Ledger
	Once   *idempotency.Engine
	Router *acquirer.Router
	Events *event.Log
	Log    *slog.Logger
	Render func(*Payout) ([]byte, error) // the payout as an event shows it
	// Postback refuses a URL that is not an active endpoint of the account; "" is none.
	Postback func(ctx context.Context, account id.Account, url string) error
}

// Service creates payouts and follows them.
type Service struct {
	Services
	limits   limits
	looks    inquiry.Looks                // questions to acquirers
	stuck    inquiry.Stuck                // payouts that cannot be followed
	settled  inquiry.Memory               // payouts that need no second look
	hints    *inquiry.Hints[hint]         // notifications that wait to be looked up
	recent   inquiry.Recent[string, sent] // payouts that were just sent from here
	together *inquiry.Together            // many questions at once
}

// recentMax is how many payouts are remembered that were sent from here, twice. Few of them are at a time, because each is
// forgotten when it is told of, within seconds; but with less room than are sent in those seconds, each would be read and
// asked for.
const recentMax = 10_000

// limits are real times of a creation, from its beginning; tests shorten them.
type limits struct {
	hold time.Duration // until which its money must be held: later, there would be no time to send it
	send time.Duration // until which acquirers are asked
}

// New returns the service.
func New(s Services) *Service {
	return &Service{
		Services: s, limits: limits{hold: acquirer.CreationTimeMax - acquirer.TryTimeMax, send: acquirer.CreationTimeMax},
		hints: inquiry.NewHints[hint](s.Clock, s.Log), together: &inquiry.Together{Clock: s.Clock, Log: s.Log},
		recent: inquiry.Recent[string, sent]{Max: recentMax},
	}
}

// Request asks for a payout.
type Request struct {
	Account           account.Account
	Key               string   // Idempotency-Key; "" for none
	Hash              [32]byte // of the body, by meaning
	Amount            money.BRL
	PixKey            pix.Key
	ExternalID        string
	RecipientName     string
	RecipientDocument string
	Description       string
	PostbackURL       string
	Origin            account.Origin // "" means the API
}

const claimKind = "payout" // whose external_ids are claimed

var errNobody = fault.New(fault.Provider, "", "no acquirer can send payouts now; nothing was stored, please repeat the request")

// Create makes the payout and has it sent, or returns the one that its key or its external_id made before. What it returns
// is processing or failed. It fails with [fault.Ambiguous] when the payout exists and nobody knows whether its money left.
func (s *Service) Create(ctx context.Context, r Request) (Payout, idempotency.Outcome, error) {
	began := s.Clock.Real()
	// A crowd before one balance, or a slow database, must not keep the caller waiting for longer than acquirers may.
	ctx, cancel := clock.Within(ctx, s.limits.hold)
	defer cancel()
	p, outcome, err := idempotency.Do(ctx, s.Once, idempotency.Request{
		Policy: idempotency.Pix, Account: r.Account.ID, Route: "POST /payouts", Find: "GET /payouts/ext:", Key: r.Key, Hash: r.Hash,
		Kind: claimKind, ExternalID: r.ExternalID, Any: selectAnyClaim,
	}, func(ctx context.Context) (idempotency.Found[Payout], error) {
		return s.claimed(ctx, &r)
	}, func(ctx context.Context, claim idempotency.Claim) (Payout, error) {
		return s.create(ctx, &r, claim, began)
	})
	switch {
	case outcome != idempotency.Replayed:
	case p.answer == toldUnknown:
		outcome = idempotency.Repeated // nothing was told that could be told again
	default:
		p = p.AsCreated()
	}
	return p, outcome, err
}

// claimed finds what holds the request's key and what holds its external_id. Most requests have no key.
func (s *Service) claimed(ctx context.Context, r *Request) (found idempotency.Found[Payout], err error) {
	var rows []Payout
	if r.Key == "" {
		rows, err = sqldb.All(ctx, s.DB, scanPayout, selectPayoutByExternal, int64(r.Account.ID), r.ExternalID)
	} else {
		rows, err = sqldb.All(ctx, s.DB, scanPayout, selectClaimed, int64(r.Account.ID), r.Key, r.ExternalID)
	}
	for _, p := range rows {
		stored := &idempotency.Stored[Payout]{
			Resource: p, Hash: p.hash, KeyAt: p.CreatedAt(), SameMaterial: p.Amount == r.Amount && p.Key == r.PixKey.Value,
		}
		if r.Key != "" && p.key == r.Key {
			found.ByKey = stored
		}
		if p.ExternalID == r.ExternalID {
			found.ByExternalID = stored
		}
	}
	return found, err
}

// create holds the money and has it sent, for a request that began at a moment of real time.
func (s *Service) create(ctx context.Context, r *Request, claim idempotency.Claim, began time.Time) (Payout, error) {
	settings := r.Account.Settings
	for _, err := range []error{
		settings.Permit(account.CreatePayout), settings.PermitBRL(r.Amount), s.Postback(ctx, r.Account.ID, r.PostbackURL),
	} {
		if err != nil {
			return Payout{}, err
		}
	}
	p := Payout{
		Account: r.Account.ID, ExternalID: r.ExternalID, Status: Processing, Amount: r.Amount,
		Fee: money.BRL(settings.CashOutFee.Of(r.Amount.Amount()).Units), Key: r.PixKey.Value,
		RecipientName: r.RecipientName, RecipientDocument: r.RecipientDocument, Description: r.Description, PostbackURL: r.PostbackURL,
		Origin: cmp.Or(r.Origin, account.OriginAPI), Sends: 1, Routing: "[]", key: r.Key, hash: r.Hash, answer: toldProcessing,
	}
	plan := s.Router.PlanPayout()
	defer plan.Close()
	turn, ok := plan.Next()
	if !ok {
		return Payout{}, s.refuseUnasked(ctx, &p, settings.CashOutFee)
	}
	p.Acquirer = turn.Acquirer
	if err := p.pass(plan.Passed()); err != nil {
		return Payout{}, err
	}
	if err := s.hold(ctx, &p, claim, s.limits.hold-s.Clock.RealSince(began)); err != nil {
		return Payout{}, insufficient(&p, settings.CashOutFee, err)
	}
	// From here on it is the account's money that is at stake, and not the caller's patience.
	ctx = context.WithoutCancel(ctx)
	sending, cancel := clock.Within(ctx, s.limits.send-s.Clock.RealSince(began))
	defer cancel()
	d := dispatch{Service: s, payout: &p, plan: plan, turn: turn}
	err := d.run(ctx, sending)
	if err == nil && p.Status == Processing {
		s.recent.Add(p.Name(), sent{p, d.asked})
	}
	return p, err
}

// refuseUnasked says that nobody can be asked to send a payout, unless its money is not there either.
func (s *Service) refuseUnasked(ctx context.Context, p *Payout, fee money.Fee) error {
	b, err := ledger.Balances(ctx, s.DB, p.Account, money.CurrencyBRL)
	switch {
	case err != nil:
		return err
	case b.Available < int64(p.Gross()):
		return insufficient(p, fee, &ledger.InsufficientError{
			Book: ledger.Available, Balance: money.BRL(b.Available).Amount(), Need: p.Gross().Amount(),
		})
	}
	return errNobody
}

// Shortage is what the caller is told when the balance does not cover a payout and its fee.
type Shortage struct {
	MaxWithdrawable money.BRL // the most that could be sent now with its fee; 0 when that is less than a payout may be
	Requested       money.BRL
	Available       money.BRL // may be below zero
	Fee             money.BRL
	Total           money.BRL // what would leave the balance
	Missing         money.BRL
}

// insufficient turns the ledger's refusal into the caller's.
func insufficient(p *Payout, fee money.Fee, err error) error {
	short, ok := errors.AsType[*ledger.InsufficientError](err)
	if !ok {
		return err
	}
	available := money.BRL(short.Balance.Units)
	most := money.BRL(fee.Within(available.Amount()).Units)
	if most < AmountMin {
		most = 0
	}
	return &fault.Error{
		Kind: fault.Insufficient, Code: "insufficient_balance_for_fees",
		Public: "the balance does not cover the amount and its fee", Cause: err,
		Details: Shortage{
			MaxWithdrawable: most, Requested: p.Amount, Available: available, Fee: p.Fee, Total: p.Gross(), Missing: p.Gross() - available,
		},
	}
}

// firstCheck is when a payout is looked up that nobody was told about: after its creation has ended, however slow.
const firstCheck = 20 * time.Second

// hold stores the payout with its money held, before anybody is asked to send it: the next moment may be our last. It takes
// no longer than limit.
func (s *Service) hold(ctx context.Context, p *Payout, claim idempotency.Claim, limit time.Duration) error {
	var created id.ID
	var entry *oplog.Entry
	if p.Origin == account.OriginManual { // of what came by a key, the key tells who
		entry = oplog.Begin(ctx, s.IDs, oplog.Entry{
			Action: oplog.PayoutSend, Account: p.Account, After: oplog.Fields{"amount": p.Amount.String(), "fee": p.Fee.String()},
		})
	}
	err := s.Ledger.WriteWithin(ctx, limit, func(ctx context.Context, tx *ledger.Tx) error {
		if p.ID.IsZero() { // kept when the answer to COMMIT is lost, so that the second run meets the first
			p.ID, created = s.IDs.New(), s.IDs.New()
			p.SentAt = p.ID.Time()
			p.CheckAt = p.SentAt.Add(firstCheck)
		}
		data, err := s.Render(p)
		if err != nil {
			return err
		}
		if !claim.UnbindBefore.IsZero() {
			tx.Queue(ctx, unbindKey, int64(p.Account), p.key, id.First(claim.UnbindBefore))
		}
		p.insert(ctx, tx.Tx)
		if entry != nil {
			entry.Subject = prefix.Format(p.ID)
			entry.Write(ctx, tx.Tx)
		}
		err = s.Events.Write(ctx, tx.Tx, event.Event{
			Account: p.Account, ID: created, Type: event.PayoutCreated, Ref: p.ID, Data: data, Postback: p.PostbackURL,
		})
		if err != nil {
			return err
		}
		return tx.Post(ctx, p.hold())
	})
	if errors.Is(err, sqldb.ErrConflict) {
		_, findErr := get(ctx, s.DB, p.Account, p.ID)
		switch {
		case findErr == nil:
			return nil // the first run had committed
		case errors.Is(findErr, sqldb.ErrNoRows):
			return sqldb.ErrConflict
		}
		err = errors.Join(sqldb.ErrCommitUnknown, findErr)
	}
	if errors.Is(err, sqldb.ErrCommitUnknown) {
		return ambiguous(p, err) // if it is stored it will be sent
	}
	return err
}

// ambiguous says that a payout may exist or may have been sent.
func ambiguous(p *Payout, cause error) error {
	return &fault.Error{
		Kind: fault.Ambiguous, Cause: cause,
		Public: "it is not known yet whether the payout was sent: do not repeat it, GET /payouts/ext:" + p.ExternalID + " tells",
	}
}

// ErrNotFound is returned for a payout that the account does not have.
var ErrNotFound = fault.New(fault.NotFound, "", "there is no such payout")

const prefix = id.Payout

// Get returns a payout by pyt_..., by its uuid or by ext:<external_id>. One that is processing is first looked up at its
// acquirer; when that is silent, what is stored counts.
func (s *Service) Get(ctx context.Context, owner id.Account, ref string) (Payout, error) {
	p, err := s.find(ctx, owner, ref)
	if err != nil || p.Status != Processing {
		return p, err
	}
	if err := s.Check(ctx, &p); err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "acquirer could not be asked", slog.String("payout", prefix.Format(p.ID)), slog.String("error", err.Error()))
	}
	return get(ctx, s.DB, owner, p.ID) // somebody else may have moved it
}

func (s *Service) find(ctx context.Context, owner id.Account, ref string) (p Payout, err error) {
	if external, ok := strings.CutPrefix(ref, "ext:"); ok {
		p, err = sqldb.One(ctx, s.DB, scanPayout, selectPayoutByExternal, int64(owner), external)
	} else {
		x, notID := prefix.Parse(ref)
		if notID != nil {
			x, notID = id.ParseUUID(ref)
		}
		if notID != nil {
			return p, ErrNotFound
		}
		p, err = get(ctx, s.DB, owner, x)
	}
	if errors.Is(err, sqldb.ErrNoRows) {
		err = ErrNotFound
	}
	return p, err
}

// ErrCursor is returned for a page that starts after a payout that the account does not have.
var ErrCursor = &fault.Error{
	Kind: fault.Invalid, Public: "starting_after names no payout of this account",
	Issues: []fault.Issue{{Path: "starting_after", Message: "must be the id of a payout of this account, or a date"}},
}

// Page says which payouts are wanted.
type Page struct {
	StartingAfter string    // the id of the last one seen; "" for none
	Before        time.Time // only older ones; zero for none
	Limit         int
}

// List returns an account's payouts, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, owner id.Account, p Page) (list []Payout, more bool, err error) {
	border := id.Max
	switch {
	case !p.Before.IsZero():
		border = id.First(p.Before)
	case p.StartingAfter != "":
		x, err := prefix.Parse(p.StartingAfter)
		if err != nil {
			return nil, false, ErrCursor
		}
		switch known, err := Exists(ctx, s.DB, owner, x); {
		case err != nil:
			return nil, false, err
		case !known:
			return nil, false, ErrCursor
		}
		border = x
	}
	list, err = Before(ctx, s.DB, owner, border, p.Limit+1)
	if err != nil {
		return nil, false, err
	}
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, nil
}
