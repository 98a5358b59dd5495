package id

import "strings"

// tokenVersion begins every token, so that another layout can be told apart later.
const tokenVersion = "1"

// TokenLen is the length of a token: the longest that Pix allows.
const TokenLen = len(tokenVersion) + textLen + accountTextLen

// Token returns the name by which an acquirer or a provider knows a thing: its identifier and its account in 35
// characters of the alphabet that every one of them accepts. What comes back with it tells whose it is.
func Token(x ID, a Account) string {
	return tokenVersion + x.String() + strings.TrimPrefix(a.String(), accountPrefix)
}

// ParseToken reads what [Token] wrote, in any case, because some systems fold it.
func ParseToken(s string) (ID, Account, error) {
	s = strings.ToLower(s)
	if len(s) != TokenLen || !strings.HasPrefix(s, tokenVersion) {
		return ID{}, 0, ErrSyntax
	}
	cut := len(tokenVersion) + textLen
	x, err := Parse(s[len(tokenVersion):cut])
	if err != nil {
		return ID{}, 0, err
	}
	a, err := ParseAccount(accountPrefix + s[cut:])
	if err != nil {
		return ID{}, 0, ErrSyntax
	}
	return x, a, nil
}
