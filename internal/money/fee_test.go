package money

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseFee(t *testing.T) {
	t.Parallel()
	tests := []struct {
		currency Currency
		text     string
		want     Fee
		shown    string
	}{
		{CurrencyBRL, "0", Fee{Amount{CurrencyBRL, 0}, 0}, "0"},
		{CurrencyBRL, "1.00", Fee{Amount{CurrencyBRL, 100}, 0}, "1.00"},
		{CurrencyBRL, "1", Fee{Amount{CurrencyBRL, 100}, 0}, "1.00"},
		{CurrencyBRL, "0.50+0.99%", Fee{Amount{CurrencyBRL, 50}, 9900}, "0.50+0.99%"},
		{CurrencyBRL, "0+1%", Fee{Amount{CurrencyBRL, 0}, 10000}, "0+1%"},
		{CurrencyBRL, "0+0%", Fee{Amount{CurrencyBRL, 0}, 0}, "0"},
		{CurrencyBRL, "0+0.0001%", Fee{Amount{CurrencyBRL, 0}, 1}, "0+0.0001%"},
		{CurrencyBRL, "0+10.50%", Fee{Amount{CurrencyBRL, 0}, 105000}, "0+10.5%"},
		{CurrencyBRL, "0.01+100%", Fee{Amount{CurrencyBRL, 1}, shareWhole}, "0.01+100%"},
		{CurrencyUSDT, "1.00", Fee{Amount{CurrencyUSDT, 1_000_000}, 0}, "1.00"},
		{CurrencyUSDT, "0.000001+1%", Fee{Amount{CurrencyUSDT, 1}, 10000}, "0.000001+1%"},
		{CurrencyUSDT, "0.1250", Fee{Amount{CurrencyUSDT, 125_000}, 0}, "0.125"},
	}
	for _, tt := range tests {
		got, err := ParseFee(tt.currency, tt.text)
		if got != tt.want || err != nil {
			t.Errorf("ParseFee(%s, %q) = %v, %v, want %v", tt.currency, tt.text, got, err, tt.want)
		}
		if got.String() != tt.shown {
			t.Errorf("%q is shown as %s, want %s", tt.text, got, tt.shown)
		}
	}
}

