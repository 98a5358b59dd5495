// Package account knows who may do what: accounts with their settings, API keys and blocked addresses.
package account

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
)

// Account is a merchant: the owner of keys, balances and everything that is created with them.
type Account struct {
	ID        id.Account
	Name      string    // as people call it
	Document  string    // CPF or CNPJ of its owner, as given; "" means unknown
	CreatedAt time.Time // business time in UTC, to the microsecond
	Settings  Settings
}

// Status says whether an account is served at all.
type Status string

const (
	StatusActive      Status = "active"       // is served
	StatusUnderReview Status = "under_review" // is locked until somebody has looked at it
	StatusBanned      Status = "banned"       // is refused for good
)

// KYC says whether the owner's identity is known.
type KYC string

const (
	KYCApproved KYC = "approved" // known
	KYCPending  KYC = "pending"  // not yet; the account creates nothing
)

// Resources is a set of the API's resources. A single one is the set of itself.
type Resources uint8

const (
	ResourceCharges      Resources = 1 << iota // Pix charges
	ResourcePayouts                            // Pix payouts
	ResourceCrypto                             // everything under /crypto
	ResourceMED                                // infractions
	ResourceBalance                            // the balance
	ResourceTransactions                       // the list of transactions
)

// resourceNames are the names in the order of their bits.
var resourceNames = []string{"charges", "payouts", "crypto", "med", "balance", "transactions"}

// Has reports whether every resource of some is in r.
func (r Resources) Has(some Resources) bool { return r&some == some }

// String returns the names separated by commas, or none.
func (r Resources) String() string {
	if r == 0 {
		return none
	}
	return strings.Join(names(resourceNames, uint8(r)), ",")
}

// Settings are what an operator decides about an account. They can be compared with ==.
type Settings struct {
	Status        Status
	KYC           KYC
	APICashin     bool          // may create charges, Pix and crypto
	APICashout    bool          // may create payouts, Pix and crypto
	APIPayout     bool          // may create crypto payouts
	Crypto        bool          // may create anything in crypto
	Split         bool          // may ask for a split
	APITxLimit    money.BRL     // the most that one Pix transaction may be; 0 means no limit
	CryptoTxLimit money.USDT    // the most that one crypto transaction may be; 0 means no limit
	RateLimit     int           // requests a minute and key
	ReleaseDelay  time.Duration // how long cash-in stays pending, in whole microseconds; 0 means not at all
	Disabled      Resources     // what its keys may not use; 0 means nothing
	CashInFee     money.Fee     // of a Pix charge, in BRL
	CashOutFee    money.Fee     // of a Pix payout, in BRL
	CryptoInFee   money.Fee     // of a crypto charge, in USDT
	CryptoOutFee  money.Fee     // of a crypto payout, in USDT
}

// Defaults are the settings of a new account.
func Defaults() Settings {
	return Settings{
		Status:       StatusActive,
		KYC:          KYCApproved,
		APICashin:    true,
		APICashout:   true,
		APIPayout:    true,
		Crypto:       true,
		RateLimit:    600,
		CashInFee:    money.Fee{Fixed: money.BRL(0).Amount()},
		CashOutFee:   money.Fee{Fixed: money.BRL(1_00).Amount()},
		CryptoInFee:  money.Fee{Fixed: money.USDT(0).Amount(), Share: 10_000},
		CryptoOutFee: money.Fee{Fixed: money.USDT(1_000000).Amount()},
	}
}

const (
	rateLimitMax    = 1_000_000
	releaseDelayMax = 365 * 24 * time.Hour

	none = "none" // how no limit and no resource are written
)

// setting is one row of the table of settings.
type setting struct {
	key   string
	parse func(s *Settings, value string) error // its error goes on where the key ends: "must be on or off"
	print func(s *Settings) string              // as parse reads it
}

