package address

import (
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/sha3"
)

const ethereumPrefix = "0x"

// encodeEthereum writes an address in the mixed case of EIP-55, which is its checksum.
func encodeEthereum(hash []byte) string {
	digits := []byte(hex.EncodeToString(hash))
	keccak := sha3.NewLegacyKeccak256()
	keccak.Write(digits)
	sum := hex.EncodeToString(keccak.Sum(nil))
	for i, digit := range digits {
		if digit >= 'a' && sum[i] >= '8' {
			digits[i] = digit - 'a' + 'A'
		}
	}
	return ethereumPrefix + string(digits)
}

// checkEthereum takes an address in one case, which has no checksum, or in the right mixed one.
func checkEthereum(s string) (string, error) {
	digits, ok := strings.CutPrefix(s, ethereumPrefix)
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != hashLen {
		return "", ErrSyntax
	}
	canonical := encodeEthereum(hash)
	if s != canonical && digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) {
		return "", ErrChecksum
	}
	return permit(canonical, hash)
}
