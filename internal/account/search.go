package account

import (
	"context"
	"math"
	"strconv"
	"strings"
	"unicode"

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
	searchSlice = 1000   // accounts read at once
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
	// As few as can be are read where all match, and more where a search goes on.
	for looked, slice := 0, q.Limit+1; looked < searchMax; looked, slice = looked+slice, searchSlice {
		candidates, err := sqldb.All(ctx, s.db, scanCandidate, selectLatestSQL, at.createdAt, int64(at.id), slice)
		if err != nil {
			return Found{}, wrap(err)
		}
		for _, c := range candidates {
			if c.matches(text, q.Status) {
				if len(found.Accounts) == q.Limit { // there is one more
					found.Next = at
					return found, nil
				}
				a, err := getAccount(ctx, s.db, c.id)
				if err != nil {
					return Found{}, wrap(err)
				}
				found.Accounts = append(found.Accounts, a)
			}
			at = c.Cursor
		}
		if len(candidates) < slice {
			return found, nil
		}
	}
	found.Next = at
	return found, nil
}

// candidate is what a search compares of an account.
type candidate struct {
	Cursor
	name     string
	document string
	status   Status
}

func scanCandidate(r sqldb.Row) (c candidate, err error) {
	err = r.Scan(&c.id, &c.createdAt, &c.name, &c.document, &c.status)
	return c, err
}

// matches reports whether an operator who looks for a folded text and a status means it.
func (c *candidate) matches(text string, status Status) bool {
	if status != "" && c.status != status {
		return false
	}
	return text == "" || strings.Contains(fold(c.name), text) || strings.Contains(fold(c.document), text)
}

// fold returns what two texts have in common that people take for the same: no case, and no accents of Portuguese.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r = unicode.ToLower(r); r {
		case 'á', 'à', 'â', 'ã':
			return 'a'
		case 'é', 'ê':
			return 'e'
		case 'í':
			return 'i'
		case 'ó', 'ô', 'õ':
			return 'o'
		case 'ú', 'ü':
			return 'u'
		case 'ç':
			return 'c'
		}
		return r
	}, s)
}

// Count returns how many accounts there are.
func Count(ctx context.Context, q sqldb.Querier) (int64, error) {
	n, err := sqldb.One(ctx, q, sqldb.Scalar[int64], countAccountsSQL)
	return n, wrap(err)
}
