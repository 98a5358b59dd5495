package audit_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/audit"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// An audit on demand tells how far it is, finds what is broken, and can be ended.
func TestJob(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, c := oplog.As(t.Context(), oplog.Actor{Kind: oplog.Person, Name: "ana@example.com"}), clock.New(nil)
		ids := id.NewGenerator(c.Now, rand.Reader)
		accounts := account.New(db, c, rand.Reader)
		var last account.Account
		for _, name := range []string{"a", "b", "c"} {
			var err error
			if last, _, err = accounts.Create(ctx, account.Params{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ledger.New(db, ids, c).Adjust(ctx, last.ID, money.BRL(5_00).Amount(), "opening"); err != nil {
			t.Fatal(err)
		}
		job := audit.NewJob(db, c, ids)
		step := func() {
			t.Helper()
			if _, err := job.Step(ctx); err != nil {
				t.Fatal(err)
			}
		}
		step()
		if p := job.Look(); p.State != audit.Never {
			t.Errorf("before it was asked for: %+v", p)
		}
		if err := job.Start(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case <-job.Wake():
		default:
			t.Error("nobody is woken")
		}
		if err := job.Start(ctx); !errors.Is(err, audit.ErrRunning) {
			t.Errorf("a second one: %v", err)
		}
		step()
		p := job.Look()
		if p.State != audit.Done || p.By != "ana@example.com" || p.Accounts != 3 || p.Of != 3 || p.Transfers != 1 || len(p.Problems) != 0 || p.EndedAt.IsZero() {
			t.Errorf("%+v", p)
		}

		err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE balance SET amount = amount + 1 WHERE account_id = $1 AND currency = 'BRL' AND book = 'available'`, int64(last.ID))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Start(ctx); err != nil {
			t.Fatal(err)
		}
		step()
		if p := job.Look(); p.State != audit.Done || len(p.Problems) != 1 || p.Problems[0].Account != last.ID || !strings.Contains(p.Problems[0].What, "5.01") {
			t.Errorf("of a broken ledger: %+v", p)
		}

		if err := job.Start(ctx); err != nil {
			t.Fatal(err)
		}
		job.Cancel()
		step()
		if p := job.Look(); p.State != audit.Cancelled || p.Accounts != 0 {
			t.Errorf("ended before it began: %+v", p)
		}
		if err := job.Start(ctx); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(ctx)
		end() // the node is stopping
		if _, err := job.Step(ended); err != nil {
			t.Fatal(err)
		}
		if p := job.Look(); p.State != audit.Cancelled || p.EndedAt.IsZero() {
			t.Errorf("of a node that stops: %+v", p)
		}
		if entries, err := oplog.List(ctx, db, oplog.Page{Limit: 4}); err != nil || len(entries) != 4 || entries[3].Action != oplog.AuditRun {
			t.Errorf("the log: %+v, %v", entries, err)
		}
	})
}
