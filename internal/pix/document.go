package pix

import (
	"errors"
	"log/slog"
	"strings"
)

// Document is a CPF, which people have, or a CNPJ, which companies have: digits and upper-case letters without
// punctuation, check digits right. It prints masked; string(d) is the whole of it.
type Document string

const (
	cpfLen      = 11
	cnpjLen     = 14
	checkDigits = 2
)

// Why a text is not a document. Messages are fit for the person who sent it.
var (
	ErrCPF      = errors.New("must be a CPF: 11 digits, check digits right")
	ErrCNPJ     = errors.New("must be a CNPJ: 14 digits or letters, check digits right")
	ErrDocument = errors.New("must be a CPF or a CNPJ, check digits right")
)

const documentPunctuation = ".-/ "

// documentTextMax is more than a document with all of its punctuation has.
const documentTextMax = 32

// ParseDocument reads a CPF or a CNPJ, with or without punctuation.
func ParseDocument(s string) (Document, error) {
	d, err := ParseCPF(s)
	if err != nil {
		d, err = ParseCNPJ(s)
	}
	if err != nil {
		return "", ErrDocument
	}
	return d, nil
}

// ParseCPF reads a CPF, with or without punctuation. One digit eleven times is none, although its check digits are
// right.
func ParseCPF(s string) (Document, error) {
	s = bare(s)
	if len(s) != cpfLen || !isDigits(s) || isOneCharacter(s) || !checks(s, cpfLen) {
		return "", ErrCPF
	}
	return Document(s), nil
}

// ParseCNPJ reads a CNPJ, with or without punctuation. Since 2026 all but its check digits can be letters, which may be
// written in lower case too. One digit fourteen times is none.
func ParseCNPJ(s string) (Document, error) {
	s = bare(s)
	if len(s) != cnpjLen || !isAlphanumeric(s) || isOneCharacter(s) || !checks(s, cnpjWeightMax) {
		return "", ErrCNPJ
	}
	return Document(s), nil
}

// IsCPF reports whether d is a person's.
func (d Document) IsCPF() bool { return len(d) == cpfLen }

// String returns what may be logged: enough to tell two documents apart, too little to use one.
func (d Document) String() string { return mask(string(d)) }

// LogValue keeps the whole document out of logs.
func (d Document) LogValue() slog.Value { return slog.StringValue(d.String()) }

// bare returns s without punctuation and in upper case, empty if it can be no document.
func bare(s string) string {
	// Outside of ASCII are letters whose upper case is an ASCII one.
	if len(s) > documentTextMax || !isASCII(s) {
		return ""
	}
	return strings.ToUpper(strip(s, documentPunctuation))
}

func isOneCharacter(s string) bool { return strings.Count(s, s[:1]) == len(s) }

const (
	weightMin     = 2
	cnpjWeightMax = 9 // then it starts again; a CPF's weights never do
	modulus       = 11
)

// checks reports whether the last two characters of s are its check digits. Weights rise from the right, from 2 to
// weightMax and round again.
func checks(s string, weightMax int) bool {
	for n := len(s) - checkDigits; n < len(s); n++ {
		sum, weight := 0, weightMin
		for i := n - 1; i >= 0; i-- {
			sum += int(s[i]-'0') * weight // A is 17: the rule counts from the ASCII code
			if weight++; weight > weightMax {
				weight = weightMin
			}
		}
		digit := 0
		if rest := sum % modulus; rest >= 2 {
			digit = modulus - rest
		}
		if int(s[n]-'0') != digit {
			return false
		}
	}
	return true
}

// maskedLen is how many characters at the end stay visible.
const maskedLen = 4

func mask(s string) string { return "***" + s[max(0, len(s)-maskedLen):] }
