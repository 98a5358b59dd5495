package deposit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
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
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Services are what deposits stand on.
type Services struct {
	DB       *sqldb.DB
	Clock    *clock.Clock
	IDs      *id.Generator
	Ledger   *ledger.Ledger
	Accounts *account.Service
	Once     *idempotency.Engine
	Provider chain.Provider
	Events   *event.Log
	Log      *slog.Logger
	Render   func(*Deposit) ([]byte, error) // the deposit as an event shows it

	// CallbackURL returns where the provider sends notifications; "" for nowhere. nil means nowhere.
	CallbackURL func() string

	// Heard is told what became of each notification; nil for nobody.
	Heard func(provider string, v Verdict)
}

// Service creates deposits and follows them.
type Service struct {
	Services
	looks   inquiry.Looks        // questions to the provider
	settled inquiry.Memory       // payments that need no second look
	hints   *inquiry.Hints[hint] // notifications that wait to be looked up

	mu    sync.Mutex
	least map[string]least // smallest prices asked for lately, by coin
}

// New returns the service.
func New(s Services) *Service {
	if s.CallbackURL == nil {
		s.CallbackURL = func() string { return "" }
	}
	if s.Heard == nil {
		s.Heard = func(string, Verdict) {}
	}
	return &Service{Services: s, hints: inquiry.NewHints[hint](s.Clock, s.Log), least: map[string]least{}}
}

// Request asks for a deposit. It has a key or an external_id.
type Request struct {
	Account       account.Account
	Key           string   // Idempotency-Key; "" for none
	Hash          [32]byte // of the body, by meaning
	Price         money.USD
	PayCurrency   string
	ExternalID    string // "" for none
	CustomerID    string
	Description   string
	CustomerEmail string
	Metadata      json.RawMessage // nil for none
}

var errCurrency = fault.New(fault.Unprocessable, "unsupported_currency",
	"pay_currency is no coin that can be deposited now; GET /crypto/currencies?flow=deposit lists those that can")

// Create makes the deposit, or returns the one that its key or its external_id made before as it stands. One that is
// processing has no address yet: the same request asks for it again.
func (s *Service) Create(ctx context.Context, r Request) (Deposit, idempotency.Outcome, error) {
	coin, ok := chain.FindCoin(r.PayCurrency)
	if !ok || !coin.Deposit {
		return Deposit{}, 0, errCurrency
	}
	d, outcome, err := idempotency.Do(ctx, s.Once, idempotency.Request{
		Policy: idempotency.Crypto, Account: r.Account.ID, Route: "POST /crypto/charges", Find: "GET /crypto/charges/ext:", Key: r.Key, Hash: r.Hash,
		Kind: "deposit", ExternalID: r.ExternalID, Any: selectAnyClaim,
	}, func(ctx context.Context) (idempotency.Found[Deposit], error) {
		return s.claimed(ctx, &r)
	}, func(ctx context.Context, claim idempotency.Claim) (Deposit, error) {
		return s.create(ctx, &r, coin, claim)
	})
	if err != nil || outcome == idempotency.Created || d.Status != Processing {
		return d, outcome, err
	}
	if err := s.Check(ctx, &d); err != nil {
		s.warn(ctx, "crypto provider could not be asked for an address", &d, err)
	}
	d, err = get(ctx, s.DB, d.Account, d.ID)
	return d, outcome, err
}

// claimed finds what holds the request's key and what holds its external_id.
func (s *Service) claimed(ctx context.Context, r *Request) (found idempotency.Found[Deposit], err error) {
	rows, err := sqldb.All(ctx, s.DB, scanDeposit, selectClaimed, int64(r.Account.ID), r.Key, r.ExternalID)
	for _, d := range rows {
		stored := &idempotency.Stored[Deposit]{Resource: d, Hash: d.hash, KeyAt: d.CreatedAt(), SameMaterial: d.hash == r.Hash}
		if r.Key != "" && d.key == r.Key {
			found.ByKey = stored
		}
		if r.ExternalID != "" && d.ExternalID == r.ExternalID {
			found.ByExternalID = stored
		}
	}
	return found, err
}

