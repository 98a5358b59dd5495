package address

import (
	"slices"
	"strings"
)

// bech32Alphabet is that of bech32 and of Bitcoin Cash.
const bech32Alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// bech32Kind is the constant that a checksum of bech32 ends in.
type bech32Kind uint32

const (
	bech32  bech32Kind = 1          // of BIP 173
	bech32m bech32Kind = 0x2bc830a3 // of BIP 350
)

const (
	symbolBits       = 5  // of one character
	bech32SumLen     = 6  // characters
	segwitLengthMax  = 90 // characters of an address
	witnessKeyLen    = 20 // bytes of version 0, of a key
	witnessScriptLen = 32 // bytes of version 0, of a script, and of version 1

	cardanoPrefix     = "addr"
	cardanoEnterprise = 0x61 // header of an address of one key on the main network
	cardanoNetwork    = 0x0f // the part of the header that says the network
	cardanoMain       = 1
	cardanoHashLen    = 28
)

// splitBech32 cuts a text at its last 1 and reads the symbols behind it. All is in one case; the prefix is returned in
// lower case.
func splitBech32(s, separator string) (prefix string, symbols []byte, err error) {
	lower := strings.ToLower(s)
	if s != lower && s != strings.ToUpper(s) {
		return "", nil, ErrSyntax
	}
	at := strings.LastIndex(lower, separator)
	if at < 1 {
		return "", nil, ErrSyntax
	}
	symbols, err = readSymbols(lower[at+1:])
	return lower[:at], symbols, err
}

func readSymbols(s string) ([]byte, error) {
	symbols := make([]byte, len(s))
	for i := range len(s) {
		symbol := strings.IndexByte(bech32Alphabet, s[i])
		if symbol < 0 {
			return nil, ErrSyntax
		}
		symbols[i] = byte(symbol)
	}
	return symbols, nil
}

func writeSymbols(symbols []byte) string {
	b := make([]byte, len(symbols))
	for i, symbol := range symbols {
		b[i] = bech32Alphabet[symbol]
	}
	return string(b)
}

// bech32Polymod is the checksum's polynomial over the prefix and the symbols.
func bech32Polymod(prefix string, symbols []byte) uint32 {
	sum := uint32(1)
	step := func(v byte) {
		top := sum >> 25
		sum = (sum&0x1ffffff)<<symbolBits ^ uint32(v)
		for i, generator := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= generator
			}
		}
	}
	for i := range len(prefix) {
		step(prefix[i] >> symbolBits)
	}
	step(0)
	for i := range len(prefix) {
		step(prefix[i] & (1<<symbolBits - 1))
	}
	for _, v := range symbols {
		step(v)
	}
	return sum
}

// decodeBech32 returns the symbols before a checksum of either kind.
func decodeBech32(s string) (prefix string, symbols []byte, kind bech32Kind, err error) {
	prefix, symbols, err = splitBech32(s, "1")
	if err != nil {
		return "", nil, 0, err
	}
	if len(symbols) < bech32SumLen {
		return "", nil, 0, ErrSyntax
	}
	kind = bech32Kind(bech32Polymod(prefix, symbols))
	if kind != bech32 && kind != bech32m {
		return "", nil, 0, ErrChecksum
	}
	return prefix, symbols[:len(symbols)-bech32SumLen], kind, nil
}

// encodeBech32 writes bytes.
func encodeBech32(kind bech32Kind, prefix string, b []byte) string {
	return encodeSymbols(kind, prefix, regroup(b))
}

func encodeSymbols(kind bech32Kind, prefix string, symbols []byte) string {
	sum := bech32Polymod(prefix, append(slices.Clip(symbols), make([]byte, bech32SumLen)...)) ^ uint32(kind)
	for i := range bech32SumLen {
		symbols = append(symbols, byte(sum>>(symbolBits*(bech32SumLen-1-i)))&(1<<symbolBits-1))
	}
	return prefix + "1" + writeSymbols(symbols)
}

