package bcb_test

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/acquirertest"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	acquirertest.Run(t, func(t *testing.T, s acquirertest.Setup) acquirer.Acquirer {
		t.Helper()
		c, err := bcb.New(bcb.Config{
			Name: s.Account.Name, BaseURL: s.Account.BaseURL + "/v2", TokenURL: s.Account.BaseURL + "/oauth/token",
			ClientID: s.Account.ClientID, ClientSecret: s.Account.ClientSecret, Key: s.Account.Key,
		}, s.Clock)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}
