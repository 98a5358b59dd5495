package chain

import (
	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/money"
)

// usdtExponent is the power of ten of money.USDT's unit.
const usdtExponent = -6

// FloorUSDT returns an amount of USDT rounded down to what a ledger can hold: what is credited or paid out is never rounded
// up. It reports false for what is negative or more than [money.USDTMax].
func FloorUSDT(d decimal.Decimal) (money.USDT, bool) {
	units := d.Shift(-usdtExponent).Floor()
	if units.IsNegative() || units.GreaterThan(decimal.NewFromInt(int64(money.USDTMax))) {
		return 0, false
	}
	return money.USDT(units.IntPart()), true
}

// FromUSDT returns an amount as a decimal, exactly.
func FromUSDT(a money.USDT) decimal.Decimal { return decimal.New(int64(a), usdtExponent) }
