package activity

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// BenchmarkDays looks at an account with a hundred thousand transfers in the month, once they are added up.
func BenchmarkDays(b *testing.B) {
	for name, url := range map[string]string{"sqlite": sqltest.SQLite(b), "postgres": sqltest.Postgres(b)} {
		b.Run(name, func(b *testing.B) {
			db, c := sqltest.Open(b, url), clock.New(nil)
			a, _, err := account.New(db, c, rand.Reader).Create(b.Context(), account.Params{Name: "Padaria"})
			if err != nil {
				b.Fatal(err)
			}
			const count, slice = 100_000, 1000
			for i := 0; i < count; i += slice {
				at := time.Now().Add(-time.Duration(i) * 25 * time.Second)
				err := db.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					for j := range slice {
						tx.Queue(ctx, insertTransfer, int64(a.ID), id.First(at.Add(-time.Duration(j)*time.Millisecond)), "BRL", "acquirer", "available", int64(100))
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			s := New(db, c, time.UTC)
			for complete := false; !complete; {
				if _, complete, err = s.Days(b.Context(), a.ID, money.CurrencyBRL, 30); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, _, err := s.Days(b.Context(), a.ID, money.CurrencyBRL, 30); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