func encodeSegwit(prefix string, version byte, program []byte) string {
	return encodeSymbols(bech32, prefix, append([]byte{version}, regroup(program)...))
}

// regroup cuts bytes into symbols, the last one filled up with zeros.
func regroup(b []byte) []byte {
	var symbols []byte
	held, bits := uint32(0), 0
	for _, c := range b {
		held, bits = held<<8|uint32(c), bits+8
		for ; bits >= symbolBits; bits -= symbolBits {
			symbols = append(symbols, byte(held>>(bits-symbolBits))&(1<<symbolBits-1))
		}
	}
	if bits > 0 {
		symbols = append(symbols, byte(held<<(symbolBits-bits))&(1<<symbolBits-1))
	}
	return symbols
}

// ungroup joins symbols to bytes. What is left over must be zeros that were needed to fill up.
func ungroup(symbols []byte) ([]byte, error) {
	var b []byte
	held, bits := uint32(0), 0
	for _, symbol := range symbols {
		held, bits = held<<symbolBits|uint32(symbol), bits+symbolBits
		if bits >= 8 {
			bits -= 8
			b = append(b, byte(held>>bits))
		}
	}
	if bits >= symbolBits || byte(held<<(8-bits)) != 0 {
		return nil, ErrSyntax
	}
	return b, nil
}

// segwit is a Segregated Witness address.
type segwit struct {
	version byte
	program []byte
}

func decodeSegwit(prefix, s string) (segwit, error) {
	if len(s) > segwitLengthMax {
		return segwit{}, ErrSyntax
	}
	got, symbols, kind, err := decodeBech32(s)
	if err != nil {
		return segwit{}, err
	}
	if got != prefix || len(symbols) == 0 {
		return segwit{}, ErrSyntax
	}
	program, err := ungroup(symbols[1:])
	if err != nil {
		return segwit{}, err
	}
	w := segwit{symbols[0], program}
	switch n := len(program); {
	case w.version == 0 && kind == bech32 && (n == witnessKeyLen || n == witnessScriptLen):
	case w.version == 1 && kind == bech32m && n == witnessScriptLen:
	default:
		// Of later versions nobody knows yet who may spend them.
		return segwit{}, ErrSyntax
	}
	return w, nil
}

// looksSegwit reports whether a text can be no base58check address.
func looksSegwit(prefix, s string) bool {
	return len(s) > len(prefix) && strings.EqualFold(s[:len(prefix)+1], prefix+"1")
}

func checkBitcoin(s string) (string, error) {
	if !looksSegwit("bc", s) {
		return checkBase58(bitcoinAlphabet, s, versionBTC, versionBTCScript)
	}
	w, err := decodeSegwit("bc", s)
	if err != nil {
		return "", err
	}
	return permit(strings.ToLower(s), w.program)
}

// checkLitecoin takes neither 3…, which may be Bitcoin's, nor the long forms of ltc1…, which no provider sends to.
func checkLitecoin(s string) (string, error) {
	if !looksSegwit("ltc", s) {
		return checkBase58(bitcoinAlphabet, s, versionLTC, versionLTCScript)
	}
	w, err := decodeSegwit("ltc", s)
	if err != nil {
		return "", err
	}
	if w.version != 0 || len(w.program) != witnessKeyLen {
		return "", ErrSyntax
	}
	return permit(strings.ToLower(s), w.program)
}

// checkCardano takes addresses of the Shelley era.
func checkCardano(s string) (string, error) {
	prefix, symbols, kind, err := decodeBech32(s)
	if err != nil {
		return "", err
	}
	b, err := ungroup(symbols)
	if err != nil {
		return "", err
	}
	if prefix != cardanoPrefix || kind != bech32 || (len(b) != 1+cardanoHashLen && len(b) != 1+2*cardanoHashLen) || b[0]&cardanoNetwork != cardanoMain {
		return "", ErrSyntax
	}
	return permit(strings.ToLower(s), b[1:])
}
