package pix

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Every field of a BR Code, and of a template inside of one, is two digits of id, two digits of length and a value.
const (
	idLen    = 2
	headLen  = 4
	quoteMax = 40 // of a foreign text in an error
)

// A cutter takes n units off the front of s. It fails when there are not as many.
type cutter func(s string, n int) (value, rest string, ok bool)

// cutBytes counts as the rule has it.
func cutBytes(s string, n int) (value, rest string, ok bool) {
	if n > len(s) || !utf8.ValidString(s[:n]) {
		return "", "", false
	}
	return s[:n], s[n:], true
}

// cutRunes counts characters.
func cutRunes(s string, n int) (value, rest string, ok bool) {
	end := 0
	for range n {
		r, size := utf8.DecodeRuneInString(s[end:])
		if r == utf8.RuneError && size <= 1 {
			return "", "", false
		}
		end += size
	}
	return s[:end], s[end:], true
}

// split returns the fields of s, which are the fields of the template if that has a name. Empty ones are left out. It
// fails when one is there twice, or when the last one does not end where s ends.
func split(s, template string, cut cutter) ([]Field, error) {
	var fields []Field
	for s != "" {
		if len(s) < headLen || !isDigits(s[:headLen]) {
			return nil, fieldError(template, "%s begins no field", quote(s[:min(len(s), headLen)]))
		}
		id := s[:idLen]
		n, _ := strconv.Atoi(s[idLen:headLen])
		value, rest, ok := cut(s[headLen:], n)
		if !ok {
			return nil, fieldError(subOf(template, id), "length %d goes beyond the end", n)
		}
		if _, twice := find(fields, id); twice {
			return nil, fieldError(subOf(template, id), "stands twice")
		}
		if value != "" {
			fields = append(fields, Field{id, value})
		}
		s = rest
	}
	return fields, nil
}

func find(fields []Field, id string) (value string, found bool) {
	for _, f := range fields {
		if f.ID == id {
			return f.Value, true
		}
	}
	return "", false
}

// appendField writes a field. Its length takes two digits: a longer one is refused by who calls.
func appendField(to []byte, f Field) []byte {
	to = append(to, f.ID...)
	to = append(to, byte('0'+len(f.Value)/10%10), byte('0'+len(f.Value)%10))
	return append(to, f.Value...)
}

// subOf names a template's field, such as 26-01.
func subOf(template, id string) string {
	if template == "" {
		return id
	}
	return template + "-" + id
}

// fieldError says what is wrong in which field. An empty id means the code itself.
func fieldError(id, format string, args ...any) error {
	where := "pix: BR Code: "
	if id != "" {
		where = "pix: BR Code: field " + id + ": "
	}
	return fmt.Errorf(where+format, args...)
}

// quote returns the beginning of a foreign text.
func quote(s string) string {
	if len(s) > quoteMax {
		s = s[:quoteMax]
	}
	return strconv.Quote(s)
}

const (
	checksumHead = idChecksum + "04" // the checksum covers its own id and length
	checksumLen  = 4
)

// cutChecksum returns what stands before the checksum of s. It fails unless the checksum is right.
func cutChecksum(s string) (string, error) {
	end := len(s) - checksumLen
	if end < len(checksumHead) || s[end-len(checksumHead):end] != checksumHead {
		return "", fieldError(idChecksum, "is not at the end")
	}
	if want := checksum(s[:end]); s[end:] != want {
		return "", fieldError(idChecksum, "checksum is %s, want %s", quote(s[end:]), want)
	}
	return s[:end-len(checksumHead)], nil
}

// crcTable is what each byte does to a CRC-16/CCITT-FALSE.
var crcTable = func() (table [256]uint16) {
	const polynomial, topBit = 0x1021, 0x8000
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc & topBit
			crc <<= 1
			if carry != 0 {
				crc ^= polynomial
			}
		}
		table[i] = crc
	}
	return table
}()

// checksum returns what appendChecksum writes.
func checksum(s string) string { return string(appendChecksum(nil, s)) }

// appendChecksum writes the CRC-16/CCITT-FALSE of s in hexadecimal.
func appendChecksum[T string | []byte](to []byte, s T) []byte {
	const digits = "0123456789ABCDEF"
	crc := uint16(0xffff)
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return append(to, digits[crc>>12], digits[crc>>8&15], digits[crc>>4&15], digits[crc&15])
}

// formatCentavos writes an amount that is not negative, such as 10.50.
func formatCentavos(n int64) string {
	b := strconv.AppendInt(make([]byte, 0, amountMax), n/100, 10)
	return string(append(b, '.', byte('0'+n%100/10), byte('0'+n%10)))
}

// parseCentavos reads an amount as any bank writes it: 10, 10., .10, 10.1 or 10.10.
func parseCentavos(s string) (int64, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(s) > amountMax || len(fraction) > 2 || !isDigits(whole+fraction) {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+fraction+"00"[len(fraction):], 10, 64)
	return n, err == nil && n <= centavosMax
}
