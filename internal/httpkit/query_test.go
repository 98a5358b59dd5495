package httpkit

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
)

func get(rawQuery string) *http.Request {
	return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/v1/charges", RawQuery: rawQuery}}
}

func TestQueryInt(t *testing.T) {
	t.Parallel()
	const message = "limit must be an integer from 1 to 200"
	tests := []struct {
		query  string
		want   int
		issues string
	}{
		{"", 50, ""},
		{"&&", 50, ""},
		{"other=x&other=%zz", 50, ""},
		{"limit=1", 1, ""},
		{"limit=200", 200, ""},
		{"limit=%32", 2, ""},
		{"limit=0", 50, message},
		{"limit=201", 50, message},
		{"limit=-1", 50, message},
		{"limit=-0", 50, message},
		{"limit=+5", 50, message},
		{"limit=%2B5", 50, message},
		{"limit=05", 50, message},
		{"limit=5.0", 50, message},
		{"limit=5e1", 50, message},
		{"limit=0x5", 50, message},
		{"limit=1_0", 50, message},
		{"limit=18446744073709551617", 50, message},
		{"limit=", 50, message},
		{"limit", 50, message},
		{"limit=ten", 50, message},
		{"limit=1&limit=1", 50, "limit is given more than once"},
		{"limit=1&x=2&%6cimit=3", 50, "limit is given more than once"},
		{"limit=%", 50, "limit must be percent-encoded"},
		{"limit=%zz", 50, "limit must be percent-encoded"},
		{"limit=%ff", 50, "limit must not contain invalid UTF-8"},
		{"limit=1%00", 50, "limit must not contain a NUL character"},
		{"%zz=1&limit=7", 7, "query must be percent-encoded"},
		{"limit=7&x=" + strings.Repeat("y", queryBytesMax), 50, "query must have at most 8192 bytes"},
	}
	for _, tt := range tests {
		q := Query(get(tt.query))
		got := q.Int("limit", IntRule{Min: 1, Max: 200, Default: 50})
		if got != tt.want || issues(q.Err()) != tt.issues {
			t.Errorf("%.40q: got %d and %q, want %d and %q", tt.query, got, issues(q.Err()), tt.want, tt.issues)
		}
	}
}

func TestQueryCursor(t *testing.T) {
	t.Parallel()
	broken := "starting_after " + ErrCursor.Error()
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		query  string
		want   Cursor
		issues string
	}{
		{"", Cursor{}, ""},
		{"starting_after=chg_01", Cursor{ID: "chg_01"}, ""},
		{"startingAfter=chg_01", Cursor{ID: "chg_01"}, ""},
		{"startingAfter=chg_01&starting_after=chg_02", Cursor{ID: "chg_02"}, ""},
		{"startingAfter=1&startingAfter=2", Cursor{}, "starting_after is given more than once"},
		{"starting_after=2024-02-29", Cursor{Before: day}, ""},
		{"starting_after=2024-02-29T03:00:00%2B03:00", Cursor{Before: day}, ""},
		{"starting_after=2024-02-29T03:00:00+03:00", Cursor{Before: day}, ""},
		{"starting_after=2024-02-29+00:00:00Z", Cursor{}, broken},
		{"starting_after=2023-02-29", Cursor{}, broken},
		{"starting_after=", Cursor{}, broken},
		{"starting_after=%zz", Cursor{}, "starting_after must be percent-encoded"},
	}
	for _, tt := range tests {
		q := Query(get(tt.query))
		if got := q.Cursor("starting_after"); got != tt.want || issues(q.Err()) != tt.issues {
			t.Errorf("%q: got %v and %q, want %v and %q", tt.query, got, issues(q.Err()), tt.want, tt.issues)
		}
	}
}

func TestQueryTexts(t *testing.T) {
	t.Parallel()
	q := Query(get("type=cash_in&status=odd&external_id=a%2Fb+c&customerId=&currency=btc;x&amount=20.5&low=1&text=x"))
	if got := q.OneOf("type", "cash_in", "cash_out"); got != "cash_in" {
		t.Errorf("type = %q", got)
	}
	if got := q.OneOf("absent", "a", "b"); got != "" {
		t.Errorf("absent = %q", got)
	}
	if got := q.OneOf("status", "open", "accepted"); got != "" {
		t.Errorf("status = %q", got)
	}
	if got := q.String("external_id", StringRule{}); got != (Text{Value: "a/b c", Present: true}) {
		t.Errorf("external_id = %v", got)
	}
	q.String("customer_id", StringRule{Min: 1})
	if got := q.String("currency", StringRule{Required: true}); got != (Text{Value: "btc;x", Present: true}) {
		t.Errorf("currency = %v", got)
	}
	q.String("missing", StringRule{Required: true})
	if got := q.USDT("amount", USDTRule{Required: true}); got != 20_500_000 {
		t.Errorf("amount = %v", got)
	}
	for name, want := range map[string]money.USDT{"low": 0, "text": 0, "nothing": 0} {
		if got := q.USDT(name, USDTRule{Min: 2_000_000}); got != want {
			t.Errorf("%s = %v", name, got)
		}
	}
	for _, want := range []string{
		"status must be one of open, accepted", "customer_id must not be empty", "missing is required",
		"low must be at least 2.000000", "text must be a number",
	} {
		if got := issues(q.Err()); !strings.Contains(got, want) {
			t.Errorf("%q is missing from %q", want, got)
		}
	}
	if got := strings.Count(issues(q.Err()), "\n") + 1; got != 5 {
		t.Errorf("%d issues, want 5: %q", got, issues(q.Err()))
	}
}
