package event_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// People page through all events, or those of a type, the latest first, and find rare ones behind very many others.
func TestList(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const account, others = id.Account(7), 5100
		w := newWriter(db, 0)
		var rare, all []id.ID
		write := func(account id.Account, kinds ...event.Type) {
			t.Helper()
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				for _, kind := range kinds {
					e := event.Event{Account: account, ID: w.ids.New(), Ref: w.ids.New(), Type: kind, Data: []byte("{}")}
					if err := w.log.Write(ctx, tx, e); err != nil {
						return err
					}
					if account == 7 {
						all = append(all, e.ID)
						if kind == event.PayoutFailed {
							rare = append(rare, e.ID)
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(account, event.PayoutFailed, event.PayoutFailed)
		write(account, slices.Repeat([]event.Type{event.ChargeCreated}, others)...)
		write(account, event.PayoutFailed)
		write(8, event.PayoutFailed)
		read := func(q event.Query) (list []id.ID, pages int) {
			t.Helper()
			for {
				page, next, err := event.List(t.Context(), db, account, q)
				if err != nil || len(page) > q.Limit {
					t.Fatal(len(page), err)
				}
				for _, e := range page {
					list = append(list, e.ID)
				}
				pages++
				if next.IsZero() {
					return list, pages
				}
				q.Before = next
			}
		}
		slices.Reverse(all)
		slices.Reverse(rare)
		if got, pages := read(event.Query{Limit: 1000}); !slices.Equal(got, all) || pages != others/1000+1 {
			t.Errorf("%d of %d events on %d pages", len(got), len(all), pages)
		}
		if got, pages := read(event.Query{Type: event.PayoutFailed, Limit: 2}); !slices.Equal(got, rare) || pages > 3 {
			t.Errorf("%d of %d events on %d pages", len(got), len(rare), pages)
		}
		if got, _ := read(event.Query{Type: event.CryptoChargePaid, Limit: 2}); got != nil {
			t.Error(got)
		}
	})
}
