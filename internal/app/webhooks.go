package app

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// sealFile is where the key that seals secrets is kept beside a SQLite database.
const sealFile = "seal.key"

// keyring returns what opens and seals secrets, read when it is first needed. The key is the operator's; without one it is
// a file beside a SQLite database, which all processes that use it find; and in a PostgreSQL, which is all that its nodes
// are sure to share, it is kept there.
func (c *Core) keyring() func(context.Context) (*seal.Ring, error) {
	var mu sync.Mutex
	var ring *seal.Ring
	return func(ctx context.Context) (*seal.Ring, error) {
		mu.Lock()
		defer mu.Unlock()
		if ring != nil {
			return ring, nil
		}
		var keys [][]byte
		if c.store.SealKey != "" {
			key, err := seal.ParseKey(c.store.SealKey)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
		own, err := c.ownKey(ctx, len(keys) == 0)
		if err != nil {
			return nil, err
		}
		if own != nil {
			keys = append(keys, own) // it opens what was sealed before the operator gave one
		}
		ring, err = seal.New(keys[0], keys[1:]...)
		return ring, err
	}
}

// ownKey returns the key that no operator gave, or nil when there is none and none is to be made.
func (c *Core) ownKey(ctx context.Context, create bool) ([]byte, error) {
	if path := c.store.SQLitePath(); path != "" {
		if !create {
			return seal.FindKey(filepath.Join(filepath.Dir(path), sealFile))
		}
		return seal.LoadKey(filepath.Join(filepath.Dir(path), sealFile), c.random)
	}
	if !create {
		return webhook.FindSealKey(ctx, c.DB)
	}
	return webhook.LoadSealKey(ctx, c.DB, c.random)
}

// SealedInside reports whether the key that seals secrets is kept in the same database as they are.
func (c *Core) SealedInside() bool { return c.store.SealKey == "" && c.DB.IsPostgres() }

// Webhooks returns the service of webhooks for a command: it registers and looks, and sends nothing.
func (c *Core) Webhooks(ctx context.Context) (*webhook.Service, error) {
	named, err := c.store.Acquirers()
	if err != nil {
		return nil, err
	}
	s, err := c.webhooks(nil, len(named) == 0, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	_, err = s.Refresh(ctx)
	return s, err
}

// webhooks returns the service of webhooks, of a node or of none.
func (c *Core) webhooks(n *node.Node, simulated bool, log *slog.Logger, observe func(webhook.Outcome)) (*webhook.Service, error) {
	rules, err := c.store.Webhooks()
	if err != nil {
		return nil, err
	}
	return webhook.New(webhook.Services{
		DB: c.DB, Clock: c.Clock, IDs: c.IDs, Random: c.random, Accounts: c.Accounts, Ring: c.ring, Node: n, Log: log, Observe: observe,
		Settings: webhook.Settings{
			Timeout: rules.Timeout, Waits: rules.RetryWaits, Keep: rules.Keep,
			Targets:   webhook.Targets{Simulated: simulated, Networks: rules.AllowNetworks},
			Transport: c.network,
		},
	}), nil
}

// webhookLoops are what deliveries need to be kept up.
func webhookLoops(s *webhook.Service) []loop {
	send := func(pool webhook.Pool) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) { return s.Send(ctx, pool) }
	}
	return []loop{
		{name: "due deliveries", every: 200 * time.Millisecond, step: s.Find},
		{name: "quick senders", every: time.Minute, step: send(webhook.Quick), workers: webhook.QuickSenders, wake: s.Wake(webhook.Quick)},
		{name: "slow senders", every: time.Minute, step: send(webhook.Slow), workers: webhook.SlowSenders, wake: s.Wake(webhook.Slow)},
		{name: "delivery results", every: 50 * time.Millisecond, step: s.Store, wake: s.WakeStore()},
		{name: "delivery lanes", every: 250 * time.Millisecond, step: s.Settle},
		{name: "old events", every: time.Minute, step: s.Prune},
	}
}

// Listening is told what a listener does.
type Listening struct {
	Ready  func(secret string)       // once, before the first event
	Told   func(f webhook.Forwarded) // of every event
	Failed func(err error)           // when the database does not answer; it goes on
}

const (
	listenEvery   = 300 * time.Millisecond
	listenWaitMax = 10 * time.Second // between tries where nobody answers
)

// Listen forwards an account's events to a URL until ctx ends.
func Listen(ctx context.Context, core *Core, store config.Store, owner id.Account, url string, told Listening) error {
	l, err := webhook.NewListener(ctx, core.Feed, core.Clock, rand.Reader, store.Data, owner, url)
	if err != nil {
		return err
	}
	told.Ready(l.Secret())
	wait := listenEvery
	for ctx.Err() == nil {
		unanswered := false
		more, err := l.Step(ctx, func(f webhook.Forwarded) {
			unanswered = f.Err != nil
			told.Told(f)
		})
		if err != nil && ctx.Err() == nil {
			told.Failed(err)
		}
		if err == nil && !unanswered {
			wait = listenEvery
		} else {
			wait = min(2*wait, listenWaitMax)
		}
		if !more {
			_ = core.Clock.Wait(ctx, wait) // it ends with ctx, which the loop looks at
		}
	}
	return nil
}
