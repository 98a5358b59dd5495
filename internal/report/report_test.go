package report_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// world is a database with a ledger and two accounts.
type world struct {
	db          *sqldb.DB
	clock       *clock.Clock
	ledger      *ledger.Ledger
	mine, other id.Account
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.New(nil)
		w := &world{db: db, clock: c, ledger: ledger.New(db, id.NewGenerator(c.Now, rand.Reader), c)}
		accounts := account.New(db, c, rand.Reader)
		for _, a := range []*id.Account{&w.mine, &w.other} {
			made, _, err := accounts.Create(t.Context(), account.Params{Name: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			*a = made.ID
		}
		test(t, w)
	})
}

func (w *world) adjust(t *testing.T, a id.Account, amount money.Amount) ledger.Transfer {
	t.Helper()
	tr, err := w.ledger.Adjust(t.Context(), a, amount, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// live moves money about at random and returns how many movements that made in reais.
func (w *world) live(t *testing.T, random *mathrand.Rand, steps int) (movements int) {
	t.Helper()
	var holds []id.ID
	for range steps {
		switch n := random.IntN(10); {
		case n < 5:
			w.adjust(t, w.mine, money.BRL(1+random.Int64N(100_00)).Amount())
		case n < 7:
			w.adjust(t, w.mine, money.BRL(-1-random.Int64N(100_00)).Amount())
		case n < 8 && len(holds) > 0:
			if _, err := w.ledger.Release(t.Context(), w.mine, holds[0]); err != nil {
				t.Fatal(err)
			}
			holds = holds[1:]
		default:
			h, err := w.ledger.Hold(t.Context(), w.mine, money.BRL(1+random.Int64N(10_00)), "review")
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h.ID)
		}
		movements++
		w.adjust(t, w.other, money.BRL(7_77).Amount())
		w.adjust(t, w.mine, money.USDT(8_880000).Amount())
		if random.IntN(4) == 0 {
			w.clock.Raise(w.clock.Offset() + time.Hour)
		}
		if random.IntN(4) == 0 {
			if _, err := w.ledger.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return movements
}

func (w *world) statement(t *testing.T, p report.Period) []report.Line {
	t.Helper()
	var lines []report.Line
	err := report.Statement(t.Context(), w.db, p, func(l report.Line) error {
		lines = append(lines, l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		seed := mathrand.Uint64()
		t.Logf("seed %d", seed)
		began := w.clock.Now()
		movements := w.live(t, mathrand.New(mathrand.NewPCG(seed, 0)), 40)
		all := report.Period{Account: w.mine, Currency: money.CurrencyBRL, From: began.Add(-time.Hour), To: w.clock.Now().Add(time.Hour)}
		lines := w.statement(t, all)
		if len(lines) != movements {
			t.Fatalf("%d lines for %d movements", len(lines), movements)
		}

		// It ends at the balance, and each line is the one before it with its movement.
		end, err := ledger.Balances(t.Context(), w.db, w.mine, money.CurrencyBRL)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(end, lines[len(lines)-1].Balance); diff != "" {
			t.Errorf("the last line and the balance (-balance +line):\n%s", diff)
		}
		var running ledger.Balance
		for i, l := range lines {
			units := l.Transfer.Amount.Units
			switch l.Transfer.Kind {
			case ledger.KindHold:
				running.Available, running.Blocked = running.Available-units, running.Blocked+units
			case ledger.KindRelease:
				running.Available, running.Blocked = running.Available+units, running.Blocked-units
			case ledger.KindInflow:
				running.Available += units
			case ledger.KindAdjustment:
				if l.Transfer.Source == ledger.Available {
					units = -units
				}
				running.Available += units
			}
			if l.Balance != running {
				t.Fatalf("line %d: %+v, want %+v", i, l.Balance, running)
			}
			if i > 0 && lines[i-1].Transfer.ID.Compare(l.Transfer.ID) >= 0 {
				t.Fatalf("line %d is older than the one before it", i)
			}
			if l.Transfer.Account != w.mine || l.Transfer.Amount.Currency != money.CurrencyBRL {
				t.Fatalf("line %d is not of this account and currency: %+v", i, l.Transfer)
			}
		}

		// Two halves are the whole, wherever it is cut: the border belongs to the later one.
		for _, at := range []int{0, 1, len(lines) / 2, len(lines) - 1} {
			early, late := all, all
			early.To = lines[at].Transfer.ID.Time()
			late.From = early.To
			halves := slices.Concat(w.statement(t, early), w.statement(t, late))
			if diff := cmp.Diff(lines, halves); diff != "" {
				t.Errorf("cut at %d (-whole +halves):\n%s", at, diff)
			}
		}
		if got := w.statement(t, report.Period{Account: w.mine, Currency: money.CurrencyUSDT, From: all.From, To: all.To}); len(got) != movements ||
			got[len(got)-1].Balance.Available != int64(movements)*8_880000 {
			t.Errorf("USDT: %d lines", len(got))
		}
		if got := w.statement(t, report.Period{Account: w.mine, Currency: money.CurrencyBRL, From: all.To, To: all.To.Add(time.Hour)}); len(got) != 0 {
			t.Errorf("%d lines in the future", len(got))
		}
		stop := errors.New("stop")
		if err := report.Statement(t.Context(), w.db, all, func(report.Line) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("the reader's error is %v", err)
		}
	})
}

// TestLongStatement has more lines than are read at once.
func TestLongStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		const count = 2001
		var transfers []*ledger.Transfer
		for range count {
			transfers = append(transfers, &ledger.Transfer{
				Account: w.mine, Amount: money.BRL(1).Amount(), Source: ledger.Adjustment, Target: ledger.Available, Kind: ledger.KindAdjustment,
			})
		}
		err := w.ledger.Write(t.Context(), func(ctx context.Context, tx *ledger.Tx) error { return tx.Post(ctx, transfers...) })
		if err != nil {
			t.Fatal(err)
		}
		lines := w.statement(t, report.Period{
			Account: w.mine, Currency: money.CurrencyBRL, From: w.clock.Now().Add(-time.Hour), To: w.clock.Now().Add(time.Hour),
		})
		if len(lines) != count {
			t.Fatalf("%d lines, want %d", len(lines), count)
		}
		for i, l := range lines {
			if l.Transfer.ID != transfers[i].ID || l.Balance.Available != int64(i+1) {
				t.Fatalf("line %d: %+v", i, l)
			}
		}
	})
}

// Looked at from the end, page by page, a statement is the same.
func TestLatest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		began := w.clock.Now()
		w.live(t, mathrand.New(mathrand.NewPCG(5, 6)), 40)
		ended := w.clock.Now()
		for _, currency := range money.Currencies {
			for _, part := range []struct{ from, to time.Time }{
				{began.Add(-time.Hour), ended.Add(time.Hour)},
				{began.Add(ended.Sub(began) / 3), began.Add(2 * ended.Sub(began) / 3)},
				{ended.Add(time.Hour), ended.Add(2 * time.Hour)},
			} {
				p := report.Period{Account: w.mine, Currency: currency, From: part.from, To: part.to}
				want := w.statement(t, p)
				slices.Reverse(want)
				var got []report.Line
				var before id.ID
				for more := true; more; {
					lines, further, err := report.Latest(t.Context(), w.db, p, before, 3)
					if err != nil {
						t.Fatal(err)
					}
					if len(lines) > 3 || (further && len(lines) != 3) {
						t.Fatalf("a page of %d lines", len(lines))
					}
					got, more = append(got, lines...), further
					if more {
						before = lines[len(lines)-1].Transfer.ID
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", currency, diff)
				}
			}
		}
	})
}

