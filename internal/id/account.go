package id

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Account identifies an account: a random number of 40 bits. It is random because it can be read out of what payers
// see, and a sequential one would tell them how many merchants there are. Zero means none.
type Account int64

const (
	accountPrefix  = "acc_"
	accountTextLen = 8
	accountBits    = 40
)

// NewAccount draws an account number. Two draws can collide, so storing it must be able to fail.
func NewAccount(random io.Reader) Account {
	for {
		var b [8]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			panic("id: no randomness: " + err.Error())
		}
		if a := Account(binary.BigEndian.Uint64(b[:]) >> (64 - accountBits)); a != 0 {
			return a
		}
	}
}

// String returns the account as people see it: acc_ and eight characters of base32.
func (a Account) String() string {
	b := [accountTextLen]byte{}
	v := uint64(a)
	for i := accountTextLen - 1; i >= 0; i-- {
		b[i] = alphabet[v&31]
		v >>= 5
	}
	return accountPrefix + string(b[:])
}

// ParseAccount reads what [Account.String] wrote.
func ParseAccount(s string) (Account, error) {
	rest, ok := strings.CutPrefix(s, accountPrefix)
	if !ok || len(rest) != accountTextLen {
		return 0, fmt.Errorf("id: %q is no account: want acc_ and %d characters", s, accountTextLen)
	}
	var a Account
	for i := range accountTextLen {
		v := strings.IndexByte(alphabet, rest[i])
		if v < 0 {
			return 0, fmt.Errorf("id: %q is no account: %q is not a character of base32", s, rest[i])
		}
		a = a<<5 | Account(v)
	}
	return a, nil
}