// settings are all of them, in the order in which people see them.
var settings = []setting{
	choice("status", func(s *Settings) *Status { return &s.Status }, StatusActive, StatusUnderReview, StatusBanned),
	choice("kyc", func(s *Settings) *KYC { return &s.KYC }, KYCApproved, KYCPending),
	onOff("api_cashin", func(s *Settings) *bool { return &s.APICashin }),
	onOff("api_cashout", func(s *Settings) *bool { return &s.APICashout }),
	onOff("api_payout", func(s *Settings) *bool { return &s.APIPayout }),
	onOff("crypto", func(s *Settings) *bool { return &s.Crypto }),
	onOff("split", func(s *Settings) *bool { return &s.Split }),
	limit("api_tx_limit", func(s *Settings) *money.BRL { return &s.APITxLimit }, money.ParseBRL, money.BRLMax),
	limit("crypto_tx_limit", func(s *Settings) *money.USDT { return &s.CryptoTxLimit }, money.ParseUSDT, money.USDTMax),
	{"rate_limit", parseRateLimit, func(s *Settings) string { return strconv.Itoa(s.RateLimit) }},
	{"release_delay", parseReleaseDelay, func(s *Settings) string { return printDuration(s.ReleaseDelay) }},
	{"disabled_resources", parseDisabled, func(s *Settings) string { return s.Disabled.String() }},
	fee("cash_in_fee", money.CurrencyBRL, func(s *Settings) *money.Fee { return &s.CashInFee }),
	fee("cash_out_fee", money.CurrencyBRL, func(s *Settings) *money.Fee { return &s.CashOutFee }),
	fee("crypto_in_fee", money.CurrencyUSDT, func(s *Settings) *money.Fee { return &s.CryptoInFee }),
	fee("crypto_out_fee", money.CurrencyUSDT, func(s *Settings) *money.Fee { return &s.CryptoOutFee }),
}

// Setting is a setting as people read and write it.
type Setting struct{ Key, Value string }

// List returns all settings in the order in which people see them. [Settings.Set] reads every value back as it was.
func (s Settings) List() []Setting {
	list := make([]Setting, len(settings))
	for i, row := range settings {
		list[i] = Setting{row.key, row.print(&s)}
	}
	return list
}

// Set changes one setting. It fails and changes nothing when there is no such key, or the value is not one of its own.
func (s *Settings) Set(key, value string) error {
	if err := s.set(key, value); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	return nil
}

func (s *Settings) set(key, value string) error {
	at := slices.IndexFunc(settings, func(row setting) bool { return row.key == key })
	if at < 0 {
		keys := make([]string, len(settings))
		for i, row := range settings {
			keys[i] = row.key
		}
		return refuse(fault.Invalid, "unknown setting %q: use one of %s", key, strings.Join(keys, ", "))
	}
	if err := settings[at].parse(s, value); err != nil {
		return refuse(fault.Invalid, "%s %v", key, err)
	}
	return nil
}

