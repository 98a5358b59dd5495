package account

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
)

// ErrBadKey is returned for a key that is malformed, unknown or revoked. It does not tell which.
var ErrBadKey = errors.New("account: no such key")

// Scopes is a set of what a key may do. A single scope is the set of itself.
type Scopes uint8

const (
	ScopeChargesRead      Scopes = 1 << iota // see charges, Pix and crypto
	ScopeChargesWrite                        // create charges, Pix and crypto
	ScopePayoutsRead                         // see payouts, Pix and crypto
	ScopePayoutsWrite                        // create payouts, Pix and crypto
	ScopeTransactionsRead                    // see the list of transactions
	ScopeBalanceRead                         // see the balance
	ScopeMEDRead                             // see infractions
	ScopeMEDWrite                            // defend against infractions

	// AllScopes is full access, as a key has when nobody chose less.
	AllScopes = ScopeChargesRead | ScopeChargesWrite | ScopePayoutsRead | ScopePayoutsWrite |
		ScopeTransactionsRead | ScopeBalanceRead | ScopeMEDRead | ScopeMEDWrite
)

// scopeNames are the names in the order of their bits.
var scopeNames = []string{
	"charges:read", "charges:write", "payouts:read", "payouts:write",
	"transactions:read", "balance:read", "med:read", "med:write",
}

// ParseScopes reads at least one name, separated by commas.
func ParseScopes(s string) (Scopes, error) {
	set, err := parseScopes(s)
	if err != nil {
		return 0, wrap(err)
	}
	return set, nil
}

func parseScopes(s string) (Scopes, error) {
	set, unknown, ok := parseNames(scopeNames, s)
	if !ok {
		return 0, refuse(fault.Invalid, "unknown scope %q: use one or more of %s", unknown, strings.Join(scopeNames, ","))
	}
	return Scopes(set), nil
}

// Has reports whether every scope of some is in s.
func (s Scopes) Has(some Scopes) bool { return s&some == some }

// Names returns the names in their order.
func (s Scopes) Names() []string { return names(scopeNames, uint8(s)) }

// String returns the names separated by commas, as [ParseScopes] reads them.
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// Key is an API key as it is stored: without its secret, which nobody can tell any more.
type Key struct {
	Prefix    string // the 8 hex digits that name it
	Account   id.Account
	Scopes    Scopes
	CreatedAt time.Time // business time in UTC, to the microsecond
	RevokedAt time.Time // the same; zero while the key works
	UsedAt    time.Time // the same, to the minute; zero when it never was
}

// A key is written bp_<8 hex>_<48 hex>: the first part names it, the second is its secret.
const (
	keyMark     = "bp_"
	prefixChars = 8
	secretChars = 48
	keyChars    = len(keyMark) + prefixChars + len("_") + secretChars
)

// parseKey cuts a presented key into its parts. It takes nothing but the exact form, in lower case.
func parseKey(s string) (prefix, secret string, ok bool) {
	const secretAt = keyChars - secretChars
	if len(s) != keyChars || s[:len(keyMark)] != keyMark || s[secretAt-1] != '_' {
		return "", "", false
	}
	prefix, secret = s[len(keyMark):secretAt-1], s[secretAt:]
	return prefix, secret, isHex(prefix) && isHex(secret)
}

// LooksLikeKey reports whether s begins as every key does, so that it is one or was meant to be.
func LooksLikeKey(s string) bool { return strings.HasPrefix(s, keyMark) }

// isPrefix reports whether s could name a key.
func isPrefix(s string) bool { return len(s) == prefixChars && isHex(s) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// secretHash is the SHA-256 of a secret's 48 characters. A secret has 192 random bits, so that a slow hash would add nothing.
type secretHash [sha256.Size]byte

func hashSecret(secret string) secretHash {
	var b [secretChars]byte
	copy(b[:], secret)
	return sha256.Sum256(b[:])
}

// equal compares in constant time.
func (h *secretHash) equal(other *secretHash) bool {
	return subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

// freshKey is a key whose secret is still known.
type freshKey struct {
	Key
	hash secretHash
	text string // the whole key, to be shown once
	once string // names the form that asked for it; "" for none
}

// newKey draws a key. Two draws can have one prefix, so storing it must be able to fail.
func newKey(random io.Reader, account id.Account, scopes Scopes, now time.Time) freshKey {
	var b [(prefixChars + secretChars) / 2]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		panic("account: no randomness: " + err.Error())
	}
	digits := hex.EncodeToString(b[:])
	prefix, secret := digits[:prefixChars], digits[prefixChars:]
	return freshKey{
		Key:  Key{Prefix: prefix, Account: account, Scopes: scopes, CreatedAt: now},
		hash: hashSecret(secret),
		text: keyMark + prefix + "_" + secret,
	}
}
