package money

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const brlMax, usdtMax = int64(BRLMax), int64(USDTMax)
	tests := []struct {
		text          string
		brl, usdt     int64
		brlErr, usErr error
	}{
		{"0", 0, 0, nil, nil},
		{"-0", 0, 0, nil, nil},
		{"0.000000000", 0, 0, nil, nil},
		{"0e400", 0, 0, nil, nil},
		{"10", 1000, 10_000_000, nil, nil},
		{"10.5", 1050, 10_500_000, nil, nil},
		{"10.500", 1050, 10_500_000, nil, nil},
		{"-10.50", -1050, -10_500_000, nil, nil},
		{"1e1", 1000, 10_000_000, nil, nil},
		{"1E+1", 1000, 10_000_000, nil, nil},
		{"105e-1", 1050, 10_500_000, nil, nil},
		{"0.00000105e7", 1050, 10_500_000, nil, nil},
		{"0.01", 1, 10_000, nil, nil},
		{"10.001", 0, 10_001_000, ErrDecimals, nil},
		{"10.999", 0, 10_999_000, ErrDecimals, nil},
		{"0.000001", 0, 1, ErrDecimals, nil},
		{"0.0000001", 0, 0, ErrDecimals, ErrDecimals},
		{"1e-400", 0, 0, ErrDecimals, ErrDecimals},
		{"1e-99999999999999999999", 0, 0, ErrDecimals, ErrDecimals},
		{"9999999999.99", brlMax, usdtMax, nil, nil},
		{"-9999999999.99", -brlMax, -usdtMax, nil, nil},
		{"9999999999.990000", brlMax, usdtMax, nil, nil},
		{"9999999999.990001", 0, 0, ErrDecimals, ErrRange},
		{"10000000000", 0, 0, ErrRange, ErrRange},
		{"-10000000000", 0, 0, ErrRange, ErrRange},
		{"92233720368547758.08", 0, 0, ErrRange, ErrRange},
		{"1e400", 0, 0, ErrRange, ErrRange},
		{"1e99999999999999999999", 0, 0, ErrRange, ErrRange},
		{"1." + strings.Repeat("0", digitsMax-2), 100, 1_000_000, nil, nil},
		{"1." + strings.Repeat("0", digitsMax-1), 0, 0, ErrLength, ErrLength},
		{"", 0, 0, ErrSyntax, ErrSyntax},
		{"-", 0, 0, ErrSyntax, ErrSyntax},
		{"+1", 0, 0, ErrSyntax, ErrSyntax},
		{"--1", 0, 0, ErrSyntax, ErrSyntax},
		{"01", 0, 0, ErrSyntax, ErrSyntax},
		{"-01", 0, 0, ErrSyntax, ErrSyntax},
		{".5", 0, 0, ErrSyntax, ErrSyntax},
		{"1.", 0, 0, ErrSyntax, ErrSyntax},
		{"1.2.3", 0, 0, ErrSyntax, ErrSyntax},
		{"1,5", 0, 0, ErrSyntax, ErrSyntax},
		{"1_000", 0, 0, ErrSyntax, ErrSyntax},
		{"1e", 0, 0, ErrSyntax, ErrSyntax},
		{"1e+-1", 0, 0, ErrSyntax, ErrSyntax},
		{"1e--1", 0, 0, ErrSyntax, ErrSyntax},
		{"1e1.0", 0, 0, ErrSyntax, ErrSyntax},
		{"1e1e1", 0, 0, ErrSyntax, ErrSyntax},
		{"e1", 0, 0, ErrSyntax, ErrSyntax},
		{" 1", 0, 0, ErrSyntax, ErrSyntax},
		{"1 ", 0, 0, ErrSyntax, ErrSyntax},
		{"0x10", 0, 0, ErrSyntax, ErrSyntax},
		{"NaN", 0, 0, ErrSyntax, ErrSyntax},
		{"Infinity", 0, 0, ErrSyntax, ErrSyntax},
		{"١", 0, 0, ErrSyntax, ErrSyntax},
	}
	for _, tt := range tests {
		if got, err := ParseBRL(tt.text); int64(got) != tt.brl || !errors.Is(err, tt.brlErr) {
			t.Errorf("ParseBRL(%q) = %d, %v, want %d, %v", tt.text, got, err, tt.brl, tt.brlErr)
		}
		if got, err := ParseUSD(tt.text); int64(got) != tt.brl || !errors.Is(err, tt.brlErr) {
			t.Errorf("ParseUSD(%q) = %d, %v, want %d, %v", tt.text, got, err, tt.brl, tt.brlErr)
		}
		if got, err := ParseUSDT(tt.text); int64(got) != tt.usdt || !errors.Is(err, tt.usErr) {
			t.Errorf("ParseUSDT(%q) = %d, %v, want %d, %v", tt.text, got, err, tt.usdt, tt.usErr)
		}
		if got, err := ParseAmount(CurrencyBRL, tt.text); got != (Amount{CurrencyBRL, tt.brl}) || !errors.Is(err, tt.brlErr) {
			t.Errorf("ParseAmount(BRL, %q) = %v, %v", tt.text, got, err)
		}
		if got, err := ParseAmount(CurrencyUSDT, tt.text); got != (Amount{CurrencyUSDT, tt.usdt}) || !errors.Is(err, tt.usErr) {
			t.Errorf("ParseAmount(USDT, %q) = %v, %v", tt.text, got, err)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		units     int64
		brl, usdt string
	}{
		{0, "0.00", "0.000000"},
		{1, "0.01", "0.000001"},
		{-1, "-0.01", "-0.000001"},
		{10, "0.10", "0.000010"},
		{100, "1.00", "0.000100"},
		{1050, "10.50", "0.001050"},
		{-123456789, "-1234567.89", "-123.456789"},
		{int64(BRLMax), "9999999999.99", "999999.999999"},
		{int64(USDTMax), "99999999999900.00", "9999999999.990000"},
		{math.MaxInt64, "92233720368547758.07", "9223372036854.775807"},
		{math.MinInt64, "-92233720368547758.08", "-9223372036854.775808"},
	}
	for _, tt := range tests {
		brl, usdt := BRL(tt.units), USDT(tt.units)
		for _, got := range []string{brl.String(), brl.Amount().String(), marshal(t, brl), USD(brl).String(), marshal(t, USD(brl))} {
			if got != tt.brl {
				t.Errorf("%d centavos are %s, want %s", tt.units, got, tt.brl)
			}
		}
		for _, got := range []string{usdt.String(), usdt.Amount().String(), marshal(t, usdt)} {
			if got != tt.usdt {
				t.Errorf("%d millionths are %s, want %s", tt.units, got, tt.usdt)
			}
		}
	}
	if got := (Amount{Currency: CurrencyUSDT, Units: 5}); USDT(5).Amount() != got || BRL(5).Amount() == got {
		t.Error("an amount lost its currency")
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseCurrency(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Currency{"BRL": CurrencyBRL, "brl": CurrencyBRL, "Usdt": CurrencyUSDT} {
		if got, err := ParseCurrency(text); got != want || err != nil {
			t.Errorf("ParseCurrency(%q) = %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "USD", "BRL "} {
		if got, err := ParseCurrency(text); got != "" || err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("ParseCurrency(%q) = %q, %v", text, got, err)
		}
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// FuzzParseBRL compares with exact fractions, in which a number is an amount if it is a whole number of centavos.
func FuzzParseBRL(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "10.5", "10.001", "1e400", "1e-400", "9999999999.99", "10000000000", "9999999999.995", "0.0000000001e10", "1e99999999999999999999", "01", "1.",
	} {
		f.Add(s)
	}
	limit := new(big.Rat).SetFrac64(int64(BRLMax), 100)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseBRL(s)
		if len(s) > digitsMax || !jsonNumber.MatchString(s) {
			if got != 0 || (!errors.Is(err, ErrSyntax) && !errors.Is(err, ErrLength)) {
				t.Errorf("%q: got %v, %v", s, got, err)
			}
			return
		}
		want, ok := exact(s)
		if !ok {
			t.Skip("too large to write out")
		}
		centavos := new(big.Rat).Mul(want, big.NewRat(100, 1))
		tooLarge, tooFine := new(big.Rat).Abs(want).Cmp(limit) > 0, !centavos.IsInt()
		switch {
		case err == nil:
			if tooLarge || tooFine || centavos.Num().Int64() != int64(got) {
				t.Errorf("%q: got %d, want %v centavos", s, got, centavos)
			}
			if again, err := ParseBRL(got.String()); again != got || err != nil {
				t.Errorf("%q: %v reads back as %v, %v", s, got, again, err)
			}
		case errors.Is(err, ErrRange) && tooLarge, errors.Is(err, ErrDecimals) && tooFine:
			if got != 0 {
				t.Errorf("%q: got %v beside %v", s, got, err)
			}
		default:
			t.Errorf("%q: got %v, want %v", s, err, want)
		}
	})
}

// exact returns s as a fraction, unless its exponent would make it fill the memory.
func exact(s string) (*big.Rat, bool) {
	const exponentMax = 1000
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		if n, err := strconv.Atoi(s[at+1:]); err != nil || n > exponentMax || n < -exponentMax {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}
