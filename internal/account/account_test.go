package account

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := []Setting{
		{"status", "active"},
		{"kyc", "approved"},
		{"api_cashin", "on"},
		{"api_cashout", "on"},
		{"api_payout", "on"},
		{"crypto", "on"},
		{"split", "off"},
		{"api_tx_limit", "none"},
		{"crypto_tx_limit", "none"},
		{"rate_limit", "600"},
		{"release_delay", "0"},
		{"disabled_resources", "none"},
		{"cash_in_fee", "0"},
		{"cash_out_fee", "1.00"},
		{"crypto_in_fee", "0+1%"},
		{"crypto_out_fee", "1.00"},
	}
	got := Defaults().List()
	if len(got) != len(want) {
		t.Fatalf("%d settings, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("setting %d is %v, want %v", i, got[i], want[i])
		}
	}
	// What people write for the defaults is the defaults.
	var s Settings
	err := s.apply(strings.Fields(`status=active kyc=approved api_cashin=on api_cashout=on api_payout=on crypto=on split=off
		api_tx_limit=none crypto_tx_limit=none rate_limit=600 release_delay=0 disabled_resources=none
		cash_in_fee=0 cash_out_fee=1.00 crypto_in_fee=0+1% crypto_out_fee=1.00`))
	if err != nil || s != Defaults() {
		t.Errorf("the defaults as written: %v\n got %+v\nwant %+v", err, s, Defaults())
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, value string
		want       string // as it is printed; "" means as it was written
		change     func(s *Settings)
	}{
		{"status", "active", "", func(s *Settings) { s.Status = StatusActive }},
		{"status", "under_review", "", func(s *Settings) { s.Status = StatusUnderReview }},
		{"status", "banned", "", func(s *Settings) { s.Status = StatusBanned }},
		{"kyc", "approved", "", func(s *Settings) { s.KYC = KYCApproved }},
		{"kyc", "pending", "", func(s *Settings) { s.KYC = KYCPending }},
		{"api_cashin", "off", "", func(s *Settings) { s.APICashin = false }},
		{"api_cashout", "off", "", func(s *Settings) { s.APICashout = false }},
		{"api_payout", "off", "", func(s *Settings) { s.APIPayout = false }},
		{"crypto", "off", "", func(s *Settings) { s.Crypto = false }},
		{"split", "on", "", func(s *Settings) { s.Split = true }},
		{"api_tx_limit", "0.01", "", func(s *Settings) { s.APITxLimit = 1 }},
		{"api_tx_limit", "1500", "1500.00", func(s *Settings) { s.APITxLimit = 1500_00 }},
		{"api_tx_limit", "9999999999.99", "", func(s *Settings) { s.APITxLimit = money.BRLMax }},
		{"api_tx_limit", "none", "", func(s *Settings) { s.APITxLimit = 0 }},
		{"crypto_tx_limit", "0.000001", "", func(s *Settings) { s.CryptoTxLimit = 1 }},
		{"crypto_tx_limit", "250.5", "250.500000", func(s *Settings) { s.CryptoTxLimit = 250_500000 }},
		{"crypto_tx_limit", "none", "", func(s *Settings) { s.CryptoTxLimit = 0 }},
		{"rate_limit", "1", "", func(s *Settings) { s.RateLimit = 1 }},
		{"rate_limit", "1000000", "", func(s *Settings) { s.RateLimit = 1_000_000 }},
		{"release_delay", "0", "", func(s *Settings) { s.ReleaseDelay = 0 }},
		{"release_delay", "24h", "", func(s *Settings) { s.ReleaseDelay = 24 * time.Hour }},
		{"release_delay", "1h30m", "", func(s *Settings) { s.ReleaseDelay = 90 * time.Minute }},
		{"release_delay", "90m", "1h30m", func(s *Settings) { s.ReleaseDelay = 90 * time.Minute }},
		{"release_delay", "10m", "", func(s *Settings) { s.ReleaseDelay = 10 * time.Minute }},
		{"release_delay", "20s", "", func(s *Settings) { s.ReleaseDelay = 20 * time.Second }},
		{"release_delay", "1h0m10s", "", func(s *Settings) { s.ReleaseDelay = time.Hour + 10*time.Second }},
		{"release_delay", "1500us", "1.5ms", func(s *Settings) { s.ReleaseDelay = 1500 * time.Microsecond }},
		{"release_delay", "8760h", "", func(s *Settings) { s.ReleaseDelay = 8760 * time.Hour }},
		{"disabled_resources", "none", "", func(s *Settings) { s.Disabled = 0 }},
		{"disabled_resources", "med", "", func(s *Settings) { s.Disabled = ResourceMED }},
		{"disabled_resources", "crypto, charges,crypto", "charges,crypto", func(s *Settings) { s.Disabled = ResourceCharges | ResourceCrypto }},
		{"disabled_resources", "charges,payouts,crypto,med,balance,transactions", "", func(s *Settings) { s.Disabled = 0b111111 }},
		{"cash_in_fee", "0.50+0.99%", "", func(s *Settings) { s.CashInFee = money.Fee{Fixed: money.BRL(50).Amount(), Share: 9900} }},
		{"cash_in_fee", "0", "", func(s *Settings) { s.CashInFee = money.Fee{Fixed: money.BRL(0).Amount()} }},
		{"cash_out_fee", "0+1%", "", func(s *Settings) { s.CashOutFee = money.Fee{Fixed: money.BRL(0).Amount(), Share: 10_000} }},
		{"crypto_in_fee", "0.000001+0.0001%", "", func(s *Settings) { s.CryptoInFee = money.Fee{Fixed: money.USDT(1).Amount(), Share: 1} }},
		{"crypto_out_fee", "2.5", "2.50", func(s *Settings) { s.CryptoOutFee = money.Fee{Fixed: money.USDT(2_500000).Amount()} }},
	} {
		t.Run(test.key+"="+test.value, func(t *testing.T) {
			t.Parallel()
			want := Defaults()
			test.change(&want)
			got := Defaults()
			if err := got.Set(test.key, test.value); err != nil || got != want {
				t.Fatalf("Set: %v\n got %+v\nwant %+v", err, got, want)
			}
			printed := ""
			again := Defaults()
			for _, s := range got.List() {
				if s.Key == test.key {
					printed = s.Value
				}
				if err := again.Set(s.Key, s.Value); err != nil {
					t.Errorf("%s=%s does not read back: %v", s.Key, s.Value, err)
				}
			}
			if again != got {
				t.Errorf("read back %+v, want %+v", again, got)
			}
			if test.want == "" {
				test.want = test.value
			}
			if printed != test.want {
				t.Errorf("printed %q, want %q", printed, test.want)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	const amountBRL = ` must be an amount from 0.01 to 9999999999.99, or none, not `
	const amountUSDT = ` must be an amount from 0.000001 to 9999999999.990000, or none, not `
	const number = `rate_limit must be a whole number from 1 to 1000000, not `
	const duration = `release_delay must be a duration from 0 to 8760h in whole microseconds, such as 24h, not `
	const fees = ` must be FIXED[+PERCENT%], such as 0.50+0.99%: fee `
	for _, test := range []struct{ key, value, want string }{
		{"foo", "1", `unknown setting "foo": use one of status, kyc, api_cashin, api_cashout, api_payout, crypto, split, ` +
			`api_tx_limit, crypto_tx_limit, rate_limit, release_delay, disabled_resources, ` +
			`cash_in_fee, cash_out_fee, crypto_in_fee, crypto_out_fee`},
		{"Status", "active", `unknown setting "Status": use one of `},
		{"status", "Active", `status must be active, under_review or banned, not "Active"`},
		{"status", "", `status must be active, under_review or banned, not ""`},
		{"kyc", "none", `kyc must be approved or pending, not "none"`},
		{"api_cashin", "yes", `api_cashin must be on or off, not "yes"`},
		{"api_cashout", "", `api_cashout must be on or off, not ""`},
		{"api_payout", "ON", `api_payout must be on or off, not "ON"`},
		{"crypto", "true", `crypto must be on or off, not "true"`},
		{"split", "1", `split must be on or off, not "1"`},
		{"api_tx_limit", "0", `api_tx_limit` + amountBRL + `"0"`},
		{"api_tx_limit", "-1", `api_tx_limit` + amountBRL + `"-1"`},
		{"api_tx_limit", "0.001", `api_tx_limit` + amountBRL + `"0.001"`},
		{"api_tx_limit", "10000000000", `api_tx_limit` + amountBRL + `"10000000000"`},
		{"api_tx_limit", "", `api_tx_limit` + amountBRL + `""`},
		{"crypto_tx_limit", "0.0000001", `crypto_tx_limit` + amountUSDT + `"0.0000001"`},
		{"crypto_tx_limit", "None", `crypto_tx_limit` + amountUSDT + `"None"`},
		{"rate_limit", "0", number + `"0"`},
		{"rate_limit", "1000001", number + `"1000001"`},
		{"rate_limit", "none", number + `"none"`},
		{"rate_limit", "99999999999999999999", number + `"99999999999999999999"`},
		{"release_delay", "-1s", duration + `"-1s"`},
		{"release_delay", "8760h1s", duration + `"8760h1s"`},
		{"release_delay", "24", duration + `"24"`},
		{"release_delay", "1ns", duration + `"1ns"`},
		{"release_delay", "99999999999h", duration + `"99999999999h"`},
		{"disabled_resources", "", `disabled_resources has no resource "": use charges, payouts, crypto, med, balance, transactions, or none`},
		{"disabled_resources", "charges,none", `disabled_resources has no resource "none": use `},
		{"disabled_resources", "charge", `disabled_resources has no resource "charge": use `},
		{"cash_in_fee", "x", `cash_in_fee` + fees + `"x": the fixed part must be a number`},
		{"cash_in_fee", "1.001", `cash_in_fee` + fees + `"1.001": the fixed part has too many decimals`},
		{"cash_out_fee", "1+2", `cash_out_fee` + fees + `"1+2": the part after + must end in %`},
		{"crypto_in_fee", "-1", `crypto_in_fee` + fees + `"-1": may not be negative`},
		{"crypto_out_fee", "1+101%", `crypto_out_fee` + fees + `"1+101%": the percentage must be a number from 0 to 100 with at most 4 decimals`},
	} {
		t.Run(test.key+"="+test.value, func(t *testing.T) {
			t.Parallel()
			s := Defaults()
			err := s.Set(test.key, test.value)
			wantFault(t, err, fault.Invalid, test.want)
			if s != Defaults() {
				t.Errorf("a refused value changed the settings: %+v", s)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		assignments []string
		want        string
	}{
		{nil, "nothing to set: write KEY=VALUE"},
		{[]string{"status"}, `"status" sets nothing: write KEY=VALUE`},
		{[]string{"split=on", "split=on"}, "split is set twice"},
		{[]string{"=on"}, `unknown setting "": use one of `},
		{[]string{"status=banned=1"}, `status must be active, under_review or banned, not "banned=1"`},
	} {
		s := Defaults()
		wantFault(t, wrap(s.apply(test.assignments)), fault.Invalid, test.want)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	disabled := ResourcePayouts | ResourceBalance
	for i, name := range resourceNames {
		r := Resources(1 << i)
		if r.String() != name {
			t.Errorf("resource %d is %s, want %s", i, r, name)
		}
		if want := name == "payouts" || name == "balance"; disabled.Has(r) != want {
			t.Errorf("%s.Has(%s) is not %v", disabled, r, want)
		}
	}
	if ResourceTransactions != 1<<(len(resourceNames)-1) {
		t.Error("a resource has no name, or a name no resource")
	}
}

func TestParamsClean(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ã", nameCharsMax)
	for _, test := range []struct {
		give, want Params
		refusal    string // "" means none
	}{
		{Params{Name: "  Loja \t"}, Params{Name: "Loja"}, ""},
		{Params{Name: long, Document: " 12345678901234567890 "}, Params{Name: long, Document: "12345678901234567890"}, ""},
		{Params{Name: " "}, Params{}, "an account needs a name"},
		{Params{Name: long + "a"}, Params{}, "the name must be text of at most 200 characters in one line"},
		{Params{Name: "a\x00b"}, Params{}, "the name must be text of at most 200 characters in one line"},
		{Params{Name: "a\nb"}, Params{}, "the name must be text of at most 200 characters in one line"},
		{Params{Name: "\xff"}, Params{}, "the name must be text of at most 200 characters in one line"},
		{Params{Name: "a", Document: strings.Repeat("1", 21)}, Params{}, "the document must be text of at most 20 characters in one line"},
	} {
		got, err := test.give.clean()
		if test.refusal != "" {
			wantFault(t, wrap(err), fault.Invalid, test.refusal)
		} else if err != nil || got != test.want {
			t.Errorf("%+v.clean() = %+v, %v", test.give, got, err)
		}
	}
}

// wantFault checks the kind of a refusal and how its one line begins.
func wantFault(t *testing.T, err error, kind fault.Kind, public string) {
	t.Helper()
	var f *fault.Error
	switch {
	case !errors.As(err, &f) || f.Kind != kind:
		t.Errorf("error %v, want a fault of kind %d", err, kind)
	case !strings.HasPrefix(f.Public, public):
		t.Errorf("refused with\n%s, want\n%s", f.Public, public)
	case err.Error() != "account: "+f.Public || strings.Contains(f.Public, "\n"):
		t.Errorf("%q is not one line with the package's name", err)
	}
}
