package chainworld

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// coin is a coin that the provider deals in. What is worth what is made up, in the right order of magnitude.
type coin struct {
	code      string
	ticker    string
	name      string
	network   string // of its addresses too
	contract  string // "" for the network's own coin
	decimals  int32  // of the network
	precision int32  // that the provider rounds to
	usd       string // what it is worth when nothing moves
	minimum   string // of a payment, in USD
	payout    string // minimum of a payout, in USD; "" for a coin that is never sent
	fee       string // of a payout, in USD
	memo      bool   // has a memo, which payments need
}

// coins are all of them. Payouts in bitcoin have a minimum above that of any account.
var coins = []coin{
	{"btc", "btc", "Bitcoin", "btc", "", 8, 8, "95000", "14", "38", "2.4", false},
	{"eth", "eth", "Ethereum", "eth", "", 18, 8, "3200", "3", "", "1.1", false},
	{"ltc", "ltc", "Litecoin", "ltc", "", 8, 8, "92", "2", "4", "0.04", false},
	{"sol", "sol", "Solana", "sol", "", 9, 8, "158", "2", "", "0.01", false},
	{"trx", "trx", "Tron", "trx", "", 6, 6, "0.29", "3", "12", "0.33", false},
	{"xrp", "xrp", "Ripple", "xrp", "", 6, 6, "2.35", "2", "", "0.01", true},
	{"doge", "doge", "Dogecoin", "doge", "", 8, 8, "0.17", "3", "", "0.35", false},
	{"ton", "ton", "Toncoin", "ton", "", 9, 8, "2.1", "2", "", "0.02", false},
	{"ada", "ada", "Cardano", "ada", "", 6, 6, "0.55", "3", "", "0.09", false},
	{"bch", "bch", "Bitcoin Cash", "bch", "", 8, 8, "480", "2", "", "0.01", false},
	{"bnbbsc", "bnb", "Binance Coin", "bsc", "", 18, 8, "905", "2", "", "0.05", false},
	{"usdttrc20", "usdt", "Tether USD (Tron)", "trx", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", 6, 6, usdtPrice, "8", "", "1.9", false},
	{"usdtbsc", "usdt", "Tether USD (BSC)", "bsc", "0x55d398326f99059fF775485246999027B3197955", 18, 6, usdtPrice, "2", "3", "0.06", false},
	{"usdterc20", "usdt", "Tether USD (Ethereum)", "eth", "0xdAC17F958D2ee523a2206206994597C13D831ec7", 6, 6, usdtPrice, "5", "9", "0.7", false},
	{"usdc", "usdc", "USD Coin", "eth", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", 6, 6, "1.0001", "5", "", "0.7", false},
	{"dai", "dai", "Dai", "eth", "0x6B175474E89094C44Da98b954EedeAC495271d0F", 18, 8, "0.9998", "5", "", "0.7", false},
}

const (
	usdtPrice = "0.9994" // never a dollar, so that nobody may assume it
	usdPerBRL = "5.4321" // reais for a dollar

	// Settlement is the coin that payments are settled in.
	Settlement = "usdtbsc"

	openingUSDT = 1_000_000 // worth of every coin that can be sent
)

func findCoin(code string) (coin, bool) {
	i := slices.IndexFunc(coins, func(c coin) bool { return c.code == code })
	if i < 0 {
		return coin{}, false
	}
	return coins[i], true
}

// places is how many decimals of a coin can be sent.
func (c coin) places() int32 { return min(c.precision, c.decimals) }

// Prices move a little with time, the same way each time.
const (
	slotLength   = 10 * time.Second
	wiggleMax    = 15 // basis points either way
	wiggleStable = 2
	basisPoints  = 10_000
)

// wiggle returns a factor near 1 that depends on a name and a moment.
func wiggle(name string, at time.Time, span int64) decimal.Decimal {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(name), uint64(at.Unix()/int64(slotLength/time.Second))))
	off := int64(binary.BigEndian.Uint32(sum[:])%uint32(2*span+1)) - span
	return decimal.New(basisPoints+off, 0).Div(decimal.New(basisPoints, 0))
}

// price returns what a coin is worth in USD at a moment.
func (c coin) price(at time.Time) decimal.Decimal {
	span := int64(wiggleMax)
	if decimal.RequireFromString(c.usd).Sub(decimal.New(1, 0)).Abs().LessThan(decimal.New(1, -2)) {
		span = wiggleStable
	}
	return decimal.RequireFromString(c.usd).Mul(wiggle(c.code, at, span))
}

// divisionPlaces is how exactly the world divides.
const divisionPlaces = 24

// worth converts an amount between two currencies that are known, either of which may be usd.
func worth(from, to string, amount decimal.Decimal, at time.Time) decimal.Decimal {
	if c, ok := findCoin(from); ok {
		amount = amount.Mul(c.price(at))
	}
	if c, ok := findCoin(to); ok {
		amount = amount.DivRound(c.price(at), divisionPlaces)
	}
	return amount
}

// inCoin returns what a number of dollars is in a coin, rounded up to what can be sent.
func (c coin) inCoin(usd string, at time.Time) decimal.Decimal {
	return decimal.RequireFromString(usd).DivRound(c.price(at), divisionPlaces).RoundUp(c.places())
}
