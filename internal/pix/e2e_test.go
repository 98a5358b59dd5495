package pix

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseEndToEndID(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.November, 15, 23, 59, 0, 0, time.UTC)
	for text, want := range map[string]EndToEndID{
		"E12345678202611152359aB3dE6gH9jK": {EndToEndPix, "12345678", at, "aB3dE6gH9jK"},
		"D1A2B3C4D202611152359ABCDEFGHIJK": {EndToEndReturn, "1A2B3C4D", at, "ABCDEFGHIJK"},
	} {
		got, err := ParseEndToEndID(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
		if got.String() != text {
			t.Errorf("%s is written %s", text, got)
		}
	}
	const good = "E12345678202611152359aB3dE6gH9jK"
	for _, text := range []string{
		"", good[1:], good + "x", "e" + good[1:], "R" + good[1:],
		strings.Replace(good, "12345678", "1234567a", 1),
		strings.Replace(good, "12345678", "1234567-", 1),
		strings.Replace(good, "202611152359", "202613152359", 1),
		strings.Replace(good, "202611152359", "202602302359", 1),
		strings.Replace(good, "202611152359", "202611152459", 1),
		strings.Replace(good, "202611152359", "202611152360", 1),
		strings.Replace(good, "202611152359", "2026 1152359", 1),
		strings.Replace(good, "aB3", "aB-", 1),
		strings.Replace(good, "aB3", "aé", 1),
	} {
		if got, err := ParseEndToEndID(text); err == nil || got != (EndToEndID{}) {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestIsEndToEndID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"E12345678202611152359aB3dE6gH9jK":  true,
		"E1234567820261115235900001":        true, // 26, as in one acquirer's documents
		"E12345678202611152359aB3dE6gH9jKL": true, // 33, as in another's sandbox
		strings.Repeat("a", 64):             true,
		strings.Repeat("a", 65):             false,
		"":                                  false,
		"E12345678/20261115":                false,
		"é":                                 false,
	} {
		if got := IsEndToEndID(text); got != want {
			t.Errorf("IsEndToEndID(%q) = %t", text, got)
		}
	}
}

func TestNewEndToEndID(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.November, 15, 21, 30, 59, 999, time.FixedZone("BRT", -3*60*60))
	tests := []struct {
		kind   EndToEndKind
		random string
		want   string
	}{
		{EndToEndPix, "\x00\x00\x00\x00\x00\x00\x00\x00", "E9999999920261116003000000000000"},
		{EndToEndReturn, "\xff\xff\xff\xff\xff\xff\xff\xff", "D99999999202611160030LygHa16AHYF"},
	}
	for _, tt := range tests {
		got, err := NewEndToEndID(tt.kind, "99999999", at, strings.NewReader(tt.random))
		if got.String() != tt.want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, tt.want)
		}
		if again, err := ParseEndToEndID(got.String()); again != got || err != nil {
			t.Errorf("%s is read as %+v, %v", got, again, err)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		e, err := NewEndToEndID(EndToEndPix, "99999999", at, rand.Reader)
		if err != nil || len(e.String()) != endToEndLen {
			t.Fatal(e, err)
		}
		seen[e.String()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1000 ids are %d", len(seen))
	}

	if _, err := NewEndToEndID('X', "99999999", at, rand.Reader); err == nil {
		t.Error("kind X is taken")
	}
	if _, err := NewEndToEndID(EndToEndPix, "9999", at, rand.Reader); err == nil {
		t.Error("ISPB 9999 is taken")
	}
	if _, err := NewEndToEndID(EndToEndPix, "99999999", at.AddDate(9000, 0, 0), rand.Reader); err == nil {
		t.Error("a year of five digits is taken")
	}
	if _, err := NewEndToEndID(EndToEndPix, "99999999", at, bytes.NewReader(nil)); err == nil {
		t.Error("no randomness is needed")
	}
}

func FuzzParseEndToEndID(f *testing.F) {
	f.Add("E12345678202611152359aB3dE6gH9jK")
	f.Add("D1A2B3C4D202402292359ABCDEFGHIJK")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEndToEndID(s)
		if err == nil && (e.String() != s || !IsEndToEndID(s)) {
			t.Errorf("%q is read as %s", s, e)
		}
	})
}

func TestTxID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text           string
		txID, ofCharge bool
	}{
		{"", false, false},
		{"a", true, false},
		{"***", false, false},
		{strings.Repeat("aZ09x", 5), true, false},
		{strings.Repeat("aZ09x", 5) + "1", true, true},
		{strings.Repeat("aZ09x", 7), true, true},
		{strings.Repeat("aZ09x", 7) + "1", false, false},
		{strings.Repeat("a", 26) + "-", false, false},
		{strings.Repeat("a", 26) + "é", false, false},
		{strings.Repeat("a", 26) + "\n", false, false},
	}
	for _, tt := range tests {
		if got := IsTxID(tt.text); got != tt.txID {
			t.Errorf("IsTxID(%q) = %t", tt.text, got)
		}
		if got := IsChargeTxID(tt.text); got != tt.ofCharge {
			t.Errorf("IsChargeTxID(%q) = %t", tt.text, got)
		}
	}
}
