// Package pix speaks Pix's own formats: BR Codes and their QR images, keys, documents and end-to-end ids.
package pix

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// BRCode is what a BR Code says: the text behind a Pix QR code, also known as copy and paste. A static one carries the
// key that is paid, a dynamic one the address at which the payer's bank reads the charge.
type BRCode struct {
	Key        Key     // whom a static code pays; zero in a dynamic one
	URL        string  // where a dynamic code's charge is read: host and path without https://; empty in a static one
	Info       string  // a word to the payer, beside the key
	FSS        string  // ISPB of the bank that hands out cash in a Pix Saque; empty in every other code
	Category   string  // the merchant's category, four digits; empty means 0000
	Amount     int64   // in centavos; 0 means that the payer chooses; always 0 in a dynamic code, whose charge says it
	Name       string  // who is paid, for people; written as at most 25 plain characters
	City       string  // where, for people; written as at most 15 plain characters
	PostalCode string  // CEP; often empty
	TxID       string  // what a static code's payment will carry, 1 to 25 letters and digits; empty means none
	Extra      []Field // everything else: other arrangements, recurrences, reserved fields
}

// Field is one field of a BR Code that this package does not read.
type Field struct {
	ID    string // two digits
	Value string // not empty
}

// Limits of a BR Code, in characters.
const (
	brCodeMax     = 512
	fieldMax      = 99 // of any field, and of a template as a whole
	keyMax        = 77
	urlMax        = 77
	amountMax     = 13
	nameMax       = 25
	cityMax       = 15
	postalCodeMax = 10
	staticTxIDMax = 25
)

// What a BR Code usually takes, so that room is made once.
const (
	brCodeUsual = 256 // characters
	fieldsUsual = 12
)

const centavosMax = 999_999_999_999 // 9999999999.99 has amountMax characters

// The fields of a BR Code. Those of a template stand behind it.
const (
	idFormat      = "00" // always first and 01
	idUse         = "01" // 11 many times, 12 once
	idAccount     = "26" // the Pix template's usual place; it can be anywhere up to idAccountLast
	idAccountLast = "51"
	subGUI        = "00" // tells Pix from other arrangements
	subKey        = "01"
	subInfo       = "02"
	subFSS        = "03"
	subURL        = "25"
	idCategory    = "52"
	idCurrency    = "53"
	idAmount      = "54"
	idCountry     = "58"
	idName        = "59"
	idCity        = "60"
	idPostalCode  = "61"
	idAdditional  = "62"
	subTxID       = "05"
	idChecksum    = "63" // always last
)

const (
	formatOne   = "01"
	useMany     = "11"
	useOnce     = "12"
	pixGUI      = "br.gov.bcb.pix"
	noCategory  = "0000"
	currencyBRL = "986"
	countryBR   = "BR"
	noTxID      = "***"
)

// IsDynamic reports whether the payer's bank has to read the charge from the code's URL.
func (c BRCode) IsDynamic() bool { return c.URL != "" }

// HasDueDate reports whether c is a dynamic code whose charge has a due date, and so may cost more or less by the day.
func (c BRCode) HasDueDate() bool { return slices.Contains(strings.Split(c.URL, "/"), "cobv") }

// Encode writes the code in plain ASCII, which every bank can read: accents are taken off the texts for people, what
// has no plain form is left out, and a name or city is cut to its length. It fails when anything else breaks a rule.
func (c BRCode) Encode() (string, error) {
	account, err := c.account()
	if err != nil {
		return "", err
	}
	txID, err := c.reference()
	if err != nil {
		return "", err
	}
	category := cmp.Or(c.Category, noCategory)
	if !isCategory(category) {
		return "", fieldError(idCategory, "%s, want four digits", quote(category))
	}
	fields := append(make([]Field, 0, fieldsUsual), []Field{
		{idFormat, formatOne},
		{c.accountID(), account},
		{idCategory, category},
		{idCurrency, currencyBRL},
		{idCountry, countryBR},
		{idName, plain(c.Name, nameMax)},
		{idCity, plain(c.City, cityMax)},
		{idAdditional, string(appendField(nil, Field{subTxID, txID}))},
	}...)
	if c.IsDynamic() {
		fields = append(fields, Field{idUse, useOnce})
	}
	if c.Amount != 0 {
		fields = append(fields, Field{idAmount, formatCentavos(c.Amount)})
	}
	if code := plain(c.PostalCode, postalCodeMax); code != "" {
		fields = append(fields, Field{idPostalCode, code})
	}
	for _, f := range c.Extra {
		if !isDigits(f.ID) || len(f.ID) != 2 || f.ID == idChecksum {
			return "", fmt.Errorf("pix: BR Code: no field can be called %s", quote(f.ID))
		}
		fields = append(fields, f)
	}
	return join(fields)
}