func TestGetBalance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.live(t, mathrand.New(mathrand.NewPCG(1, 2)), 15)
		b, err := report.GetBalance(t.Context(), w.db, w.mine)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ledger.Balances(t.Context(), w.db, w.mine, money.CurrencyBRL)
		if err != nil {
			t.Fatal(err)
		}
		if int64(b.Available) != want.Available || int64(b.Pending) != want.Pending || int64(b.Blocked) != want.Blocked ||
			b.Total != b.Available+b.Pending+b.Blocked || b.Blocked == 0 {
			t.Errorf("got %+v, want %+v", b, want)
		}
		if _, err := report.GetBalance(t.Context(), w.db, 12345); !errors.Is(err, sqldb.ErrNoRows) {
			t.Errorf("of nobody: %v", err)
		}
	})
}

func TestListTransactions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		in := w.adjust(t, w.mine, money.BRL(100).Amount())
		out := w.adjust(t, w.mine, money.BRL(-40).Amount())
		w.adjust(t, w.mine, money.USDT(5).Amount())
		theirs := w.adjust(t, w.other, money.BRL(7).Amount())
		if _, err := w.ledger.Hold(t.Context(), w.mine, 1, "review"); err != nil {
			t.Fatal(err)
		}
		list := func(p report.Page) (string, error) {
			got, more, err := report.ListTransactions(t.Context(), w.db, w.mine, p)
			var lines []string
			for _, x := range got {
				if x.CreatedAt != x.ID.Time() || x.Status != report.Completed || x.Origin != account.OriginManual || x.ResourceID != "" || x.Fee != 0 {
					t.Errorf("%+v", x)
				}
				lines = append(lines, fmt.Sprintf("%s %s %s %s; ", x.Type, x.Amount, x.Net, x.Gross))
			}
			return strings.Join(lines, "") + strconv.FormatBool(more), err
		}
		for _, c := range []struct {
			page report.Page
			want string
		}{
			{report.Page{Limit: 50}, "cash_out 0.40 0.40 0.40; cash_in 1.00 1.00 1.00; false"},
			{report.Page{Limit: 2}, "cash_out 0.40 0.40 0.40; cash_in 1.00 1.00 1.00; false"},
			{report.Page{Limit: 1}, "cash_out 0.40 0.40 0.40; true"},
			{report.Page{Limit: 1, StartingAfter: report.AdjustmentID(&out)}, "cash_in 1.00 1.00 1.00; false"},
			{report.Page{Limit: 1, StartingAfter: report.AdjustmentID(&in)}, "false"},
			{report.Page{Limit: 50, Before: out.ID.Time()}, "cash_in 1.00 1.00 1.00; false"},
			{report.Page{Limit: 50, Type: report.CashIn}, "cash_in 1.00 1.00 1.00; false"},
			{report.Page{Limit: 50, Type: report.CashOut}, "cash_out 0.40 0.40 0.40; false"},
			{report.Page{Limit: 50, Type: report.CashOut, StartingAfter: report.AdjustmentID(&out)}, "false"},
		} {
			if got, err := list(c.page); got != c.want || err != nil {
				t.Errorf("%+v: got %s, %v, want %s", c.page, got, err, c.want)
			}
		}
		for _, cursor := range []string{report.AdjustmentID(&theirs), "txn_in_" + out.ID.String(), "x"} {
			if _, err := list(report.Page{Limit: 1, StartingAfter: cursor}); !errors.Is(err, report.ErrCursor) {
				t.Errorf("%s: %v", cursor, err)
			}
		}
	})
}

// A movement refers to the thing that it is about, by the name that the API has for it.
func TestReference(t *testing.T) {
	t.Parallel()
	ref := id.First(time.UnixMicro(1))
	for kind, prefix := range map[string]id.Prefix{
		"cash_in": id.Charge, "cash_in_fee": id.Charge, "refund": id.Charge, "inflow": id.Charge,
		"cash_out": id.Payout, "cash_out_sent": id.Payout, "med_block": id.Infraction,
		"crypto_in": id.CryptoCharge, "crypto_in_fee": id.CryptoCharge, "crypto_out": id.CryptoPayout, string(ledger.KindRelease): id.Hold,
	} {
		if got := report.Reference(&ledger.Transfer{Kind: ledger.Kind(kind), Ref: ref}); got != prefix.Format(ref) {
			t.Errorf("%s refers to %s", kind, got)
		}
	}
	if got := report.Reference(&ledger.Transfer{Kind: ledger.KindHold, ID: ref}); got != id.Hold.Format(ref) { // which its release names
		t.Errorf("a hold refers to %s", got)
	}
	if got := report.Reference(&ledger.Transfer{Kind: "adjustment"}); got != "" {
		t.Errorf("an adjustment refers to %s", got)
	}
}
