package address

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
)

// Parts of a TON address: a tag, the workchain, the account's hash, and a checksum.
const (
	tonTag          = 0x11 // EQ…
	tonTagNoBounce  = 0x51 // UQ…
	tonTextLen      = 48
	tonBodyLen      = 34
	tonBasechain    = 0x00
	tonMasterchain  = 0xff
	tonChecksumPoly = 0x1021 // CRC-16/XMODEM
)

func tonChecksum(b []byte) uint16 {
	sum := uint16(0)
	for _, c := range b {
		sum ^= uint16(c) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ tonChecksumPoly
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}

func encodeTON(hash Seed) string {
	b := append([]byte{tonTag, tonBasechain}, hash[:]...)
	return base64.URLEncoding.EncodeToString(binary.BigEndian.AppendUint16(b, tonChecksum(b)))
}

// checkTON takes what people use, not the raw form, which has no checksum, and no address of the test network. It returns
// the form that is safe in URLs.
func checkTON(s string) (string, error) {
	encoding := base64.URLEncoding
	if strings.ContainsAny(s, "+/") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil || len(s) != tonTextLen {
		return "", ErrSyntax
	}
	body, sum := b[:tonBodyLen], binary.BigEndian.Uint16(b[tonBodyLen:])
	switch {
	case sum != tonChecksum(body):
		return "", ErrChecksum
	case !slices.Contains([]byte{tonTag, tonTagNoBounce}, body[0]) || !slices.Contains([]byte{tonBasechain, tonMasterchain}, body[1]):
		return "", ErrSyntax
	}
	return permit(base64.URLEncoding.EncodeToString(b), body[2:])
}
