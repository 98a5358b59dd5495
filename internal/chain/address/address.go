// Package address tells real addresses of a network from all other texts, by their checksums, and makes up valid ones.
//
// It imports nothing of ours, so that the simulated world may use it too. That both sides share it hides no mistake: its
// tests hold it to addresses that others made.
package address

import (
	"errors"
	"strings"
)

// Why a text is not an address to send to. Messages are fit for the person who sent it.
var (
	ErrSyntax    = errors.New("is not an address of this network")
	ErrChecksum  = errors.New("is mistyped: its checksum does not match")
	ErrForbidden = errors.New("belongs to a contract or to nobody: what is sent there is lost")
	ErrNetwork   = errors.New("is on a network that is not supported")
)

// lengthMax is above the longest address of any network.
const lengthMax = 128

// Check returns an address in the one form that it is to be stored and compared in. Spaces around it are taken off,
// because people paste; nothing else is repaired. It fails with one of the errors above.
//
// network is a coin's Network. Two networks can share their addresses, as bsc and eth do: nobody can tell those apart.
// An address without mixed case of the latter has no checksum, and Solana's never have one.
func Check(network, s string) (string, error) {
	check, ok := checks[network]
	if !ok {
		return "", ErrNetwork
	}
	s = strings.Trim(s, " ")
	if s == "" || len(s) > lengthMax {
		return "", ErrSyntax
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return "", ErrSyntax
		}
	}
	return check(s)
}

// checks are the networks that we know.
var checks = map[string]func(string) (string, error){
	"btc":  checkBitcoin,
	"ltc":  checkLitecoin,
	"doge": checkDogecoin,
	"bch":  checkBitcoinCash,
	"trx":  checkTron,
	"xrp":  checkRipple,
	"eth":  checkEthereum,
	"bsc":  checkEthereum,
	"sol":  checkSolana,
	"ton":  checkTON,
	"ada":  checkCardano,
}

// Seed is what an address is made up from.
type Seed [32]byte

// New makes up a valid address of a network that belongs to nobody anybody knows of. It panics for a network that Check
// does not know.
func New(network string, seed Seed) string {
	hash := seed[:hashLen]
	switch network {
	case "btc":
		return encodeSegwit("bc", 0, hash)
	case "ltc":
		return encodeSegwit("ltc", 0, hash)
	case "doge":
		return encodeBase58Check(bitcoinAlphabet, versionDoge, hash)
	case "bch":
		return encodeCashAddress(hash)
	case "trx":
		return encodeBase58Check(bitcoinAlphabet, versionTron, hash)
	case "xrp":
		return encodeBase58Check(rippleAlphabet, versionRipple, hash)
	case "eth", "bsc":
		return encodeEthereum(hash)
	case "sol":
		return encodeBase58(bitcoinAlphabet, seed[:])
	case "ton":
		return encodeTON(seed)
	case "ada":
		return encodeBech32(bech32, cardanoPrefix, append([]byte{cardanoEnterprise}, seed[:cardanoHashLen]...))
	}
	panic("address: unknown network " + network)
}

// forbidden are addresses that nobody has a key to, in the form that Check returns. Those that are zeros nearly to their
// end need not be named.
var forbidden = map[string]bool{
	// Contracts of the tokens that are sent or taken in.
	"TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t":         true,
	"0xdAC17F958D2ee523a2206206994597C13D831ec7": true,
	"0x55d398326f99059fF775485246999027B3197955": true,
	"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48": true,
	"0x6B175474E89094C44Da98b954EedeAC495271d0F": true,
	// Famous graves.
	"TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy":         true,
	"1BitcoinEaterAddressDontSendf59kuE":         true,
	"1CounterpartyXXXXXXXXXXXXXXXUWLpVr":         true,
	"0xdEAD000000000000000042069420694206942069": true,
	"0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE": true,
	"0xFFfFfFffFFfffFFfFFfFFFFFffFFFffffFfFFFfF": true,
	"0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF": true,
}

const (
	hashLen = 20 // bytes of a key's hash in most addresses

	// zerosMax is how many zero bytes a hash may begin with. No key has ever been found with so many, and contracts that come
	// with their network, such as 0x…1000 of BNB Smart Chain, have more, like 0x…dEaD.
	zerosMax = 15
)

// permit returns an address unless nobody should send to it.
func permit(address string, hash []byte) (string, error) {
	zeros := 0
	for zeros < len(hash) && hash[zeros] == 0 {
		zeros++
	}
	if zeros > zerosMax || forbidden[address] {
		return "", ErrForbidden
	}
	return address, nil
}