// apply changes the settings that assignments name, each written KEY=VALUE.
func (s *Settings) apply(assignments []string) error {
	if len(assignments) == 0 {
		return refuse(fault.Invalid, "nothing to set: write KEY=VALUE")
	}
	seen := map[string]bool{}
	for _, a := range assignments {
		key, value, ok := strings.Cut(a, "=")
		switch {
		case !ok:
			return refuse(fault.Invalid, "%q sets nothing: write KEY=VALUE", a)
		case seen[key]:
			return refuse(fault.Invalid, "%s is set twice", key)
		}
		seen[key] = true
		if err := s.set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// named returns the settings that assignments name, as they are.
func (s *Settings) named(assignments []string) oplog.Fields {
	fields := oplog.Fields{}
	for _, a := range assignments {
		key, _, _ := strings.Cut(a, "=")
		for _, row := range settings {
			if row.key == key {
				fields[key] = row.print(s)
			}
		}
	}
	return fields
}

// choice is a setting that is one of a few words.
func choice[T ~string](key string, field func(*Settings) *T, values ...T) setting {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	parse := func(s *Settings, value string) error {
		if !slices.Contains(words, value) {
			last := len(words) - 1
			return fmt.Errorf("must be %s or %s, not %q", strings.Join(words[:last], ", "), words[last], value)
		}
		*field(s) = T(value)
		return nil
	}
	return setting{key, parse, func(s *Settings) string { return string(*field(s)) }}
}

// onOff is a switch.
func onOff(key string, field func(*Settings) *bool) setting {
	parse := func(s *Settings, value string) error {
		if value != "on" && value != "off" {
			return fmt.Errorf("must be on or off, not %q", value)
		}
		*field(s) = value == "on"
		return nil
	}
	return setting{key, parse, func(s *Settings) string {
		if *field(s) {
			return "on"
		}
		return "off"
	}}
}

// amount is an amount in one currency.
type amount interface {
	~int64
	fmt.Stringer
}

// limit is the most that something may be. Zero stands for none.
func limit[T amount](key string, field func(*Settings) *T, read func(string) (T, error), largest T) setting {
	const smallest = 1 // centavo or millionth
	parse := func(s *Settings, value string) error {
		if value == none {
			*field(s) = 0
			return nil
		}
		v, err := read(value)
		if err != nil || v < smallest {
			return fmt.Errorf("must be an amount from %s to %s, or none, not %q", T(smallest), largest, value)
		}
		*field(s) = v
		return nil
	}
	return setting{key, parse, func(s *Settings) string {
		if *field(s) == 0 {
			return none
		}
		return (*field(s)).String()
	}}
}

// fee is what an operation in c costs.
func fee(key string, c money.Currency, field func(*Settings) *money.Fee) setting {
	parse := func(s *Settings, value string) error {
		f, err := money.ParseFee(c, value)
		if err != nil {
			return fmt.Errorf("must be FIXED[+PERCENT%%], such as 0.50+0.99%%: %s", strings.TrimPrefix(err.Error(), "money: "))
		}
		*field(s) = f
		return nil
	}
	return setting{key, parse, func(s *Settings) string { return field(s).String() }}
}

func parseRateLimit(s *Settings, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > rateLimitMax {
		return fmt.Errorf("must be a whole number from 1 to %d, not %q", rateLimitMax, value)
	}
	s.RateLimit = n
	return nil
}

func parseReleaseDelay(s *Settings, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > releaseDelayMax || d%time.Microsecond != 0 {
		return fmt.Errorf("must be a duration from 0 to %s in whole microseconds, such as 24h, not %q",
			printDuration(releaseDelayMax), value)
	}
	s.ReleaseDelay = d
	return nil
}

// printDuration writes 24h where [time.Duration.String] writes 24h0m0s.
func printDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func parseDisabled(s *Settings, value string) error {
	if value == none {
		s.Disabled = 0
		return nil
	}
	set, unknown, ok := parseNames(resourceNames, value)
	if !ok {
		return fmt.Errorf("has no resource %q: use %s, or none", unknown, strings.Join(resourceNames, ", "))
	}
	s.Disabled = Resources(set)
	return nil
}

// parseNames returns the bits of the names in a list separated by commas, or the first name that is not in table.
func parseNames(table []string, list string) (set uint8, unknown string, ok bool) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		bit := slices.Index(table, name)
		if bit < 0 {
			return 0, name, false
		}
		set |= 1 << bit
	}
	return set, "", true
}

// names returns the names of the bits of set, in their order.
func names(table []string, set uint8) []string {
	var list []string
	for bit, name := range table {
		if set&(1<<bit) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// Params are what an account is created from.
type Params struct {
	Name     string // required; spaces around it are dropped; at most 200 characters
	Document string // CPF or CNPJ of its owner, at most 20 characters; "" means unknown
}

const (
	nameCharsMax     = 200
	documentCharsMax = 20
)

// clean returns p as it is stored.
func (p Params) clean() (Params, error) {
	p.Name, p.Document = strings.TrimSpace(p.Name), strings.TrimSpace(p.Document)
	switch {
	case p.Name == "":
		return p, refuse(fault.Invalid, "an account needs a name")
	case !isText(p.Name, nameCharsMax):
		return p, refuse(fault.Invalid, "the name must be text of at most %d characters in one line", nameCharsMax)
	case !isText(p.Document, documentCharsMax):
		return p, refuse(fault.Invalid, "the document must be text of at most %d characters in one line", documentCharsMax)
	}
	return p, nil
}

// isText reports whether s has at most charsMax characters and none that cannot be stored or shown in one line.
func isText(s string, charsMax int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= charsMax && !strings.ContainsFunc(s, unicode.IsControl)
}

// refuse returns a fault of that kind whose sentence is fit for operators.
func refuse(kind fault.Kind, format string, args ...any) error {
	return fault.New(kind, "", fmt.Sprintf(format, args...))
}
