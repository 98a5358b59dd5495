package account

import (
	"crypto/rand"
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
)

var (
	somePrefix = "01ab23ef"
	someSecret = strings.Repeat("0123456789abcdef", 3)
	someKey    = "bp_" + somePrefix + "_" + someSecret
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	if prefix, secret, ok := parseKey(someKey); !ok || prefix != somePrefix || secret != someSecret {
		t.Errorf("parseKey(%s) = %s, %s, %v", someKey, prefix, secret, ok)
	}
	for _, bad := range []string{
		"",
		"bp_",
		someKey[:len(someKey)-1],
		someKey + "0",
		" " + someKey[1:],
		strings.ToUpper(someKey),
		strings.Replace(someKey, "a", "A", 1),
		strings.Replace(someKey, "bp_", "bq_", 1),
		strings.Replace(someKey, "ef_", "ef-", 1),
		strings.Replace(someKey, "01ab", "01ag", 1),
		someKey[:len(someKey)-1] + "g",
		someKey[:len(someKey)-1] + "\x00",
		someKey[:len(someKey)-2] + "é",
	} {
		if _, _, ok := parseKey(bad); ok {
			t.Errorf("parseKey(%q) took it", bad)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add(someKey)
	f.Add("bp_01ab23ef_")
	f.Add(strings.Repeat("_", keyChars))
	exact := regexp.MustCompile(`\Abp_[0-9a-f]{8}_[0-9a-f]{48}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		prefix, secret, ok := parseKey(s)
		if ok != exact.MatchString(s) || ok && s != "bp_"+prefix+"_"+secret {
			t.Errorf("parseKey(%q) = %q, %q, %v", s, prefix, secret, ok)
		}
	})
}

func TestNewKey(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1).UTC()
	k := newKey(rand.Reader, 7, AllScopes, now)
	prefix, secret, ok := parseKey(k.text)
	if !ok || prefix != k.Prefix || k.hash != sha256.Sum256([]byte(secret)) {
		t.Errorf("%+v is no key", k)
	}
	if want := (Key{Prefix: prefix, Account: 7, Scopes: AllScopes, CreatedAt: now}); k.Key != want {
		t.Errorf("key %+v, want %+v", k.Key, want)
	}
	if other := newKey(rand.Reader, 7, AllScopes, now); other.text == k.text {
		t.Error("two keys are the same")
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	const all = "charges:read,charges:write,payouts:read,payouts:write,transactions:read,balance:read,med:read,med:write"
	if AllScopes.String() != all {
		t.Errorf("all scopes are %s, want %s", AllScopes, all)
	}
	for i, name := range scopeNames {
		s, err := ParseScopes(name)
		if err != nil || s != 1<<i || s.String() != name || !AllScopes.Has(s) {
			t.Errorf("ParseScopes(%s) = %08b, %v", name, s, err)
		}
	}
	for _, test := range []struct {
		give string
		want Scopes
	}{
		{all, AllScopes},
		{"med:write, charges:read,med:write", ScopeChargesRead | ScopeMEDWrite},
		{"transactions:read,balance:read", ScopeTransactionsRead | ScopeBalanceRead},
	} {
		if got, err := ParseScopes(test.give); err != nil || got != test.want {
			t.Errorf("ParseScopes(%s) = %s, %v, want %s", test.give, got, err, test.want)
		}
	}
	if s := ScopeChargesRead | ScopeMEDRead; s.Has(ScopeChargesWrite) || s.Has(ScopeMEDRead|ScopeMEDWrite) || !s.Has(s) {
		t.Errorf("%s has what it has not, or has not what it has", s)
	}
	for give, unknown := range map[string]string{"": `""`, "charges": `"charges"`, "charges:read,": `""`, "Charges:Read": `"Charges:Read"`} {
		_, err := ParseScopes(give)
		wantFault(t, err, fault.Invalid, "unknown scope "+unknown+": use one or more of "+all)
	}
}
