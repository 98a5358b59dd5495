package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	payerHas   = money.BRL(10_000_000_000) // of each account
	chargeGets = money.BRL(1000)           // of each charge
	warmMax    = 2 * time.Second           // before a rate is measured
)

// engine is a database to measure on.
type engine struct {
	name       string
	isPostgres bool
	fresh      func(ctx context.Context, what string) (url string, err error) // makes an empty database
	server     *PostgresServer                                                // nil on SQLite
}

func (r *run) onSQLite(context.Context) (engine, error) {
	fresh := func(_ context.Context, what string) (string, error) {
		return "sqlite:" + r.path(fmt.Sprintf("%s-%d.db", what, r.step.Number)), nil
	}
	return engine{name: "SQLite", fresh: fresh}, nil
}

func (r *run) onPostgres(ctx context.Context) (engine, error) {
	server, err := r.postgres(ctx)
	if err != nil {
		return engine{}, err
	}
	fresh := func(ctx context.Context, what string) (string, error) {
		return r.createDatabase(ctx, server, what)
	}
	return engine{name: "PostgreSQL", isPostgres: true, fresh: fresh, server: server}, nil
}

// stage is a server with a database, a bank in a process of its own and accounts with money.
type stage struct {
	engine   engine
	url      string // of the database
	db       *sqldb.DB
	accounts []payer
	bank     *exec.Cmd
	bankAt   string // host and port
	server   *exec.Cmd
	address  string // host and port
	admin    string // host and port of metrics and profiles
	made     atomic.Int64
}

// payer is an account with money.
type payer struct {
	id  id.Account
	key string
}

// plan says what a stage needs.
type plan struct {
	name     string // of its database
	accounts int
	before   func(s *stage) error // what is done before the server starts; nil for nothing
}

// raise starts all that a stage needs.
func (r *run) raise(ctx context.Context, e engine, p plan) (s *stage, err error) {
	s = &stage{engine: e}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.url, err = e.fresh(ctx, p.name); err != nil {
		return s, err
	}
	if s.db, err = sqldb.Open(ctx, s.url); err != nil {
		return s, err
	}
	if s.accounts, err = newPayers(ctx, s.db, p.accounts); err != nil {
		return s, err
	}
	if p.before != nil {
		if err = p.before(s); err != nil {
			return s, err
		}
	}
	folder, err := os.MkdirTemp(r.folder, p.name+"-")
	if err != nil {
		return s, err
	}
	bank, bankURL, err := r.start(ctx, "simulator", folder)
	if err != nil {
		return s, err
	}
	s.bank, s.bankAt = bank, bankURL[len("http://"):]
	if s.admin, err = freeAddress(ctx); err != nil {
		return s, err
	}
	server, base, err := r.start(ctx, "serve", folder, "--database="+s.url, "--simulator="+bankURL, "--admin-listen="+s.admin)
	if err != nil {
		return s, err
	}
	s.server, s.address = server, base[len("http://"):]
	return s, nil
}

func (s *stage) close() {
	if s.server != nil {
		stop(s.server)
	}
	if s.bank != nil {
		stop(s.bank)
	}
	if s.db != nil {
		s.db.Close()
	}
}

// newPayers makes accounts that may do as much as they like.
func newPayers(ctx context.Context, db *sqldb.DB, count int) (list []payer, err error) {
	c := clock.New(nil)
	if _, err := schema.Migrate(ctx, db, c.Real()); err != nil {
		return nil, err
	}
	accounts := account.New(db, c, rand.Reader)
	books := ledger.New(db, id.NewGenerator(c.Now, rand.Reader), c)
	for range count {
		a, key, err := accounts.Create(ctx, account.Params{Name: "bench"})
		if err == nil {
			_, err = accounts.Set(ctx, a.ID, []string{"rate_limit=1000000"})
		}
		if err == nil {
			_, err = books.Adjust(ctx, a.ID, payerHas.Amount(), "bench")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, payer{a.ID, key})
	}
	return list, nil
}

// createCharge returns the next charge's creation, with a key and an external_id that were never used, on one account after
// the other.
func (s *stage) createCharge() *call {
	n := s.made.Add(1)
	number := strconv.FormatInt(n, 10)
	return &call{
		address: s.address, path: "/v1/charges", key: s.accounts[n%int64(len(s.accounts))].key, once: "bench-key-" + number,
		body: `{"amount":10.00,"external_id":"bench-` + number + `"}`,
	}
}

// payCharge returns what a payer sends to the bank.
func (s *stage) payCharge(txid string) *call {
	return &call{address: s.bankAt, path: "/sim/pix/pay", body: `{"txid":"` + txid + `"}`}
}

// warm sends traffic for a while before it is measured, and then has PostgreSQL gather statistics, as it does by itself
// after a minute and as pgbench does for its tables: without any it plans for empty ones.
func (r *run) warm(ctx context.Context, s *stage, t *traffic) error {
	if _, err := r.hammer(ctx, min(warmMax, r.Length), t); err != nil {
		return err
	}
	return s.analyse(ctx)
}

func (s *stage) analyse(ctx context.Context) error {
	if !s.engine.isPostgres {
		return nil
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return tx.Script(ctx, "ANALYZE") })
}

// credited returns how much the accounts together have got, less what they had.
func (s *stage) credited(ctx context.Context) (sum money.BRL, err error) {
	for _, a := range s.accounts {
		b, err := ledger.Balances(ctx, s.db, a.id, money.CurrencyBRL)
		if err != nil {
			return 0, err
		}
		sum += money.BRL(b.Available) - payerHas
	}
	return sum, nil
}

// audit fails when the books do not add up: then a rate means nothing.
func (s *stage) audit(ctx context.Context) error {
	result, err := ledger.Audit(ctx, s.db)
	if err != nil {
		return err
	}
	problems, err := payout.Audit(ctx, s.db, id.First(time.UnixMicro(0)))
	if problems = append(result.Problems, problems...); err == nil && len(problems) > 0 {
		err = &unsoundError{problems[0].What}
	}
	return err
}

// unsoundError says that a measurement broke the ledger: then its speed means nothing.
type unsoundError struct{ what string }

func (e *unsoundError) Error() string {
	return "bench: after the measurement the audit says: " + e.what
}
