package activity

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// world is an account whose transfers a test dates.
type world struct {
	*Service
	t       *testing.T
	account id.Account
	db      *sqldb.DB
	serial  byte
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		zone, err := time.LoadLocation("America/Sao_Paulo")
		if err != nil {
			t.Fatal(err)
		}
		c := clock.New(nil)
		a, _, err := account.New(db, c, rand.Reader).Create(t.Context(), account.Params{Name: "Padaria"})
		if err != nil {
			t.Fatal(err)
		}
		test(t, &world{Service: New(db, c, zone), t: t, account: a.ID, db: db})
	})
}

const insertTransfer = `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind) VALUES ($1, $2, $3, $4, $5, $6, 'test')`

// post stores transfers of a moment, one centavo each.
func (w *world) post(at time.Time, source, target ledger.Book, amount money.Amount, count int) {
	w.t.Helper()
	w.serial++
	err := w.db.Write(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range count {
			x := id.First(at)
			x[15], x[14], x[13] = byte(i), byte(i>>8), w.serial
			tx.Queue(ctx, insertTransfer, int64(w.account), x, string(amount.Currency), string(source), string(target), amount.Units)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// days returns what is shown, and fails unless it is complete.
func (w *world) days(c money.Currency, count int) []Day {
	w.t.Helper()
	days, complete, err := w.Days(w.t.Context(), w.account, c, count)
	if err != nil || !complete {
		w.t.Fatal(complete, err)
	}
	return days
}

func TestDays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		now := time.Now()
		today := w.midnight(now)
		brl := func(n int64) money.Amount { return money.Amount{Currency: money.CurrencyBRL, Units: n} }
		if got := w.days(money.CurrencyBRL, 30); len(got) != 30 || !got[29].Start.Equal(today) || got[29].Inflow != 0 {
			t.Errorf("an empty account: %+v", got)
		}
		yesterday := w.midnight(today.AddDate(0, 0, -1))
		w.post(yesterday, ledger.Acquirer, ledger.Available, brl(500), 1) // its first moment
		w.post(today.Add(-time.Millisecond), ledger.Acquirer, ledger.Pending, brl(7), 1)
		w.post(yesterday.Add(time.Hour), ledger.Available, ledger.Fees, brl(30), 1)
		w.post(yesterday.Add(time.Hour), ledger.InTransit, ledger.Acquirer, brl(200), 1)
		w.post(yesterday.Add(time.Hour), ledger.Available, ledger.InTransit, brl(999), 1) // stays inside
		w.post(yesterday.Add(time.Hour), ledger.Acquirer, ledger.Available, money.USDT(41).Amount(), 1)
		w.post(today.AddDate(0, 0, -40), ledger.Acquirer, ledger.Available, brl(1_000_000), 1) // too old to be looked at
		w.post(now.Add(-time.Second), ledger.Acquirer, ledger.Available, brl(5), 1)            // too young to be kept
		want := []Day{{yesterday, 507, 200, 30}, {today, 5, 0, 0}}
		if now.Add(-time.Second).Before(today) { // the test runs at midnight
			want[0].Inflow, want[1].Inflow = 512, 0
		}
		for range 3 { // however often one looks
			if diff := cmp.Diff(want, w.days(money.CurrencyBRL, 2)); diff != "" {
				t.Error(diff)
			}
		}
		if got := w.days(money.CurrencyUSDT, 2); got[0].Inflow != 41 {
			t.Errorf("got %+v", got)
		}
	})
}

// A large account is added up in slices, by several who look at once, and each transfer once.
func TestLargeAccount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.slice = 100
		const count = 100*2*roundsMax + 5
		at := w.midnight(time.Now()).Add(-2 * time.Hour)
		for i := 0; i < count; i += 1000 {
			w.post(at.Add(time.Duration(i)*time.Millisecond), ledger.Acquirer, ledger.Available, money.Amount{Currency: money.CurrencyBRL, Units: 1}, min(1000, count-i))
		}
		_, complete, err := w.Days(t.Context(), w.account, money.CurrencyBRL, 3)
		if err != nil || complete {
			t.Errorf("one look adds up everything: %v, %v", complete, err)
		}
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() {
				for {
					more, err := w.Step(t.Context())
					if err != nil {
						t.Error(err)
					}
					if err != nil || !more {
						return
					}
				}
			})
		}
		running.Wait()
		if got := w.days(money.CurrencyBRL, 2); got[0].Inflow != count {
			t.Errorf("%d of %d are there", got[0].Inflow, count)
		}
	})
}
