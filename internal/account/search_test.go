package account

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, s := t.Context(), New(db, clock.New(nil), rand.Reader)
		var made []Account
		for _, p := range []Params{{"Padaria São João", "12345678000195"}, {"Loja Azul", ""}, {"loja verde", "52998224725"}, {"Açougue", ""}} {
			a, _, err := s.Create(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, a)
		}
		if _, err := s.Set(ctx, made[1].ID, []string{"status=banned"}); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			query Query
			want  string // names in their order
		}{
			{Query{}, "Açougue, loja verde, Loja Azul, Padaria São João"},
			{Query{Text: " LOJA "}, "loja verde, Loja Azul"},
			{Query{Text: "sao joao"}, "Padaria São João"},
			{Query{Text: "ACOUGUE"}, "Açougue"},
			{Query{Text: "998224"}, "loja verde"},
			{Query{Text: made[3].ID.String()}, "Açougue"},
			{Query{Text: (made[3].ID ^ 1).String()}, ""},
			{Query{Text: "%"}, ""},
			{Query{Status: StatusBanned}, "Loja Azul"},
			{Query{Text: "loja", Status: StatusActive}, "loja verde"},
		} {
			found, err := s.Search(ctx, test.query)
			if got := accountNames(found.Accounts); err != nil || got != test.want || !found.Next.IsZero() {
				t.Errorf("%+v: %s, next %v, %v", test.query, got, found.Next, err)
			}
		}
		var pages []string
		for at := (Cursor{}); ; {
			found, err := s.Search(ctx, Query{Text: "a", After: at, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, accountNames(found.Accounts))
			if at, err = ParseCursor(found.Next.String()); err != nil {
				t.Fatal(err)
			}
			if at.IsZero() {
				break
			}
		}
		if got := strings.Join(pages, " | "); got != "Açougue, loja verde | Loja Azul, Padaria São João" {
			t.Errorf("by pages: %s", got)
		}
		if n, err := Count(ctx, db); err != nil || n != 4 {
			t.Errorf("%d accounts, %v", n, err)
		}
	})
}

func accountNames(list []Account) string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"x", "1", "1-x", "-", fmt.Sprint("x-", someAccount())} {
		if _, err := ParseCursor(bad); err == nil {
			t.Errorf("%q is taken for a cursor", bad)
		}
	}
}

func someAccount() string { return Account{ID: 1}.ID.String() }

// BenchmarkSearch looks through ten thousand accounts for what none of them is called.
func BenchmarkSearch(b *testing.B) {
	s := New(sqltest.Open(b, sqltest.SQLite(b)), clock.New(nil), rand.Reader)
	for range 10_000 {
		if _, _, err := s.Create(b.Context(), Params{Name: "Padaria São João"}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if found, err := s.Search(b.Context(), Query{Text: "livraria"}); err != nil || found.Accounts != nil {
			b.Fatal(found, err)
		}
	}
}
