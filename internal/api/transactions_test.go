package api_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/testkit"
)

type transaction struct {
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	ResourceID *string   `json:"resource_id"`
	Amount     rawNumber `json:"amount"`
	Fee        rawNumber `json:"fee"`
	Net        rawNumber `json:"net_amount"`
	Gross      rawNumber `json:"gross_amount"`
	Status     string    `json:"status"`
	Method     string    `json:"method"`
	Origin     string    `json:"origin"`
	CreatedAt  time.Time `json:"created_at"`
}

// rawNumber is a JSON number by its digits.
type rawNumber string

func (n *rawNumber) UnmarshalJSON(b []byte) error {
	*n = rawNumber(b)
	return nil
}

type page struct {
	Data              []transaction `json:"data"`
	HasMore           bool          `json:"has_more"`
	NextStartingAfter *string       `json:"next_starting_after"`
}

func (p page) ids() []string {
	ids := []string{}
	for _, x := range p.Data {
		ids = append(ids, x.ID)
	}
	return ids
}

// list returns one page, after checking that the cursor says what has_more says.
func list(t *testing.T, s *testkit.Service, key string, query ...string) page {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		values.Add(query[i], query[i+1])
	}
	path := "/v1/transactions"
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	var p page
	s.Get(t, key, path).Want(t, http.StatusOK).Decode(t, &p)
	switch next := p.NextStartingAfter; {
	case p.HasMore != (next != nil):
		t.Fatalf("%s: has_more %v, next_starting_after %v", path, p.HasMore, next)
	case next != nil && *next != p.Data[len(p.Data)-1].ID:
		t.Fatalf("%s: next_starting_after %s, the last is %s", path, *next, p.Data[len(p.Data)-1].ID)
	}
	return p
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		if p := list(t, s, a.Key); len(p.Data) != 0 || p.HasMore {
			t.Errorf("an empty list is %+v", p)
		}
		theirs := s.Adjust(t, other.ID, money.CurrencyBRL, "777.77")
		in := s.Adjust(t, a.ID, money.CurrencyBRL, "100")
		dollars := s.Adjust(t, a.ID, money.CurrencyUSDT, "888")
		out := s.Adjust(t, a.ID, money.CurrencyBRL, "-2.5")

		got := list(t, s, a.Key)
		want := []transaction{
			{
				ID: out, Type: "cash_out", Amount: "2.50", Fee: "0.00", Net: "2.50", Gross: "2.50",
				Status: "completed", Method: "pix", Origin: "manual",
			},
			{
				ID: in, Type: "cash_in", Amount: "100.00", Fee: "0.00", Net: "100.00", Gross: "100.00",
				Status: "completed", Method: "pix", Origin: "manual",
			},
		}
		for i := range got.Data {
			if age := s.Core.Clock.Now().Sub(got.Data[i].CreatedAt); age < 0 || age > time.Minute {
				t.Errorf("%s was created %v ago", got.Data[i].ID, age)
			}
			got.Data[i].CreatedAt = time.Time{}
		}
		if diff := cmp.Diff(want, got.Data); diff != "" {
			t.Errorf("transactions differ (-want +got):\n%s", diff)
		}
		if !strings.HasPrefix(in, "txn_in_") || !strings.HasPrefix(out, "txn_out_") {
			t.Errorf("ids %s, %s", in, out)
		}
		for query, want := range map[string][]string{
			"cash_in": {in}, "cash_out": {out},
		} {
			if diff := cmp.Diff(want, list(t, s, a.Key, "type", query).ids()); diff != "" {
				t.Errorf("type %s (-want +got):\n%s", query, diff)
			}
		}
		answer := s.Get(t, a.Key, "/v1/transactions").Lacks(t, theirs, dollars, "777.77", "888.00", other.ID.String(), "by hand")
		if strings.Contains(string(answer.Body), "e+") {
			t.Errorf("an exponent in %s", answer.Body)
		}
	})
}

