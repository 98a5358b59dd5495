package account

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Query says which accounts an operator looks for.
type Query struct {
	Text   string // part of a name or a document in any case, or the whole acc_...; "" means any
	Status Status // "" means any
	After  Cursor // where the page before ended; zero means the latest account
	Limit  int    // 0 means ListMax, and never more than that
}

// Found is a page of accounts, the latest first.
type Found struct {
	Accounts []Account
	Next     Cursor // where to go on; zero at the end
}

// Cursor is a place in the list of all accounts. The zero Cursor is its beginning.
type Cursor struct {
	createdAt int64 // microseconds UTC
	id        id.Account
}

// IsZero reports whether c is the beginning.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// String writes the cursor for an address; "" for the beginning.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return strconv.FormatInt(c.createdAt, 10) + "-" + c.id.String()
}

// ParseCursor reads what [Cursor.String] wrote.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	micros, number, _ := strings.Cut(text, "-")
	createdAt, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return Cursor{}, wrap(refuse(fault.Invalid, "%q is no place in the list of accounts", text))
	}
	x, err := id.ParseAccount(number)
	return Cursor{createdAt, x}, err
}

const (
	searchSlice = 500    // accounts read at once
	searchMax   = 20_000 // accounts looked at for one page; who wants more goes on from its end
	textMax     = 200    // characters that are looked for
)

// Search returns accounts, the latest first. Names are compared in Go: the two databases do not agree on what the same letters
// are.
func (s *Service) Search(ctx context.Context, q Query) (Found, error) {
	text := fold(strings.TrimSpace(q.Text))
	if len([]rune(text)) > textMax {
		return Found{}, wrap(refuse(fault.Invalid, "look for at most %d characters", textMax))
	}
	if number, err := id.ParseAccount(text); err == nil {
		a, err := getAccount(ctx, s.db, number)
		if fault.As(err).Kind == fault.NotFound {
			return Found{}, nil
		}
		return Found{Accounts: []Account{a}}, wrap(err)
	}
	if q.Limit <= 0 || q.Limit > ListMax {
		q.Limit = ListMax
	}
	at := q.After
	if at.IsZero() {
		at = Cursor{createdAt: math.MaxInt64, id: id.Account(math.MaxInt64)}
	}
	var found Found
	for looked := 0; looked < searchMax; looked += searchSlice {
		slice, err := sqldb.All(ctx, s.db, scanAccount, selectLatestSQL, at.createdAt, int64(at.id), searchSlice)
		if err != nil {
			return Found{}, wrap(err)
		}
		for i := range slice {
			a := &slice[i]
			if !a.matches(text, q.Status) {
				at = a.cursor()
				continue
			}
			if len(found.Accounts) == q.Limit { // there is one more
				found.Next = found.Accounts[q.Limit-1].cursor()
				return found, nil
			}
			at = a.cursor()
			found.Accounts = append(found.Accounts, *a)
		}
		if len(slice) < searchSlice {
			return found, nil
		}
	}
	found.Next = at
	return found, nil
}

func (a *Account) cursor() Cursor { return Cursor{a.CreatedAt.UnixMicro(), a.ID} }

// matches reports whether an operator who looks for a folded text and a status means a.
func (a *Account) matches(text string, status Status) bool {
	if status != "" && a.Settings.Status != status {
		return false
	}
	return text == "" || strings.Contains(fold(a.Name), text) || strings.Contains(fold(a.Document), text)
}

// plainLetters are Portuguese letters without their accents.
var plainLetters = strings.NewReplacer("á", "a", "à", "a", "â", "a", "ã", "a", "é", "e", "ê", "e", "í", "i", "ó", "o", "ô", "o", "õ", "o",
	"ú", "u", "ü", "u", "ç", "c")

// fold returns what two texts have in common that people take for the same.
func fold(s string) string { return plainLetters.Replace(strings.ToLower(s)) }

// Count returns how many accounts there are.
func Count(ctx context.Context, q sqldb.Querier) (int64, error) {
	n, err := sqldb.One(ctx, q, sqldb.Scalar[int64], countAccountsSQL)
	return n, wrap(err)
}
