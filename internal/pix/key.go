package pix

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"
)

// KeyType says what a Pix key is made of.
type KeyType string

const (
	KeyCPF    KeyType = "cpf"    // a person's document
	KeyCNPJ   KeyType = "cnpj"   // a company's document
	KeyEmail  KeyType = "email"  // an e-mail address
	KeyPhone  KeyType = "phone"  // a phone number with its country
	KeyRandom KeyType = "random" // a UUID that a bank gave, also known as EVP
)

// KeyTypes are all types of keys, in the order in which people see them.
var KeyTypes = []KeyType{KeyCPF, KeyCNPJ, KeyEmail, KeyPhone, KeyRandom}

// Why a text is not a key. Messages are fit for the person who sent it.
var (
	ErrKeyType    = errors.New("must be cpf, cnpj, email, phone or random")
	ErrKey        = errors.New("must be a Pix key: a CPF, a CNPJ, an e-mail address, a phone number with +55 or a random key")
	ErrKeyUnclear = errors.New("may be a CPF or a phone number: check its digits, write a phone number with +55, or say which type of key it is")
	ErrKeyEmail   = errors.New("must be an e-mail address of at most 77 characters")
	ErrKeyPhone   = errors.New("must be a phone number, best written as +5511987654321")
	ErrKeyRandom  = errors.New("must be a random key, such as 123e4567-e89b-12d3-a456-426655440000")
)

// ParseKeyType returns the type of key with that name, in any case.
func ParseKeyType(s string) (KeyType, error) {
	for _, t := range KeyTypes {
		if strings.EqualFold(string(t), s) {
			return t, nil
		}
	}
	return "", ErrKeyType
}

// Key is a Pix key, by which money finds an account. Two keys are the same if they are equal. It prints masked; Value is
// the whole of it.
type Key struct {
	Type  KeyType
	Value string // as banks look it up: documents bare, e-mail and random in lower case, phone as +5511987654321
}

// keyTextMax is more than any key has with spaces and punctuation.
const keyTextMax = 128

// ParseKey reads a key of that type as people write it. Without a type it never guesses, because to be wrong is to pay
// somebody else: a phone number counts as one only with its +, a document only with right check digits, and with
// [ErrKeyUnclear] it fails for what may be a phone number without +. Eleven bare digits that are a CPF are a CPF.
func ParseKey(s string, t KeyType) (Key, error) {
	if len(s) > keyTextMax {
		s = "" // which is no key of any type
	}
	s = strings.TrimSpace(s)
	switch t {
	case "":
		return inferKey(s)
	case KeyCPF:
		d, err := ParseCPF(s)
		return keyOf(t, string(d), err)
	case KeyCNPJ:
		d, err := ParseCNPJ(s)
		return keyOf(t, string(d), err)
	case KeyEmail:
		value, err := parseEmail(s)
		return keyOf(t, value, err)
	case KeyPhone:
		value, err := parsePhone(s)
		return keyOf(t, value, err)
	case KeyRandom:
		value, err := parseRandom(s)
		return keyOf(t, value, err)
	}
	return Key{}, ErrKeyType
}

func keyOf(t KeyType, value string, err error) (Key, error) {
	if err != nil {
		return Key{}, err
	}
	return Key{t, value}, nil
}

// inferKey reads a key whose type nobody said.
func inferKey(s string) (Key, error) {
	if strings.Contains(s, "@") {
		return ParseKey(s, KeyEmail)
	}
	if k, err := ParseKey(s, KeyRandom); err == nil {
		return k, nil
	}
	if strings.HasPrefix(s, "+") {
		return ParseKey(s, KeyPhone)
	}
	_, phoneErr := parsePhone(s)
	if k, err := ParseKey(s, KeyCPF); err == nil {
		if phoneErr == nil && phoneLook.MatchString(s) {
			return Key{}, ErrKeyUnclear // one phone number in a hundred is a CPF too
		}
		return k, nil
	}
	if k, err := ParseKey(s, KeyCNPJ); err == nil {
		return k, nil
	}
	if phoneErr == nil {
		return Key{}, ErrKeyUnclear
	}
	return Key{}, ErrKey
}

// phoneLook is how nobody writes a CPF: 11 98765-4321.
var phoneLook = regexp.MustCompile(`[0-9]{4}[-. ][0-9]{4}$`)

// emailPattern is the directory's own, which has no % and no quotes.
var emailPattern = regexp.MustCompile("^[a-z0-9.!#$&'*+/=?^_`{|}~-]+@" +
	`[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$`)

func parseEmail(s string) (string, error) {
	// Outside of ASCII are letters whose lower case is an ASCII one.
	if len(s) > keyMax || !isASCII(s) {
		return "", ErrKeyEmail
	}
	s = strings.ToLower(s)
	if !emailPattern.MatchString(s) {
		return "", ErrKeyEmail
	}
	return s, nil
}

const phonePunctuation = ".-/ ()"

// phonePattern is the directory's own.
var phonePattern = regexp.MustCompile(`^\+[1-9][0-9]{2,15}$`)

// brazilPattern is two digits of area, and nine of a mobile number or eight of another.
var brazilPattern = regexp.MustCompile(`^[1-9][1-9](?:9[0-9]{8}|[2-8][0-9]{7})$`)

const (
	brazil      = "55"
	nationalMax = 11 // digits of a number without its country; area 55 makes the first two tell nothing
)

func parsePhone(s string) (string, error) {
	s = strip(s, phonePunctuation)
	international := strings.HasPrefix(s, "+")
	if !international {
		if len(s) <= nationalMax {
			s = brazil + s
		}
		s = "+" + s
	}
	national, isBrazil := strings.CutPrefix(s, "+"+brazil)
	switch {
	case isBrazil && !brazilPattern.MatchString(national):
		return "", ErrKeyPhone
	case !isBrazil && (!international || !phonePattern.MatchString(s)):
		return "", ErrKeyPhone
	}
	return s, nil
}

var randomPattern = regexp.MustCompile(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func parseRandom(s string) (string, error) {
	s = strings.ToLower(s)
	if !randomPattern.MatchString(s) {
		return "", ErrKeyRandom
	}
	return s, nil
}

// String returns what may be logged: enough to tell two keys apart, too little to use one.
func (k Key) String() string {
	if name, domain, ok := strings.Cut(k.Value, "@"); ok {
		return string(k.Type) + " " + name[:min(1, len(name))] + "***@" + domain
	}
	return string(k.Type) + " " + mask(k.Value)
}

// LogValue keeps the whole key out of logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
