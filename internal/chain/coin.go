package chain

import "slices"

// Coin is what never changes about a coin on one network.
type Coin struct {
	Code            string // by which API and provider know it, such as usdtbsc
	Symbol          string // such as USDT
	Name            string // such as Tether
	Network         string // stable slug, such as bsc
	NetworkName     string // for people, such as BNB Smart Chain
	Contract        string // address of the token's contract; "" for the network's own coin
	NetworkDecimals int    // how finely the network can divide it
	Deposit         bool   // we take it in
	Withdrawal      bool   // we send it
}

// IsUSDT reports whether the coin is Tether, on whatever network.
func (c Coin) IsUSDT() bool { return c.Symbol == "USDT" }

// Contracts of tokens, in the form that their networks check.
const (
	contractUSDTTron     = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
	contractUSDTEthereum = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
	contractUSDTBSC      = "0x55d398326f99059fF775485246999027B3197955"
	contractUSDC         = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
	contractDAI          = "0x6B175474E89094C44Da98b954EedeAC495271d0F"
)

// Coins are all coins that we take in or send, in the order in which people see them. usdttrc20 is taken in and never
// sent, usdterc20 the other way round.
var Coins = []Coin{
	{"usdttrc20", "USDT", "Tether", "trx", "Tron (TRC-20)", contractUSDTTron, 6, true, false},
	{"usdtbsc", "USDT", "Tether", "bsc", "BNB Smart Chain (BEP-20)", contractUSDTBSC, 18, true, true},
	{"usdterc20", "USDT", "Tether", "eth", "Ethereum (ERC-20)", contractUSDTEthereum, 6, false, true},
	{"btc", "BTC", "Bitcoin", "btc", "Bitcoin", "", 8, true, true},
	{"eth", "ETH", "Ethereum", "eth", "Ethereum", "", 18, true, false},
	{"ltc", "LTC", "Litecoin", "ltc", "Litecoin", "", 8, true, true},
	{"sol", "SOL", "Solana", "sol", "Solana", "", 9, true, false},
	{"usdc", "USDC", "USD Coin", "eth", "Ethereum (ERC-20)", contractUSDC, 6, true, false},
	{"trx", "TRX", "Tron", "trx", "Tron", "", 6, true, true},
	{"xrp", "XRP", "XRP", "xrp", "XRP Ledger", "", 6, true, false},
	{"doge", "DOGE", "Dogecoin", "doge", "Dogecoin", "", 8, true, false},
	{"bnbbsc", "BNB", "BNB", "bsc", "BNB Smart Chain", "", 18, true, false},
	{"ton", "TON", "Toncoin", "ton", "TON", "", 9, true, false},
	{"ada", "ADA", "Cardano", "ada", "Cardano", "", 6, true, false},
	{"bch", "BCH", "Bitcoin Cash", "bch", "Bitcoin Cash", "", 8, true, false},
	{"dai", "DAI", "Dai", "eth", "Ethereum (ERC-20)", contractDAI, 18, true, false},
}

// FindCoin returns the coin with a code.
func FindCoin(code string) (Coin, bool) {
	i := slices.IndexFunc(Coins, func(c Coin) bool { return c.Code == code })
	if i < 0 {
		return Coin{}, false
	}
	return Coins[i], true
}