// account returns the value of the Pix template.
func (c BRCode) account() (string, error) {
	if (c.Key == Key{}) == (c.URL == "") {
		return "", errKeyOrURL
	}
	fields := append(make([]Field, 0, fieldsUsual), Field{subGUI, pixGUI})
	if c.IsDynamic() {
		if err := checkURL(c.URL); err != nil {
			return "", err
		}
		fields = append(fields, Field{subURL, c.URL})
	} else {
		// A Key can be written by hand, and then be anything.
		key, err := ParseKey(c.Key.Value, c.Key.Type)
		if err != nil {
			return "", fieldError(subOf(idAccount, subKey), "%w", err)
		}
		fields = append(fields, Field{subKey, key.Value})
	}
	if c.FSS != "" {
		if !isISPB(c.FSS) {
			return "", fieldError(subOf(idAccount, subFSS), "want an ISPB of %d characters", ispbLen)
		}
		fields = append(fields, Field{subFSS, c.FSS})
	}
	if info := plain(c.Info, brCodeMax); info != "" {
		fields = append(fields, Field{subInfo, info})
	}
	slices.SortFunc(fields, byID)
	b := make([]byte, 0, fieldMax)
	for _, f := range fields {
		b = appendField(b, f)
	}
	if len(b) > fieldMax {
		return "", fieldError(idAccount, "%d characters, %d too many: info is too long", len(b), len(b)-fieldMax)
	}
	return string(b), nil
}

var errKeyOrURL = errors.New("pix: BR Code: want either a key or a URL")

// accountID returns the first place of a Pix template that no other arrangement has.
func (c BRCode) accountID() string {
	taken := func(id string) bool {
		return slices.ContainsFunc(c.Extra, func(f Field) bool { return f.ID == id })
	}
	if len(c.Extra) == 0 {
		return idAccount
	}
	id, _ := strconv.Atoi(idAccount)
	for taken(strconv.Itoa(id)) {
		id++
	}
	return strconv.Itoa(id)
}

// reference returns the txid as it is written.
func (c BRCode) reference() (string, error) {
	switch {
	case c.IsDynamic() && (c.Amount != 0 || c.TxID != ""):
		return "", errors.New("pix: BR Code: amount and txid of a dynamic code stand in its charge")
	case c.Amount < 0 || c.Amount > centavosMax:
		return "", fieldError(idAmount, "%d centavos are out of range", c.Amount)
	case c.TxID == "":
		return noTxID, nil
	case !isStaticTxID(c.TxID):
		return "", fieldError(subOf(idAdditional, subTxID), "want 1 to %d letters and digits", staticTxIDMax)
	}
	return c.TxID, nil
}

// join writes the fields in the order of their ids, and the checksum behind them.
func join(fields []Field) (string, error) {
	slices.SortFunc(fields, byID)
	b := make([]byte, 0, brCodeUsual)
	for i, f := range fields {
		switch {
		case i > 0 && fields[i-1].ID == f.ID:
			return "", fieldError(f.ID, "stands twice")
		case f.Value == "":
			return "", fieldError(f.ID, "is empty")
		case len(f.Value) > fieldMax:
			return "", fieldError(f.ID, "%d characters, at most %d", len(f.Value), fieldMax)
		case !isPrintable(f.Value):
			return "", fieldError(f.ID, "not plain ASCII")
		}
		b = appendField(b, f)
	}
	b = append(b, checksumHead...)
	b = appendChecksum(b, b)
	if len(b) > brCodeMax {
		return "", fmt.Errorf("pix: BR Code: %d characters, at most %d", len(b), brCodeMax)
	}
	return string(b), nil
}

func byID(a, b Field) int { return strings.Compare(a.ID, b.ID) }

// ParseBRCode reads a BR Code with a Pix template, whoever wrote it. Its checksum must be right. Texts for people are
// returned as they stand, accents included.
func ParseBRCode(s string) (BRCode, error) {
	s = strings.TrimSpace(s)
	if n := utf8.RuneCountInString(s); n > brCodeMax {
		return BRCode{}, fmt.Errorf("pix: BR Code: %d characters, at most %d", n, brCodeMax)
	}
	body, err := cutChecksum(s)
	if err != nil {
		return BRCode{}, err
	}
	c, err := parseBody(body, cutBytes)
	if err != nil && !isASCII(body) {
		// Some writers count characters where they should count bytes.
		if byRune, err := parseBody(body, cutRunes); err == nil {
			return byRune, nil
		}
	}
	return c, err
}