// create stores the deposit and has its address made.
func (s *Service) create(ctx context.Context, r *Request, coin chain.Coin, claim idempotency.Claim) (Deposit, error) {
	settings, price := r.Account.Settings, inUSDT(r.Price)
	for _, err := range []error{settings.Permit(account.CreateCryptoCharge), settings.PermitUSDT(price)} {
		if err != nil {
			return Deposit{}, err
		}
	}
	if err := s.permitPrice(ctx, price, coin); err != nil {
		return Deposit{}, err
	}
	d := Deposit{
		Account: r.Account.ID, ExternalID: r.ExternalID, Status: Processing, Price: r.Price, PayCurrency: r.PayCurrency,
		Description: r.Description, CustomerID: r.CustomerID, CustomerEmail: r.CustomerEmail, Metadata: r.Metadata,
		Provider: s.Provider.Name(), Asks: 1, key: r.Key, hash: r.Hash,
	}
	if err := s.store(ctx, &d, claim); err != nil {
		return Deposit{}, err
	}
	// From here on it exists, and has to come to an end whether its caller waits or not.
	err := s.begin(context.WithoutCancel(ctx), &d)
	return d, err
}

// centUSDT are the units of USDT in a cent's worth of digits.
const centUSDT = 10_000

// inUSDT returns a price in the digits of USDT, as limits that are meant for both are kept.
func inUSDT(price money.USD) money.USDT { return money.USDT(price) * centUSDT }

// firstCheck is when a deposit is looked for that nobody was told about: after its creation has ended, however slow.
const firstCheck = 20 * time.Second

// store writes the deposit before anybody is asked for an address: the provider would make another one each time, and
// only what is stored can be looked for there.
func (s *Service) store(ctx context.Context, d *Deposit, claim idempotency.Claim) error {
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if d.ID.IsZero() { // kept when the answer to COMMIT is lost, so that the second run meets the first
			d.ID = s.IDs.New()
			d.AskedAt = d.ID.Time()
			d.CheckAt = d.AskedAt.Add(firstCheck)
		}
		if !claim.UnbindBefore.IsZero() {
			tx.Queue(ctx, unbindKey, int64(d.Account), d.key, id.First(claim.UnbindBefore))
		}
		d.insert(ctx, tx)
		return nil
	})
	if !errors.Is(err, sqldb.ErrConflict) {
		return err
	}
	switch known, findErr := exists(ctx, s.DB, d.Account, d.ID); {
	case findErr != nil:
		return findErr
	case known:
		return nil // the first run had committed
	}
	return sqldb.ErrConflict
}

// least is the smallest price of a payment in a coin, as its provider told it.
type least struct {
	price  money.USDT // USD, in the digits of USDT
	readAt time.Time  // business time
}

const (
	leastAgeMax  = time.Minute      // of business time; networks change their minds, but not faster
	leastTimeMax = chain.TryTimeMax // of real time
)

// permitPrice returns nil when the price is not below what we and the coin's network take. A provider that does not tell
// is asked for the address all the same: what it says then counts.
func (s *Service) permitPrice(ctx context.Context, price money.USDT, coin chain.Coin) error {
	if floor := coin.DepositFloor(); price < floor {
		return errBelow(floor)
	}
	network, err := s.leastOf(ctx, coin)
	switch {
	case errors.Is(err, chain.ErrCurrencyUnavailable):
		return errCurrency
	case err != nil:
		s.Log.LogAttrs(ctx, slog.LevelWarn, "crypto provider does not tell its minimum", slog.String("currency", coin.Code), slog.String("error", err.Error()))
		return nil
	case price < network:
		return errBelow(network)
	}
	return nil
}

func errBelow(least money.USDT) error {
	text := money.USD((least + centUSDT - 1) / centUSDT).String()
	return &fault.Error{
		Kind: fault.Unprocessable, Code: "below_minimum", Public: "the least in this currency is " + text + " USD now",
		Issues: []fault.Issue{{Path: "amount", Message: "must be at least " + text}},
	}
}

