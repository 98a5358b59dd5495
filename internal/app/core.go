// Package app wires everything, starts and stops it in order, and owns every loop. It is the only package that knows all
// others.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/quote"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/switchboard"
	"github.com/ponte-pay/ponte/internal/user"
	"github.com/ponte-pay/ponte/internal/webhook"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Core is what every command works with.
type Core struct {
	DB       *sqldb.DB
	Clock    *clock.Clock
	IDs      *id.Generator
	Ledger   *ledger.Ledger
	Accounts *account.Service
	Feed     *event.Feed
	Switches *switchboard.Service
	Users    *user.Service

	store   config.Store
	random  io.Reader         // of everything that must not be guessed
	network http.RoundTripper // replaces all connections to others; nil means those
	ring    func(context.Context) (*seal.Ring, error)
	release func() // lets another server have the database
}

// Opening says what may be done to a database on the way in.
type Opening int

const (
	Existing Opening = iota // it must be there, with the tables that this binary knows
	Creating                // it is made where there is none, and must otherwise be up to date
	Updating                // it is made or brought up to date
	Serving                 // the same, by the only server of a SQLite file
)

// ErrNoDatabase is returned where a database has to exist and does not.
var ErrNoDatabase = errors.New("there is no database yet: run ponte serve or ponte migrate first")

// Open opens the database and what stands on it.
func Open(ctx context.Context, store config.Store, how Opening) (*Core, error) {
	db, err := openDatabase(ctx, store, how)
	if err != nil {
		return nil, err
	}
	release := func() {}
	if how == Serving { // before anything is changed under another server
		if release, err = db.Claim(); err != nil {
			db.Close()
			return nil, fmt.Errorf("%s: %w", store.Redacted(), err)
		}
	}
	c, err := open(ctx, db, how)
	if err != nil {
		release()
		db.Close()
		return nil, err
	}
	c.release = release
	c.store = store
	c.sealWith(c.keyring())
	return c, nil
}

// sealWith says what secrets are sealed with, and makes what has such.
func (c *Core) sealWith(ring func(context.Context) (*seal.Ring, error)) {
	c.ring = ring
	c.Users = user.New(user.Services{DB: c.DB, Clock: c.Clock, IDs: c.IDs, Random: c.random, Ring: ring})
}

func openDatabase(ctx context.Context, store config.Store, how Opening) (*sqldb.DB, error) {
	if path := store.SQLitePath(); path != "" {
		_, err := os.Stat(path)
		missing := errors.Is(err, fs.ErrNotExist)
		if missing && how == Existing {
			return nil, fmt.Errorf("%s: %w", path, ErrNoDatabase)
		}
		if missing {
			// Money and keys: nobody else on this machine reads them.
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, err
			}
			file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				return nil, err
			}
			_ = file.Close() // SQLite fills it and gives its companions the same rights
		}
	}
	db, err := sqldb.Open(ctx, store.URL())
	if err != nil {
		return nil, fmt.Errorf("--database %q: %w", store.Redacted(), err)
	}
	return db, nil
}

func open(ctx context.Context, db *sqldb.DB, how Opening) (*Core, error) {
	c := clock.New(nil)
	err := schema.Check(ctx, db)
	migrate := (how == Updating || how == Serving) && (errors.Is(err, schema.ErrEmpty) || errors.Is(err, schema.ErrBehind))
	if migrate || (how == Creating && errors.Is(err, schema.ErrEmpty)) {
		_, err = schema.Migrate(ctx, db, c.Real())
	}
	if err != nil {
		return nil, err
	}
	if err := node.LoadClock(ctx, db, c); err != nil {
		return nil, err
	}
	// What a command writes is dated by this machine. A server waits until it is ready instead.
	if _, err := node.Skew(ctx, db, c); err != nil && how != Serving {
		return nil, err
	}
	return newCore(db, c, rand.Reader), nil
}

func newCore(db *sqldb.DB, c *clock.Clock, random io.Reader) *Core {
	ids := id.NewGenerator(c.Now, random)
	return &Core{
		DB: db, Clock: c, IDs: ids, random: random,
		Ledger:   ledger.New(db, ids, c),
		Accounts: account.New(db, c, random),
		Feed:     event.NewFeed(db),
		Switches: &switchboard.Service{DB: db, Clock: c, IDs: ids},
	}
}

// SchemaVersion returns which version the database's tables have.
func (c *Core) SchemaVersion(ctx context.Context) (int64, error) { return schema.Version(ctx, c.DB) }

// Close closes the database.
func (c *Core) Close() {
	c.DB.Close()
	c.release()
}

// ClockSkew returns how far this machine's clock is ahead of the database's, and an error when that is too far to serve.
func (c *Core) ClockSkew(ctx context.Context) (time.Duration, error) {
	return node.Skew(ctx, c.DB, c.Clock)
}

// charges returns the service of charges at a bank.
func (c *Core) charges(bank *Bank, once *idempotency.Engine, hooks *webhook.Service, log *slog.Logger, heard func(string, charge.Verdict)) *charge.Service {
	return charge.New(charge.Services{
		DB: c.DB, Clock: c.Clock, IDs: c.IDs, Ledger: c.Ledger, Accounts: c.Accounts, Once: once,
		Router: bank.Router, Log: log, Render: api.RenderCharge, Heard: heard, Events: event.NewLog(hooks), Postback: hooks.PermitPostback,
	})
}

