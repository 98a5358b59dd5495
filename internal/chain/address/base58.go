package address

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// Alphabets of base 58. The first character of each is a zero.
const (
	bitcoinAlphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	rippleAlphabet  = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz"
)

const (
	checksumLen  = 4  // bytes of a base58check checksum
	radix        = 58 // of base 58
	solanaKeyLen = 32 // bytes of a public key
)

// Versions, the first byte of a base58check address.
const (
	versionBTC       = 0x00 // 1…
	versionBTCScript = 0x05 // 3…
	versionLTC       = 0x30 // L…
	versionLTCScript = 0x32 // M…
	versionDoge      = 0x1e // D…
	versionDogeOther = 0x16 // A… and 9…, of scripts
	versionTron      = 0x41 // T…
	versionRipple    = 0x00 // r…
)

// decodeBase58 reads a number of base 58 into bytes, each leading zero digit being a zero byte.
func decodeBase58(alphabet, s string) ([]byte, error) {
	var reversed []byte // the number, its last byte first
	for i := range len(s) {
		carry := strings.IndexByte(alphabet, s[i])
		if carry < 0 {
			return nil, ErrSyntax
		}
		for at := range reversed {
			carry += int(reversed[at]) * radix
			reversed[at] = byte(carry)
			carry >>= 8
		}
		for ; carry > 0; carry >>= 8 {
			reversed = append(reversed, byte(carry))
		}
	}
	for i := 0; i < len(s) && s[i] == alphabet[0]; i++ {
		reversed = append(reversed, 0)
	}
	slices.Reverse(reversed)
	return reversed, nil
}

// encodeBase58 is the other way round.
func encodeBase58(alphabet string, b []byte) string {
	var reversed []byte // digits, the last one first
	for _, c := range b {
		carry := int(c)
		for at := range reversed {
			carry += int(reversed[at]) << 8
			reversed[at] = byte(carry % radix)
			carry /= radix
		}
		for ; carry > 0; carry /= radix {
			reversed = append(reversed, byte(carry%radix))
		}
	}
	for i := 0; i < len(b) && b[i] == 0; i++ {
		reversed = append(reversed, 0)
	}
	slices.Reverse(reversed)
	for i, digit := range reversed {
		reversed[i] = alphabet[digit]
	}
	return string(reversed)
}

// checksum58 is the checksum of base58check.
func checksum58(b []byte) []byte {
	once := sha256.Sum256(b)
	twice := sha256.Sum256(once[:])
	return twice[:checksumLen]
}

// encodeBase58Check writes a version and a hash.
func encodeBase58Check(alphabet string, version byte, hash []byte) string {
	b := append([]byte{version}, hash...)
	return encodeBase58(alphabet, append(b, checksum58(b)...))
}

// checkBase58 checks an address of a version and a hash.
func checkBase58(alphabet, s string, versions ...byte) (string, error) {
	b, err := decodeBase58(alphabet, s)
	if err != nil {
		return "", err
	}
	if len(b) != 1+hashLen+checksumLen {
		return "", ErrSyntax
	}
	body, sum := b[:1+hashLen], b[1+hashLen:]
	switch {
	case !slices.Equal(sum, checksum58(body)):
		return "", ErrChecksum
	case !slices.Contains(versions, body[0]):
		return "", ErrSyntax
	}
	return permit(s, body[1:])
}

func checkDogecoin(s string) (string, error) {
	return checkBase58(bitcoinAlphabet, s, versionDoge, versionDogeOther)
}

// checkTron takes no hexadecimal form: providers do not, and it has no checksum.
func checkTron(s string) (string, error) { return checkBase58(bitcoinAlphabet, s, versionTron) }

// checkRipple takes no X-addresses, which have a tag inside that we would lose.
func checkRipple(s string) (string, error) { return checkBase58(rippleAlphabet, s, versionRipple) }

func checkSolana(s string) (string, error) {
	b, err := decodeBase58(bitcoinAlphabet, s)
	if err != nil {
		return "", err
	}
	if len(b) != solanaKeyLen {
		return "", ErrSyntax
	}
	return permit(s, b)
}