func TestTransactionPages(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		const days, each = 3, 20
		all := []string{} // newest first
		for range days {
			for i := range each {
				amount := strconv.Itoa(i + 1)
				if i%4 == 3 {
					amount = "-" + amount
				}
				all = append(all, s.Adjust(t, a.ID, money.CurrencyBRL, amount))
			}
			s.Advance(t, 24*time.Hour)
		}
		slices.Reverse(all)

		walk := func(limit int, filter ...string) []string {
			t.Helper()
			query := append([]string{"limit", strconv.Itoa(limit)}, filter...)
			seen, after := []string{}, ""
			for range len(all) + 1 {
				args := query
				if after != "" {
					args = append(slices.Clip(query), "starting_after", after)
				}
				p := list(t, s, a.Key, args...)
				if len(p.Data) > limit {
					t.Fatalf("%d items with limit %d", len(p.Data), limit)
				}
				seen = append(seen, p.ids()...)
				if !p.HasMore {
					return seen
				}
				after = *p.NextStartingAfter
			}
			t.Fatal("the list does not end")
			return nil
		}
		for _, limit := range []int{20, 59, 60} {
			if diff := cmp.Diff(all, walk(limit)); diff != "" {
				t.Errorf("limit %d (-want +got):\n%s", limit, diff)
			}
		}
		outflows := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return strings.HasPrefix(id, "txn_in_") })
		if diff := cmp.Diff(outflows, walk(10, "type", "cash_out")); diff != "" {
			t.Errorf("outflows (-want +got):\n%s", diff)
		}
		if p := list(t, s, a.Key); len(p.Data) != 50 || !p.HasMore {
			t.Errorf("the default page has %d items, more %v", len(p.Data), p.HasMore)
		}
		if p := list(t, s, a.Key, "limit", "1"); len(p.Data) != 1 || !p.HasMore {
			t.Errorf("a page of one has %d items, more %v", len(p.Data), p.HasMore)
		}
		// A page of outflows may start after an inflow.
		if p := list(t, s, a.Key, "type", "cash_out", "starting_after", all[len(all)-1]); len(p.Data) != 0 {
			t.Errorf("%d outflows below the oldest item", len(p.Data))
		}

		// A moment means older than it: the item of that very moment is not there again.
		newest := list(t, s, a.Key, "limit", "200").Data
		for _, at := range []int{0, 20, 57} {
			moment := newest[at].CreatedAt
			older := []string{}
			for _, x := range newest {
				if x.CreatedAt.Before(moment) {
					older = append(older, x.ID)
				}
			}
			for _, cursor := range []string{
				moment.Format(time.RFC3339Nano), moment.In(time.FixedZone("", -3*60*60)).Format(time.RFC3339Nano),
			} {
				if diff := cmp.Diff(older, list(t, s, a.Key, "limit", "200", "starting_after", cursor).ids()); diff != "" {
					t.Errorf("before %s (-want +got):\n%s", cursor, diff)
				}
			}
		}
		secondDay := newest[each].CreatedAt
		older := []string{}
		for _, x := range newest {
			if x.CreatedAt.Before(secondDay.Truncate(24 * time.Hour)) {
				older = append(older, x.ID)
			}
		}
		if diff := cmp.Diff(older, list(t, s, a.Key, "starting_after", secondDay.Format(time.DateOnly)).ids()); diff != "" {
			t.Errorf("before the second day (-want +got):\n%s", diff)
		}
		if p := list(t, s, a.Key, "limit", "200", "starting_after", "9999-12-31"); len(p.Data) != len(all) {
			t.Errorf("%d items before the end of time, want %d", len(p.Data), len(all))
		}
		if p := list(t, s, a.Key, "starting_after", "1970-01-01"); len(p.Data) != 0 {
			t.Errorf("%d items before 1970", len(p.Data))
		}
	})
}

