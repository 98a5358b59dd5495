package id

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
)

func TestAccount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		account Account
		text    string
	}{
		{1, "acc_00000001"},
		{31, "acc_0000000z"},
		{32, "acc_00000010"},
		{1<<accountBits - 1, "acc_zzzzzzzz"},
	}
	for _, tt := range tests {
		if got := tt.account.String(); got != tt.text {
			t.Errorf("%d is written %s, want %s", tt.account, got, tt.text)
		}
		if got, err := ParseAccount(tt.text); got != tt.account || err != nil {
			t.Errorf("ParseAccount(%s) = %d, %v", tt.text, got, err)
		}
	}
	for _, s := range []string{"", "acc_", "acc_0000001", "acc_000000001", "chg_00000001", "ACC_00000001", "acc_0000000Z", "acc_0000000u", "acc_0000000é"} {
		if got, err := ParseAccount(s); got != 0 || err == nil || !strings.HasPrefix(err.Error(), "id: ") {
			t.Errorf("ParseAccount(%q) = %d, %v", s, got, err)
		}
	}
}

func TestNewAccount(t *testing.T) {
	t.Parallel()
	seen := map[Account]bool{}
	for range 1000 {
		a := NewAccount(rand.Reader)
		if a <= 0 || a >= 1<<accountBits {
			t.Fatalf("%d has more than %d bits", a, accountBits)
		}
		seen[a] = true
	}
	if len(seen) < 990 {
		t.Errorf("1000 draws gave %d accounts", len(seen))
	}

	// Zero means none, so a draw of it does not count.
	draws := append(make([]byte, 8), 0, 0, 0, 0, 9, 0, 0, 0)
	if got := NewAccount(bytes.NewReader(draws)); got != 9 {
		t.Errorf("got %d, want the second draw, 9", got)
	}
}

func FuzzParseAccount(f *testing.F) {
	for _, s := range []string{"acc_00000001", "acc_zzzzzzzz", "acc_", "acc_0000000Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := ParseAccount(s); err == nil && (a.String() != s || a < 0 || a >= 1<<accountBits) {
			t.Errorf("%q is %d, which is written %s", s, a, a)
		}
	})
}