// payouts returns the service of payouts at a bank.
func (c *Core) payouts(bank *Bank, once *idempotency.Engine, hooks *webhook.Service, log *slog.Logger) *payout.Service {
	return payout.New(payout.Services{
		DB: c.DB, Clock: c.Clock, IDs: c.IDs, Ledger: c.Ledger, Once: once, Router: bank.Router, Log: log, Render: api.RenderPayout,
		Events: event.NewLog(hooks), Postback: hooks.PermitPostback,
	})
}

// infractions returns the service of infractions at a bank.
func (c *Core) infractions(bank *Bank, charges *charge.Service, log *slog.Logger) *infraction.Service {
	return infraction.New(infraction.Services{
		DB: c.DB, Clock: c.Clock, IDs: c.IDs, Charges: charges, Router: bank.Router, Log: log,
	})
}

// CountConcerns counts the infractions and defenses that operators must look at.
func (c *Core) CountConcerns(ctx context.Context) (infraction.Concern, error) {
	return infraction.CountConcerns(ctx, c.DB, c.Clock.Now())
}

// deposits returns the service of deposits at a provider.
func (c *Core) deposits(at *Chain, once *idempotency.Engine, hooks *webhook.Service, log *slog.Logger, heard func(string, deposit.Verdict)) *deposit.Service {
	return deposit.New(deposit.Services{
		DB: c.DB, Clock: c.Clock, IDs: c.IDs, Ledger: c.Ledger, Accounts: c.Accounts, Once: once, Provider: at.Provider,
		CallbackURL: at.CallbackURL, Events: event.NewLog(hooks), Log: log, Render: api.RenderCryptoCharge, Heard: heard,
	})
}

// withdrawals returns the service of withdrawals at a provider.
func (c *Core) withdrawals(at *Chain, once *idempotency.Engine, hooks *webhook.Service, log *slog.Logger) *withdrawal.Service {
	return withdrawal.New(withdrawal.Services{
		DB: c.DB, Clock: c.Clock, IDs: c.IDs, Ledger: c.Ledger, Once: once, Events: event.NewLog(hooks), Provider: at.Provider, CallbackURL: at.CallbackURL, Log: log,
		Render: api.RenderCryptoPayout,
	})
}

// quotes returns the service of quotes at a provider.
func (c *Core) quotes(at *Chain, log *slog.Logger) *quote.Service {
	return &quote.Service{Provider: at.Provider, Rates: quote.NewRates(c.Clock, log, at.Sources...), IDs: c.IDs}
}

// ListDoubts returns the payouts of which nobody knows whether they were sent.
func (c *Core) ListDoubts(ctx context.Context) ([]payout.Payout, error) {
	return payout.ListDoubts(ctx, c.DB)
}

// CountDoubts adds up the money of which nobody knows whether it left.
func (c *Core) CountDoubts(ctx context.Context) (payout.Doubt, error) {
	return payout.CountDoubts(ctx, c.DB)
}

// ListCryptoDoubts returns the withdrawals of which nobody knows whether they were sent.
func (c *Core) ListCryptoDoubts(ctx context.Context) ([]withdrawal.Withdrawal, error) {
	return withdrawal.ListDoubts(ctx, c.DB)
}

// CountCryptoDoubts adds up the money of withdrawals of which nobody knows whether it left.
func (c *Core) CountCryptoDoubts(ctx context.Context) (withdrawal.Doubt, error) {
	return withdrawal.CountDoubts(ctx, c.DB)
}

// reviewAgeMax is how long operators are told of what happened to a deposit after its end. Business time.
const reviewAgeMax = 7 * 24 * time.Hour

// ListDepositReviews returns the deposits of the last week that an operator should look at, the latest first.
func (c *Core) ListDepositReviews(ctx context.Context) ([]deposit.Deposit, error) {
	return deposit.ListReviews(ctx, c.DB, c.Clock.Now().Add(-reviewAgeMax))
}

// CountStuckDeposits returns how many deposits have coins that their provider has not settled.
func (c *Core) CountStuckDeposits(ctx context.Context) (int64, error) {
	return deposit.CountStuck(ctx, c.DB)
}

// ListUnmatchedDeposits returns the payments at the crypto provider that belong to no deposit and wait to be looked at.
func (c *Core) ListUnmatchedDeposits(ctx context.Context) ([]deposit.Unmatched, error) {
	return deposit.ListUnmatched(ctx, c.DB)
}

// DismissUnmatchedDeposit notes why nothing more is to be done about such a payment.
func (c *Core) DismissUnmatchedDeposit(ctx context.Context, payment, why string) error {
	return deposit.DismissUnmatched(ctx, c.DB, c.IDs, payment, why)
}

// CountUnmatchedDeposits returns how many payments at the crypto provider belong to no deposit.
func (c *Core) CountUnmatchedDeposits(ctx context.Context) (int64, error) {
	return deposit.CountUnmatched(ctx, c.DB)
}
