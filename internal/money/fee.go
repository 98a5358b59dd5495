package money

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Fee is what an operation costs: a fixed amount plus a share of the operation's amount.
//
// The share is rounded half up to the smallest unit of the currency; a fee is never below zero.
type Fee struct {
	Fixed Amount
	Share int64 // in millionths of the amount: 1 % is 10000
}

const (
	shareDecimals = 4       // of a percentage: 0.9999% is the finest
	sharePercent  = 10000   // the share that is one percent
	shareWhole    = 1000000 // the share that is the whole amount
)

// ParseFee reads FIXED[+PERCENT%], such as 1.00, 0.50+0.99% or 0+1%, in currency c.
func ParseFee(c Currency, s string) (Fee, error) {
	fixed, percent, both := strings.Cut(s, "+")
	amount, err := ParseAmount(c, fixed)
	if err != nil {
		return Fee{}, fmt.Errorf("money: fee %q: the fixed part %w", s, err)
	}
	f := Fee{Fixed: amount}
	if both {
		digits, ok := strings.CutSuffix(percent, "%")
		if !ok {
			return Fee{}, fmt.Errorf("money: fee %q: the part after + must end in %%", s)
		}
		if f.Share, err = parse(digits, shareDecimals, shareWhole); err != nil {
			return Fee{}, fmt.Errorf("money: fee %q: the percentage must be a number from 0 to 100 with at most %d decimals", s, shareDecimals)
		}
	}
	if f.Fixed.Units < 0 || f.Share < 0 {
		return Fee{}, fmt.Errorf("money: fee %q: may not be negative", s)
	}
	return f, nil
}

// String returns the fee as [ParseFee] reads it, in its shortest usual form: 0, 1.00 or 0.50+0.99%.
func (f Fee) String() string {
	s := "0"
	if f.Fixed.Units != 0 {
		s = f.Fixed.String()
		cents := strings.IndexByte(s, '.') + 1 + brlDecimals // every currency shows two decimals
		s = s[:cents] + strings.TrimRight(s[cents:], "0")
	}
	if f.Share == 0 {
		return s
	}
	percent := strconv.FormatInt(f.Share/sharePercent, 10)
	if rest := f.Share % sharePercent; rest != 0 {
		percent += "." + strings.TrimRight(fmt.Sprintf("%0*d", shareDecimals, rest), "0")
	}
	return s + "+" + percent + "%"
}

// Of returns the fee of an operation of that amount, which must be in the fee's currency and not negative.
func (f Fee) Of(amount Amount) Amount {
	if amount.Currency != f.Fixed.Currency || amount.Units < 0 {
		panic(fmt.Sprintf("money: fee in %s of %s %s", f.Fixed.Currency, amount, amount.Currency))
	}
	// 128 bits, because the largest USDT amount times a share does not fit in 64.
	high, low := bits.Mul64(uint64(amount.Units), uint64(f.Share))
	low, carry := bits.Add64(low, shareWhole/2, 0)
	share, _ := bits.Div64(high+carry, low, shareWhole)
	return Amount{amount.Currency, f.Fixed.Units + int64(share)}
}

// Within returns the largest amount that together with its fee is at most total, or zero when there is none.
func (f Fee) Within(total Amount) Amount {
	most := Amount{Currency: total.Currency}
	left := total.Units - f.Fixed.Units
	if left <= 0 {
		return most
	}
	// Without the rounding it would be exactly this; the rounding moves it by one unit at most.
	high, low := bits.Mul64(uint64(left), shareWhole)
	units, _ := bits.Div64(high, low, uint64(shareWhole+f.Share))
	for most.Units = int64(units) + 1; most.Units > 0 && most.Units+f.Of(most).Units > total.Units; most.Units-- {
	}
	return most
}