// leastOf returns the smallest price that we and the coin's network take.
func (s *Service) leastOf(ctx context.Context, coin chain.Coin) (money.USDT, error) {
	now := s.Clock.Now()
	s.mu.Lock()
	known, ok := s.least[coin.Code]
	s.mu.Unlock()
	if ok && now.Sub(known.readAt) < leastAgeMax {
		return known.price, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leastTimeMax)
	defer cancel()
	price, err := chain.LeastUSD(ctx, s.Provider, coin)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.least[coin.Code] = least{price, now} // one for each coin of a short table
	return price, nil
}

// ErrNotFound is returned for a deposit that the account does not have.
var ErrNotFound = fault.New(fault.NotFound, "", "there is no such crypto charge")

const prefix = id.CryptoCharge

// Get returns a deposit by ccr_... or by ext:<external_id>. One that is waiting or confirming is first looked up at its
// provider; when that is silent, what is stored counts.
func (s *Service) Get(ctx context.Context, owner id.Account, ref string) (Deposit, error) {
	d, err := s.find(ctx, owner, ref)
	if err != nil || (d.Status != Waiting && d.Status != Confirming) {
		return d, err
	}
	if err := s.Check(ctx, &d); err != nil {
		s.warn(ctx, "crypto provider could not be asked", &d, err)
	}
	return get(ctx, s.DB, owner, d.ID) // somebody else may have moved it
}

// Search returns the deposit that somebody means by an id or an external_id, as it is stored. No provider is asked.
func (s *Service) Search(ctx context.Context, owner id.Account, text string) (Deposit, error) {
	d, err := s.find(ctx, owner, text)
	if errors.Is(err, ErrNotFound) {
		d, err = s.find(ctx, owner, "ext:"+text)
	}
	return d, err
}

// Refunds returns what the provider gave back of a deposit, oldest first.
func Refunds(ctx context.Context, q sqldb.Querier, d *Deposit) ([]ledger.Transfer, error) {
	return ledger.PostedFor(ctx, q, d.Account, kindRefund, d.Provider+" "+d.PaymentID)
}

func (s *Service) find(ctx context.Context, owner id.Account, ref string) (d Deposit, err error) {
	if external, ok := strings.CutPrefix(ref, "ext:"); ok {
		d, err = sqldb.One(ctx, s.DB, scanDeposit, selectDepositByExternal, int64(owner), external)
	} else {
		x, notID := prefix.Parse(ref)
		if notID != nil {
			return d, ErrNotFound
		}
		d, err = get(ctx, s.DB, owner, x)
	}
	if errors.Is(err, sqldb.ErrNoRows) {
		err = ErrNotFound
	}
	return d, err
}

// warn logs what concerns one deposit and is tried again.
func (s *Service) warn(ctx context.Context, what string, d *Deposit, err error) {
	s.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.String("crypto_charge", prefix.Format(d.ID)), slog.String("error", err.Error()))
}

// ErrCursor is returned for a page that starts after a deposit that the account does not have.
var ErrCursor = &fault.Error{
	Kind: fault.Unprocessable, Public: "starting_after names no crypto charge of this account",
	Issues: []fault.Issue{{Path: "starting_after", Message: "must be the id of a crypto charge of this account, or a date"}},
}

// Page says which deposits are wanted.
type Page struct {
	StartingAfter string    // the id of the last one seen; "" for none
	Before        time.Time // only older ones; zero for none
	ExternalID    string    // only with this one; "" for any
	CustomerID    string    // only of this customer; "" for any
	Limit         int
}

// List returns an account's deposits, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, owner id.Account, p Page) (list []Deposit, more bool, err error) {
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
	switch {
	case p.ExternalID != "":
		list, err = sqldb.All(ctx, s.DB, scanDeposit, listDepositsByExternal, int64(owner), p.ExternalID, border, p.Limit+1)
		if len(list) == 1 && p.CustomerID != "" && list[0].CustomerID != p.CustomerID { // there is never a second one
			list = nil
		}
	case p.CustomerID != "":
		list, err = sqldb.All(ctx, s.DB, scanDeposit, listDepositsOfCustomer, int64(owner), p.CustomerID, border, p.Limit+1)
	default:
		list, err = Before(ctx, s.DB, owner, border, p.Limit+1)
	}
	if err != nil {
		return nil, false, err
	}
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, nil
}
