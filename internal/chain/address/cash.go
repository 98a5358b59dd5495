package address

import (
	"slices"
	"strings"
)

const (
	cashPrefix    = "bitcoincash"
	cashSumLen    = 8    // characters
	cashKey       = 0x00 // version byte of a key's hash of 20 bytes
	cashScript    = 0x08 // and of a script's
	cashSymbolsIn = 34   // characters of a version byte and a hash
)

// cashPolymod is the checksum's polynomial over the prefix and the symbols.
func cashPolymod(symbols []byte) uint64 {
	sum := uint64(1)
	step := func(v byte) {
		top := sum >> 35
		sum = (sum&0x07ffffffff)<<symbolBits ^ uint64(v)
		for i, generator := range [...]uint64{0x98f2bc8e61, 0x79b76d99e2, 0xf33e5fb3c4, 0xae2eabe2a8, 0x1e4f43e470} {
			if top>>i&1 == 1 {
				sum ^= generator
			}
		}
	}
	for i := range len(cashPrefix) {
		step(cashPrefix[i] & (1<<symbolBits - 1))
	}
	step(0)
	for _, v := range symbols {
		step(v)
	}
	return sum ^ 1
}

func encodeCashAddress(hash []byte) string {
	symbols := regroup(append([]byte{cashKey}, hash...))
	sum := cashPolymod(append(slices.Clip(symbols), make([]byte, cashSumLen)...))
	for i := range cashSumLen {
		symbols = append(symbols, byte(sum>>(symbolBits*(cashSumLen-1-i)))&(1<<symbolBits-1))
	}
	return cashPrefix + ":" + writeSymbols(symbols)
}

// checkBitcoinCash takes both forms, the newer one also without its prefix.
func checkBitcoinCash(s string) (string, error) {
	if s[0] == '1' || s[0] == '3' {
		return checkBase58(bitcoinAlphabet, s, versionBTC, versionBTCScript)
	}
	if !strings.Contains(s, ":") {
		prefix := cashPrefix
		if s == strings.ToUpper(s) {
			prefix = strings.ToUpper(cashPrefix)
		}
		s = prefix + ":" + s
	}
	prefix, symbols, err := splitBech32(s, ":")
	if err != nil {
		return "", err
	}
	if prefix != cashPrefix || len(symbols) != cashSymbolsIn+cashSumLen {
		return "", ErrSyntax
	}
	if cashPolymod(symbols) != 0 {
		return "", ErrChecksum
	}
	b, err := ungroup(symbols[:cashSymbolsIn])
	if err != nil {
		return "", err
	}
	if b[0] != cashKey && b[0] != cashScript {
		return "", ErrSyntax
	}
	return permit(strings.ToLower(s), b[1:])
}
