package oplog_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

func newIDs() *id.Generator { return id.NewGenerator(clock.New(nil).Now, rand.Reader) }

func write(t *testing.T, db *sqldb.DB, entries ...*oplog.Entry) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, e := range entries {
			e.Write(ctx, tx)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What is written is read back, once however often it is written, and stays.
func TestEntries(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, ids := t.Context(), newIDs()
		first := oplog.Begin(ctx, ids, oplog.Entry{
			Action: oplog.AccountSet, Account: 42, Subject: "acc_x", Before: oplog.Fields{"kyc": "pending"}, After: oplog.Fields{"kyc": "approved"},
			Reason: "papers came",
		})
		second := oplog.Begin(oplog.As(ctx, oplog.Actor{Kind: oplog.Command, Name: "root"}), ids, oplog.Entry{Action: oplog.IPBlock, Subject: "10.0.0.0/8"})
		third := oplog.Begin(oplog.As(ctx, oplog.Actor{Kind: oplog.Person, Name: "ana@example.com"}), ids,
			oplog.Entry{Action: oplog.AccountHold, Account: 42, Subject: "acc_x", After: oplog.Fields{"amount": "1.00"}})
		write(t, db, first, second, third)
		write(t, db, first) // again, as after a lost COMMIT

		all, err := oplog.List(ctx, db, oplog.Page{})
		if err != nil {
			t.Fatal(err)
		}
		want := []oplog.Entry{*third, *second, *first}
		for i := range want { // nothing is read back as empty
			for _, f := range []*oplog.Fields{&want[i].Before, &want[i].After} {
				if *f == nil {
					*f = oplog.Fields{}
				}
			}
		}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		page, err := oplog.List(ctx, db, oplog.Page{Account: 42, Before: third.ID, Limit: 5})
		if err != nil || len(page) != 1 || page[0].ID != first.ID {
			t.Errorf("of the account, before the last: %+v, %v", page, err)
		}
		var names []string
		for _, e := range all {
			names = append(names, e.Actor.String())
		}
		if got := strings.Join(names, " "); got != "ana@example.com cli:root system" {
			t.Errorf("who: %s", got)
		}
		for _, sql := range []string{`UPDATE operator_log SET who = 'nobody'`, `DELETE FROM operator_log`} {
			err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			})
			if !errors.Is(err, sqldb.ErrAppendOnly) {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
}

func TestCheckReason(t *testing.T) {
	t.Parallel()
	for reason, ok := range map[string]bool{
		"because": true, strings.Repeat("é", oplog.ReasonCharsMax): true,
		"": false, "   ": false, "two\nlines": false, strings.Repeat("x", oplog.ReasonCharsMax+1): false, "\xff": false,
	} {
		err := oplog.CheckReason(reason)
		if (err == nil) != ok {
			t.Errorf("%q: %v", reason, err)
		}
		if err != nil && (fault.As(err).Kind != fault.Invalid || fault.As(err).Issues[0].Path != "reason") {
			t.Errorf("%q: %v names no field", reason, err)
		}
	}
}
