package nowpayments_test

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/chaintest"
	"github.com/ponte-pay/ponte/internal/chain/nowpayments"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T, s chaintest.Setup) chain.Payer {
		t.Helper()
		c, err := nowpayments.New(nowpayments.Config{
			Name: "chain", BaseURL: s.Account.BaseURL, APIKey: s.Account.APIKey, Email: s.Account.Email, Password: s.Account.Password,
			TOTPSecret: s.Account.TOTPSecret, IPNSecret: s.Account.IPNSecret, Settlement: s.Account.Settlement,
		}, s.Clock)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}