func TestTransactionQueries(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		in := s.Adjust(t, a.ID, money.CurrencyBRL, "100")
		dollars := s.Adjust(t, a.ID, money.CurrencyUSDT, "100")
		theirs := s.Adjust(t, other.ID, money.CurrencyBRL, "777.77")
		hold, err := s.Core.Ledger.Hold(t.Context(), a.ID, 1_00, "review")
		if err != nil {
			t.Fatal(err)
		}
		bare := strings.TrimPrefix(in, "txn_in_")
		for query, paths := range map[string][]string{
			"limit=0":                        {"limit"},
			"limit=201":                      {"limit"},
			"limit=-1":                       {"limit"},
			"limit=":                         {"limit"},
			"limit=ten":                      {"limit"},
			"limit=%2B5":                     {"limit"},
			"limit=05":                       {"limit"},
			"limit=5.0":                      {"limit"},
			"limit=5e0":                      {"limit"},
			"limit=99999999999999999999999":  {"limit"},
			"limit=5&limit=5":                {"limit"},
			"limit=%zz":                      {"limit"},
			"limit=5%00":                     {"limit"},
			"limit=5%ff":                     {"limit"},
			"type=cash":                      {"type"},
			"type=":                          {"type"},
			"type=CASH_IN":                   {"type"},
			"type=cash_in&type=cash_out":     {"type"},
			"starting_after=":                {"starting_after"},
			"starting_after=" + theirs:       {"starting_after"},
			"starting_after=" + dollars:      {"starting_after"},
			"starting_after=" + bare:         {"starting_after"},
			"starting_after=txn_out_" + bare: {"starting_after"},
			"starting_after=txn_in_" + strings.ToUpper(bare):   {"starting_after"},
			"starting_after=txn_in_" + hold.ID.String():        {"starting_after"},
			"starting_after=txn_out_" + hold.ID.String():       {"starting_after"},
			"starting_after=txn_in_00000000000000000000000000": {"starting_after"},
			"starting_after=txn_in_7zzzzzzzzzzzzzzzzzzzzzzzzz": {"starting_after"},
			"starting_after=chg_" + bare:                       {"starting_after"},
			"starting_after=2026-02-30":                        {"starting_after"},
			"starting_after=2026-11-15T10:00:00":               {"starting_after"},
			"starting_after=2026-11-15T25:00:00Z":              {"starting_after"},
			"starting_after=" + strings.Repeat("x", 5000):      {"starting_after"},
			"starting_after='%20OR%201=1--":                    {"starting_after"},
			"starting_after=%2e%2e%2f":                         {"starting_after"},
			"starting_after=" + in + "&starting_after=" + in:   {"starting_after"},
			"limit=0&type=x&starting_after=":                   {"limit", "type", "starting_after"},
			"%zz=1":                                            {"query"},
			strings.Repeat("x", 9000):                          {"query"},
			strings.Repeat("limit=1&", 1000):                   {"limit"},
		} {
			got := s.Do(t, testkit.Request{Path: "/v1/transactions?" + query, Key: a.Key, Invalid: true})
			got.WantError(t, http.StatusBadRequest, "VALIDATION_ERROR").Lacks(t, "777.77", other.ID.String())
			if diff := cmp.Diff(paths, got.Paths()); diff != "" {
				t.Errorf("%.100s: issues (-want +got):\n%s", query, diff)
			}
			if len(got.Body) > 1000 {
				t.Errorf("%.100s: an answer of %d bytes", query, len(got.Body))
			}
		}
		for _, query := range []string{
			"", "limit=1", "limit=200", "unknown=1&unknown=2", "&&", "startingAfter=" + in, "limit=5&Limit=0",
			"starting_after=2026-11-15T10:00:00+00:00", "starting_after=2026-11-15T10:00:00.5Z",
		} {
			s.Do(t, testkit.Request{Path: "/v1/transactions?" + query, Key: a.Key, Invalid: true}).Want(t, http.StatusOK)
		}
		if got := list(t, s, a.Key, "startingAfter", in); len(got.Data) != 0 {
			t.Errorf("startingAfter is not read: %v", got.ids())
		}
	})
}
