package dashboard

import (
	"net/url"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
)

// settingKind is how a setting is filled in.
type settingKind string

const (
	settingSwitch settingKind = "switch" // on or off
	settingChoice settingKind = "choice" // one of some words
	settingLimit  settingKind = "limit"  // an amount, or nothing for none
	settingText   settingKind = "text"   // as it is written
	settingSet    settingKind = "set"    // some of some words
	settingFee    settingKind = "fee"    // a fixed part and a share
)

// settingGroup is a part of the form of settings.
type settingGroup string

const (
	groupMay    settingGroup = "may"    // what the account may do
	groupLimits settingGroup = "limits" // how much, how often, how late
	groupFees   settingGroup = "fees"   // what it pays
)

// settingRow says how one setting is filled in.
type settingRow struct {
	key   string
	kind  settingKind
	group settingGroup
	words []string // of a choice or a set
	unit  string   // shown beside it; "" for none
}

// settingRows are all settings but the status, which is changed apart, with its reason. A test holds them equal to
// [account.Settings.List].
var settingRows = []settingRow{
	{key: "kyc", kind: settingChoice, group: groupMay, words: []string{"approved", "pending"}},
	{key: "api_cashin", kind: settingSwitch, group: groupMay},
	{key: "api_cashout", kind: settingSwitch, group: groupMay},
	{key: "api_payout", kind: settingSwitch, group: groupMay},
	{key: "crypto", kind: settingSwitch, group: groupMay},
	{key: "split", kind: settingSwitch, group: groupMay},
	{key: "disabled_resources", kind: settingSet, group: groupMay, words: []string{"charges", "payouts", "crypto", "med", "balance", "transactions"}},
	{key: "api_tx_limit", kind: settingLimit, group: groupLimits, unit: "BRL"},
	{key: "crypto_tx_limit", kind: settingLimit, group: groupLimits, unit: "USDT"},
	{key: "rate_limit", kind: settingText, group: groupLimits},
	{key: "release_delay", kind: settingText, group: groupLimits},
	{key: "cash_in_fee", kind: settingFee, group: groupFees, unit: "BRL"},
	{key: "cash_out_fee", kind: settingFee, group: groupFees, unit: "BRL"},
	{key: "crypto_in_fee", kind: settingFee, group: groupFees, unit: "USDT"},
	{key: "crypto_out_fee", kind: settingFee, group: groupFees, unit: "USDT"},
}

const (
	noLimit  = "none"  // how no limit and no resource are written
	wasField = "was_"  // before a setting's name: what the form showed
	share    = "_rate" // behind a fee's name: its share
)

// settingField is a setting in its form.
type settingField struct {
	Key, Kind, Group, Unit string
	Was                    string // as the service writes it, when the form was made
	Value                  string // as people read it
	Share                  string // of a fee, in per cent
	Words                  []word
	Error                  string
}

// word is one of some.
type word struct {
	option
	Chosen bool
}

// settingFields are the settings as they stand, or as somebody has filled them in.
func settingFields(v *visit, s account.Settings, f *form, filled url.Values) []settingField {
	values := map[string]string{}
	for _, one := range s.List() {
		values[one.Key] = one.Value
	}
	var fields []settingField
	for _, row := range settingRows {
		value := values[row.key]
		field := settingField{Key: row.key, Kind: string(row.kind), Group: string(row.group), Unit: row.unit, Was: value, Error: f.Errors[row.key]}
		if filled.Has(wasField + row.key) {
			field.Was = filled.Get(wasField + row.key)
			field.Value, field.Share = filled.Get(row.key), filled.Get(row.key+share)
			value = strings.Join(filled[row.key], ",")
		} else {
			field.Value, field.Share = row.show(v.locale, value)
		}
		for _, w := range row.words {
			text := w
			if row.kind == settingChoice {
				text = v.t("admin.choice_" + w)
			}
			field.Words = append(field.Words, word{option{w, text}, slices.Contains(strings.Split(value, ","), w)})
		}
		fields = append(fields, field)
	}
	return fields
}

// show writes a value as people read it.
func (row settingRow) show(l locale, value string) (text, rate string) {
	switch row.kind {
	case settingLimit:
		if value == noLimit {
			return "", ""
		}
		return l.number(trim(value)), ""
	case settingFee:
		fixed, rate, _ := strings.Cut(value, "+")
		return l.number(fixed), l.number(strings.TrimSuffix(rate, "%"))
	case settingSwitch, settingChoice, settingText, settingSet:
	}
	return value, ""
}

// read returns what somebody has filled in as the service reads it.
func (row settingRow) read(l locale, filled url.Values) string {
	value := strings.TrimSpace(filled.Get(row.key))
	switch row.kind {
	case settingSwitch:
		if value == "" {
			return "off"
		}
	case settingLimit:
		if value == "" {
			return noLimit
		}
		return l.parseNumber(value)
	case settingSet:
		if len(filled[row.key]) == 0 {
			return noLimit
		}
		return strings.Join(filled[row.key], ",")
	case settingFee:
		fixed, rate := value, strings.TrimSpace(filled.Get(row.key+share))
		if fixed == "" {
			fixed = "0"
		}
		fixed = l.parseNumber(fixed)
		if rate == "" || rate == "0" {
			return fixed
		}
		return fixed + "+" + l.parseNumber(rate) + "%"
	case settingChoice, settingText:
	}
	return value
}

// readSettings returns the settings that somebody has changed, as assignments, and notes those that are wrong. What was not
// touched is not set again: somebody else may have changed it meanwhile.
func readSettings(v *visit, f *form) (assignments []string) {
	for _, row := range settingRows {
		was := v.PostForm.Get(wasField + row.key)
		if !v.PostForm.Has(wasField + row.key) {
			continue // it was not in the form
		}
		value := row.read(v.locale, v.PostForm)
		before, after := account.Defaults(), account.Defaults()
		if err := after.Set(row.key, value); err != nil {
			f.wrong(row.key, "admin.wrong_"+string(row.kind))
			if row.kind == settingText {
				f.Errors[row.key] = v.t("admin.wrong_" + row.key)
			}
			continue
		}
		if err := before.Set(row.key, was); err == nil && before == after {
			continue
		}
		assignments = append(assignments, row.key+"="+value)
	}
	return assignments
}