func TestParseFeeRefuses(t *testing.T) {
	t.Parallel()
	const percentage = "the percentage must be a number from 0 to 100 with at most 4 decimals"
	tests := []struct{ text, want string }{
		{"", "the fixed part must be a number"},
		{"free", "the fixed part must be a number"},
		{"1%", "the fixed part must be a number"},
		{"+1%", "the fixed part must be a number"},
		{"1,00", "the fixed part must be a number"},
		{"0.001", "the fixed part has too many decimals"},
		{"1e11", "the fixed part must be at most 9999999999.99"},
		{"1+", "the part after + must end in %"},
		{"1+1", "the part after + must end in %"},
		{"1+1% ", "the part after + must end in %"},
		{"1+%", percentage},
		{"1+1%%", percentage},
		{"1+1%+1%", percentage},
		{"1+ 1%", percentage},
		{"1+0.00001%", percentage},
		{"1+100.0001%", percentage},
		{"-0.01", "may not be negative"},
		{"1+-1%", "may not be negative"},
	}
	for _, tt := range tests {
		_, err := ParseFee(CurrencyBRL, tt.text)
		if err == nil || !strings.HasPrefix(err.Error(), `money: fee "`+tt.text+`": `) || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("ParseFee(%q): %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestFeeOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fee    string
		amount Amount
		want   int64
	}{
		{"0", BRL(100).Amount(), 0},
		{"1.00", BRL(0).Amount(), 100},
		{"0+1%", BRL(0).Amount(), 0},
		{"0+1%", BRL(100).Amount(), 1},
		{"0+1%", BRL(49).Amount(), 0},  // 0.49 of a centavo
		{"0+1%", BRL(50).Amount(), 1},  // exactly half: up
		{"0+1%", BRL(149).Amount(), 1}, // 1.49
		{"0+1%", BRL(150).Amount(), 2}, // 1.50
		{"0+1%", BRL(250).Amount(), 3}, // 2.50: up, not to even
		{"0+0.0001%", BRL(499_999).Amount(), 0},
		{"0+0.0001%", BRL(500_000).Amount(), 1},
		{"0.50+0.99%", BRL(10000).Amount(), 149},
		{"0.50+0.99%", BRL(1050).Amount(), 60}, // 10.395
		{"0+100%", BRLMax.Amount(), int64(BRLMax)},
		{"0+100%", USDTMax.Amount(), int64(USDTMax)},
		{"9999999999.99+100%", USDTMax.Amount(), 2 * int64(USDTMax)},
		{"0+99.9999%", USDTMax.Amount(), 9_999_989_999_990_000},
		{"0.000001+1%", USDT(20_000_000).Amount(), 200_001},
	}
	for _, tt := range tests {
		f, err := ParseFee(tt.amount.Currency, tt.fee)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Of(tt.amount); got != (Amount{tt.amount.Currency, tt.want}) {
			t.Errorf("%s of %s = %v, want %d", tt.fee, tt.amount, got, tt.want)
		}
	}
}

// TestFeeOfExact compares random fees with whole numbers of any size.
func TestFeeOfExact(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	whole := big.NewInt(shareWhole)
	for range 20_000 {
		f := Fee{Amount{CurrencyUSDT, random.Int64N(int64(USDTMax))}, random.Int64N(shareWhole + 1)}
		amount := Amount{CurrencyUSDT, random.Int64N(int64(USDTMax) + 1)}
		want := new(big.Int).Mul(big.NewInt(amount.Units), big.NewInt(f.Share))
		want.Add(want, big.NewInt(shareWhole/2)).Div(want, whole).Add(want, big.NewInt(f.Fixed.Units))
		if got := f.Of(amount); !want.IsInt64() || got.Units != want.Int64() {
			t.Fatalf("%s of %s = %d, want %d", f, amount, got.Units, want)
		}
	}
}

// TestFeeWithin looks for an amount one unit larger that would still fit, and fails when there is one.
func TestFeeWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := Fee{Fixed: BRL(rapid.Int64Range(0, 10_000).Draw(t, "fixed")).Amount(), Share: rapid.Int64Range(0, shareWhole).Draw(t, "share")}
		total := BRL(rapid.OneOf(rapid.Int64Range(-1000, 20_000), rapid.Int64Range(0, 2*int64(BRLMax))).Draw(t, "total")).Amount()
		most := f.Within(total)
		if most.Units < 0 || (most.Units > 0 && most.Units+f.Of(most).Units > total.Units) {
			t.Fatalf("%s with the fee %s is above %s", most, f, total)
		}
		more := Amount{CurrencyBRL, most.Units + 1}
		if more.Units+f.Of(more).Units <= total.Units {
			t.Fatalf("%s with the fee %s is within %s too", more, f, total)
		}
	})
}

func TestFeeOfPanics(t *testing.T) {
	t.Parallel()
	f := Fee{Fixed: BRL(1).Amount()}
	for _, amount := range []Amount{USDT(1).Amount(), BRL(-1).Amount()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a fee in BRL of %s %s", amount, amount.Currency)
				}
			}()
			f.Of(amount)
		}()
	}
}

func FuzzParseFee(f *testing.F) {
	for _, s := range []string{"0", "1.00", "0.50+0.99%", "0+1%", "1+", "1+%", "-1", "1e2+1e1%", "0+100.0001%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, c := range Currencies {
			fee, err := ParseFee(c, s)
			if err != nil {
				continue
			}
			if fee.Fixed.Units < 0 || fee.Share < 0 || fee.Share > shareWhole {
				t.Fatalf("%q: out of range: %+v", s, fee)
			}
			if again, err := ParseFee(c, fee.String()); again != fee || err != nil {
				t.Errorf("%q: %s reads back as %v, %v", s, fee, again, err)
			}
		}
	})
}
