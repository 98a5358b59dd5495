package pix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// EndToEndKind says what an end-to-end id names. It is its first letter.
type EndToEndKind byte

const (
	EndToEndPix    EndToEndKind = 'E' // a Pix
	EndToEndReturn EndToEndKind = 'D' // the return of a Pix, all or in part; Portuguese devolução
)

// EndToEndID is what the Central Bank's rule puts into an end-to-end id.
type EndToEndID struct {
	Kind   EndToEndKind
	ISPB   string    // the bank that made the id, 8 digits or upper-case letters
	Time   time.Time // when, in UTC and to the minute
	Serial string    // 11 letters and digits
}

const (
	endToEndLen    = 32
	endToEndMax    = 64 // of those that banks really send
	ispbLen        = 8
	serialLen      = 11
	endToEndLayout = "200601021504"
)

// IsEndToEndID reports whether s can be an end-to-end id as acquirers send them. Some break the Central Bank's rule in
// length and form, and their own sandboxes do, so this asks only for letters and digits, 64 of them at most.
func IsEndToEndID(s string) bool { return len(s) <= endToEndMax && isAlphanumeric(s) }

var errEndToEnd = errors.New("pix: not an end-to-end id: want E or D, ISPB, yyyymmddhhmm and 11 letters or digits")

// ParseEndToEndID reads an end-to-end id that keeps the Central Bank's rule. What acquirers send may not: see
// [IsEndToEndID].
func ParseEndToEndID(s string) (EndToEndID, error) {
	if len(s) != endToEndLen {
		return EndToEndID{}, errEndToEnd
	}
	const timeAt, serialAt = 1 + ispbLen, endToEndLen - serialLen
	e := EndToEndID{Kind: EndToEndKind(s[0]), ISPB: s[1:timeAt], Serial: s[serialAt:]}
	at, err := time.Parse(endToEndLayout, s[timeAt:serialAt])
	if err != nil || !e.isRegular() {
		return EndToEndID{}, errEndToEnd
	}
	e.Time = at
	return e, nil
}

// NewEndToEndID makes the id of what the bank with that ISPB does at that time. It fails when the ISPB is none, the year
// has not four digits, or there is no randomness.
func NewEndToEndID(kind EndToEndKind, ispb string, at time.Time, random io.Reader) (EndToEndID, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return EndToEndID{}, fmt.Errorf("pix: new end-to-end id: %w", err)
	}
	e := EndToEndID{
		Kind:   kind,
		ISPB:   ispb,
		Time:   at.UTC().Truncate(time.Minute),
		Serial: serial(binary.BigEndian.Uint64(b[:])),
	}
	if year := e.Time.Year(); !e.isRegular() || year < 0 || year > 9999 {
		return EndToEndID{}, errEndToEnd
	}
	return e, nil
}

// String returns the id as banks exchange it, 32 characters.
func (e EndToEndID) String() string {
	return string(rune(e.Kind)) + e.ISPB + e.Time.UTC().Format(endToEndLayout) + e.Serial
}

// isRegular reports whether everything but the time keeps the rule.
func (e EndToEndID) isRegular() bool {
	return (e.Kind == EndToEndPix || e.Kind == EndToEndReturn) && isISPB(e.ISPB) &&
		len(e.Serial) == serialLen && isAlphanumeric(e.Serial)
}

// serial writes n in base 62, which takes 11 characters at most.
func serial(n uint64) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var b [serialLen]byte
	for i := serialLen - 1; i >= 0; i-- {
		b[i] = digits[n%uint64(len(digits))]
		n /= uint64(len(digits))
	}
	return string(b[:])
}

// isISPB reports whether s is a bank's number. It is the root of a CNPJ, so that it can have letters.
func isISPB(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'A' || s[i] > 'Z') {
			return false
		}
	}
	return len(s) == ispbLen
}