// parseBody reads the fields before the checksum, whose lengths count as cut does.
func parseBody(body string, cut cutter) (BRCode, error) {
	fields, err := split(body, "", cut)
	if err != nil {
		return BRCode{}, err
	}
	if len(fields) == 0 || fields[0] != (Field{idFormat, formatOne}) {
		return BRCode{}, fieldError(idFormat, "want %s at the start", formatOne)
	}
	var c BRCode
	known := map[string]string{}
	var account []Field
	for _, f := range fields[1:] {
		switch f.ID {
		case idUse, idCategory, idCurrency, idAmount, idCountry, idName, idCity, idPostalCode, idAdditional:
			known[f.ID] = f.Value
			continue
		case idChecksum:
			return BRCode{}, fieldError(idChecksum, "stands before the end")
		}
		template, err := pixTemplate(f, cut)
		switch {
		case err != nil:
			return BRCode{}, err
		case template == nil:
			c.Extra = append(c.Extra, f)
		case account != nil:
			return BRCode{}, fieldError(f.ID, "a second Pix template")
		default:
			account = template
		}
	}
	if err := c.readAccount(account); err != nil {
		return BRCode{}, err
	}
	if err := c.readKnown(known, cut); err != nil {
		return BRCode{}, err
	}
	return c, nil
}

// pixTemplate returns the fields of f if it is the template of Pix, nil if it is anything else.
func pixTemplate(f Field, cut cutter) ([]Field, error) {
	if f.ID < idAccount || f.ID > idAccountLast {
		return nil, nil
	}
	fields, err := split(f.Value, f.ID, cut)
	if err != nil {
		if strings.Contains(strings.ToLower(f.Value), pixGUI) {
			return nil, err
		}
		return nil, nil // another arrangement's, with rules of its own
	}
	if gui, _ := find(fields, subGUI); !strings.EqualFold(gui, pixGUI) {
		return nil, nil
	}
	return fields, nil
}

// readAccount reads the Pix template.
func (c *BRCode) readAccount(account []Field) error {
	if account == nil {
		return errors.New("pix: BR Code: no Pix template in fields 26 to 51")
	}
	key, hasKey := find(account, subKey)
	url, hasURL := find(account, subURL)
	if hasKey == hasURL {
		return errKeyOrURL
	}
	if hasKey {
		var err error
		if c.Key, err = ParseKey(key, ""); err != nil {
			return fieldError(subOf(idAccount, subKey), "%w", err)
		}
	} else {
		if err := checkURL(url); err != nil {
			return err
		}
		c.URL = url
	}
	c.Info, _ = find(account, subInfo)
	c.FSS, _ = find(account, subFSS)
	return nil
}

// readKnown reads the fields outside of the Pix template.
func (c *BRCode) readKnown(known map[string]string, cut cutter) error {
	for _, want := range []struct {
		id     string
		values []string // nil for any
	}{
		{idUse, []string{"", useMany, useOnce}},
		{idCategory, nil},
		{idCurrency, []string{currencyBRL}},
		{idCountry, []string{countryBR}},
		{idName, nil},
		{idCity, nil},
	} {
		switch got := known[want.id]; {
		case want.values != nil && !slices.Contains(want.values, got):
			return fieldError(want.id, "%s, want %s", quote(got), strings.Join(slices.DeleteFunc(want.values, isEmpty), " or "))
		case want.values == nil && got == "":
			return fieldError(want.id, "is missing")
		}
	}
	if !isCategory(known[idCategory]) {
		return fieldError(idCategory, "%s, want four digits", quote(known[idCategory]))
	}
	c.Category = strings.TrimPrefix(known[idCategory], noCategory)
	c.Name, c.City, c.PostalCode = known[idName], known[idCity], known[idPostalCode]
	if c.IsDynamic() {
		return nil // its charge says amount and txid, whatever stands here
	}
	if text := known[idAmount]; text != "" {
		var ok bool
		if c.Amount, ok = parseCentavos(text); !ok {
			return fieldError(idAmount, "%s is no amount", quote(text))
		}
	}
	additional, err := split(known[idAdditional], idAdditional, cut)
	if err != nil {
		return err
	}
	switch txID, _ := find(additional, subTxID); {
	case txID == noTxID:
	case isStaticTxID(txID):
		c.TxID = txID
	default:
		return fieldError(subOf(idAdditional, subTxID), "%s, want %s or 1 to %d letters and digits", quote(txID), noTxID, staticTxIDMax)
	}
	return nil
}

func isEmpty(s string) bool { return s == "" }

func isCategory(s string) bool { return len(s) == len(noCategory) && isDigits(s) }

// segmentsMin is how many names the path of a charge's URL has at least.
const segmentsMin = 2

// checkURL fails unless s can be the URL of a charge.
func checkURL(s string) error {
	host, path, _ := strings.Cut(s, "/")
	segments := 0
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" {
			segments++
		}
	}
	id := subOf(idAccount, subURL)
	switch {
	case len(s) > urlMax:
		return fieldError(id, "%d characters, at most %d", len(s), urlMax)
	case !isPrintable(s) || strings.Contains(s, " "):
		return fieldError(id, "not a URL")
	case strings.Contains(s, "://"):
		return fieldError(id, "want no https:// before it")
	case host == "" || segments < segmentsMin:
		return fieldError(id, "want a host and a path of %d names or more", segmentsMin)
	}
	return nil
}
