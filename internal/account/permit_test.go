package account

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
)

// TestPermit sets each switch and looks at every creation. The codes are in the order charge, payout, crypto charge,
// crypto payout; "" means permitted.
func TestPermit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  []string
		want [4]string
	}{
		{nil, [4]string{}},
		{[]string{"kyc=pending"}, [4]string{"kyc_required", "kyc_required", "kyc_required", "kyc_required"}},
		{[]string{"api_cashin=off"}, [4]string{"api_cashin_disabled", "", "api_cashin_disabled", ""}},
		{[]string{"api_cashout=off"}, [4]string{"", "api_cashout_disabled", "", "api_cashout_disabled"}},
		{[]string{"api_payout=off"}, [4]string{"", "", "", "api_payout_disabled"}},
		{[]string{"crypto=off"}, [4]string{"", "", "crypto_disabled", "crypto_disabled"}},
		{[]string{"kyc=pending", "api_cashin=off"}, [4]string{"kyc_required", "kyc_required", "kyc_required", "kyc_required"}},
		{[]string{"api_cashout=off", "api_payout=off", "crypto=off"}, [4]string{"", "api_cashout_disabled", "crypto_disabled", "api_cashout_disabled"}},
		{[]string{"api_payout=off", "crypto=off"}, [4]string{"", "", "crypto_disabled", "api_payout_disabled"}},
	} {
		s := Defaults()
		if err := s.apply(c.set); len(c.set) > 0 && err != nil {
			t.Fatal(err)
		}
		for i, creation := range []Creation{CreateCharge, CreatePayout, CreateCryptoCharge, CreateCryptoPayout} {
			if got := code(s.Permit(creation)); got != c.want[i] {
				t.Errorf("%v, creation %d: %q, want %q", c.set, i, got, c.want[i])
			}
		}
	}
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return fault.As(err).Code
}

func TestPermitSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on   bool
		ask  Split
		want string
	}{
		{false, Split{}, ""},
		{true, Split{}, ""},
		{false, Split{List: true}, "split_disabled"},
		{true, Split{List: true}, "split_not_available"},
		{false, Split{Rule: true}, "split_not_available"},
		{true, Split{Rule: true}, "split_not_available"},
		{false, Split{List: true, Rule: true}, "split_disabled"},
	} {
		s := Defaults()
		s.Split = c.on
		if got := code(s.PermitSplit(c.ask)); got != c.want {
			t.Errorf("on %v, asked %+v: %q, want %q", c.on, c.ask, got, c.want)
		}
	}
}

func TestPermitAmounts(t *testing.T) {
	t.Parallel()
	s := Defaults()
	if s.PermitBRL(money.BRLMax) != nil || s.PermitUSDT(money.USDTMax) != nil {
		t.Error("no limit refuses")
	}
	s.APITxLimit, s.CryptoTxLimit = 10000, 20_000000
	if s.PermitBRL(10000) != nil || s.PermitUSDT(20_000000) != nil {
		t.Error("the limit itself is refused")
	}
	if got := code(s.PermitBRL(10001)); got != "AMOUNT_LIMIT_EXCEEDED" {
		t.Errorf("above api_tx_limit: %q", got)
	}
	if f := fault.As(s.PermitUSDT(20_000001)); f.Kind != fault.Unprocessable || len(f.Issues) != 1 || f.Issues[0].Path != "amount" {
		t.Errorf("above crypto_tx_limit: %+v", f)
	}
}
