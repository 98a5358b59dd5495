// Package money holds amounts as whole numbers of their smallest unit and reads and writes them digit by digit, so that
// no amount is ever rounded by accident.
package money

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Currency is a ledger's currency. Amounts of two currencies never meet.
type Currency string

const (
	CurrencyBRL  Currency = "BRL"  // Brazilian real, kept in centavos
	CurrencyUSDT Currency = "USDT" // Tether, kept in millionths
)

// Currencies are all currencies that a ledger can hold, in the order in which people see them.
var Currencies = []Currency{CurrencyBRL, CurrencyUSDT}

// ParseCurrency returns the currency with that name, in any case.
func ParseCurrency(s string) (Currency, error) {
	for _, c := range Currencies {
		if strings.EqualFold(string(c), s) {
			return c, nil
		}
	}
	return "", fmt.Errorf("money: unknown currency %q: use BRL or USDT", s)
}

// decimals is how many digits stand behind the point of an amount in c.
func (c Currency) decimals() int {
	if c == CurrencyUSDT {
		return usdtDecimals
	}
	return brlDecimals
}

const (
	brlDecimals  = 2
	usdDecimals  = 2
	usdtDecimals = 6
)

// The largest amount of one operation, 9999999999.99 in either currency.
const (
	BRLMax  BRL  = 999_999_999_999
	USDTMax USDT = 9_999_999_999_990_000
)

// Why a text is not an amount. Messages are fit for the person who sent it.
var (
	ErrSyntax   = errors.New("must be a number")
	ErrDecimals = errors.New("has too many decimals")
	ErrRange    = errors.New("must be at most 9999999999.99")
	ErrLength   = fmt.Errorf("must be a number of at most %d characters", digitsMax)
)

// BRL is an amount of Brazilian reais in centavos.
type BRL int64

// ParseBRL reads a decimal number, as in JSON, with at most two decimals by value: 10.500 is fine, 10.001 is not.
func ParseBRL(s string) (BRL, error) {
	n, err := parse(s, brlDecimals, int64(BRLMax))
	return BRL(n), err
}

// String returns the amount with both decimals, such as 10.50.
func (a BRL) String() string { return format(int64(a), brlDecimals) }

// MarshalJSON writes the amount as a JSON number from its digits.
func (a BRL) MarshalJSON() ([]byte, error) { return []byte(format(int64(a), brlDecimals)), nil }

// Amount returns a with its currency.
func (a BRL) Amount() Amount { return Amount{CurrencyBRL, int64(a)} }

// USD is a price in US dollars, in cents. No ledger holds it, and it is never taken for USDT.
type USD int64

const usdMax = 999_999_999_999 // cents of the largest price

// ParseUSD reads a decimal number, as in JSON, with at most two decimals by value.
func ParseUSD(s string) (USD, error) {
	n, err := parse(s, usdDecimals, usdMax)
	return USD(n), err
}

// String returns the price with both decimals, such as 10.50.
func (a USD) String() string { return format(int64(a), usdDecimals) }

// MarshalJSON writes the price as a JSON number from its digits.
func (a USD) MarshalJSON() ([]byte, error) { return []byte(format(int64(a), usdDecimals)), nil }

// USDT is an amount of Tether in millionths.
type USDT int64

// ParseUSDT reads a decimal number, as in JSON, with at most six decimals by value.
func ParseUSDT(s string) (USDT, error) {
	n, err := parse(s, usdtDecimals, int64(USDTMax))
	return USDT(n), err
}

// String returns the amount with all six decimals, such as 10.500000.
func (a USDT) String() string { return format(int64(a), usdtDecimals) }

// MarshalJSON writes the amount as a JSON number from its digits.
func (a USDT) MarshalJSON() ([]byte, error) { return []byte(format(int64(a), usdtDecimals)), nil }

// Amount returns a with its currency.
func (a USDT) Amount() Amount { return Amount{CurrencyUSDT, int64(a)} }

// Amount is an amount whose currency is known only at run time, as in a ledger.
type Amount struct {
	Currency Currency
	Units    int64 // in the currency's smallest unit; may be negative
}

// ParseAmount reads a decimal number as an amount of c.
func ParseAmount(c Currency, s string) (Amount, error) {
	limit := int64(BRLMax)
	if c == CurrencyUSDT {
		limit = int64(USDTMax)
	}
	n, err := parse(s, c.decimals(), limit)
	return Amount{c, n}, err
}

// String returns the digits without the currency, such as 10.50.
func (a Amount) String() string { return format(a.Units, a.Currency.decimals()) }

// digitsMax bounds the text of a number; 9999999999.990000 needs far fewer.
const digitsMax = 64

// parse reads the decimal number s, in JSON's grammar, as units of 10^-decimals.
func parse(s string, decimals int, limit int64) (int64, error) {
	if len(s) > digitsMax {
		return 0, ErrLength
	}
	mantissa, exponent, err := splitExponent(s)
	if err != nil {
		return 0, err
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, fraction, point := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	if !allDigits(whole) || (point && !allDigits(fraction)) || (len(whole) > 1 && whole[0] == '0') {
		return 0, ErrSyntax
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	// scale is the power of ten of the last digit, counted in units.
	scale := exponent - len(fraction) + decimals
	if trimmed := strings.TrimRight(digits, "0"); trimmed != digits {
		scale += len(digits) - len(trimmed)
		digits = trimmed
	}
	switch {
	case digits == "":
		return 0, nil
	case len(digits)+scale > len(strconv.FormatInt(limit, 10)):
		return 0, ErrRange
	case scale < 0:
		return 0, ErrDecimals
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", scale), 10, 64)
	if err != nil || n > limit {
		return 0, ErrRange
	}
	if negative {
		n = -n
	}
	return n, nil
}

// exponentMax is far above every exponent that can still give an amount in range.
const exponentMax = 100

// splitExponent cuts the exponent off a number. One that is out of all reason is cut down to exponentMax, which is
// still far out of range.
func splitExponent(s string) (string, int, error) {
	at := strings.IndexAny(s, "eE")
	if at < 0 {
		return s, 0, nil
	}
	text := s[at+1:]
	digits := text
	if text != "" && (text[0] == '+' || text[0] == '-') {
		digits = text[1:]
	}
	if !allDigits(digits) {
		return "", 0, ErrSyntax
	}
	exponent, err := strconv.Atoi(text)
	if err != nil { // more digits than an int holds
		exponent = exponentMax
		if text[0] == '-' {
			exponent = -exponentMax
		}
	}
	return s[:at], max(-exponentMax, min(exponentMax, exponent)), nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// format writes units of 10^-decimals as a decimal number.
func format(units int64, decimals int) string {
	sign, u := "", uint64(units)
	if units < 0 {
		sign, u = "-", -u
	}
	digits := strconv.FormatUint(u, 10)
	if pad := decimals + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	point := len(digits) - decimals
	return sign + digits[:point] + "." + digits[point:]
}
