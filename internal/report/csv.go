package report

import (
	"context"
	"encoding/csv"
	"io"
	"strings"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Row is a line of a statement in words and digits.
type Row struct {
	Time      string // ISO 8601 in UTC
	ID        string
	Kind      string
	Reference string // public id of what it belongs to; "" for nothing
	Memo      string // an operator's reason
	From      string // a book
	To        string // a book
	Amount    string
	Currency  string
	Available string // and what the account then had
	Pending   string
	Blocked   string
	InTransit string
	Total     string // available, pending and blocked
}

// columns are the names of a row's fields, in their order.
var columns = []string{
	"time", "id", "kind", "reference", "memo", "from", "to", "amount", "currency",
	"available", "pending", "blocked", "in_transit", "total",
}

// NewRow returns a line in words and digits.
func NewRow(l Line) Row {
	t, b := &l.Transfer, l.Balance
	text := func(units int64) string { return money.Amount{Currency: t.Amount.Currency, Units: units}.String() }
	return Row{
		Time: clock.Timestamp(t.ID.Time()), ID: t.ID.String(), Kind: string(t.Kind), Reference: Reference(t), Memo: t.Memo,
		From: string(t.Source), To: string(t.Target), Amount: t.Amount.String(), Currency: string(t.Amount.Currency),
		Available: text(b.Available), Pending: text(b.Pending), Blocked: text(b.Blocked), InTransit: text(b.InTransit),
		Total: text(b.Available + b.Pending + b.Blocked),
	}
}

func (r *Row) record() []string {
	return []string{
		r.Time, r.ID, r.Kind, r.Reference, spreadsheetSafe(r.Memo), r.From, r.To, r.Amount, r.Currency,
		r.Available, r.Pending, r.Blocked, r.InTransit, r.Total,
	}
}

// spreadsheetSafe keeps a spreadsheet from running what an operator wrote as a formula.
func spreadsheetSafe(s string) string {
	if text := strings.TrimSpace(s); text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + s
	}
	return s
}

// flushEvery is how many lines are written between two calls of what WriteCSV is told to do.
const flushEvery = 1000

// WriteCSV writes a statement as CSV, under a line of names. It calls flushed from time to time, nil for nobody, after what
// was written so far has gone to w.
func WriteCSV(ctx context.Context, q sqldb.Querier, p Period, w io.Writer, flushed func()) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	lines := 0
	err := Statement(ctx, q, p, func(l Line) error {
		row := NewRow(l)
		if lines++; lines%flushEvery == 0 && flushed != nil {
			out.Flush()
			flushed()
		}
		return out.Write(row.record())
	})
	out.Flush()
	if err != nil {
		return err
	}
	return out.Error()
}
