package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// TestPayoutCrowd sends 200 payouts at once on money for 100, to one server and to two that share a PostgreSQL and a bank:
// exactly 100 are accepted, and in the end the bank has sent each of them once.
func TestPayoutCrowd(t *testing.T) {
	t.Parallel()
	const many, enough, triesMax = 200, 100, 1000
	crowd := func(t *testing.T, w *testkit.World, servers ...*testkit.Service) {
		t.Helper()
		s := servers[0]
		a := payer(t, s, strconv.Itoa(enough*11), "rate_limit=100000")
		var all sync.WaitGroup
		var accepted, refused atomic.Int64
		for i := range many {
			all.Go(func() {
				url := servers[i%len(servers)].URL
				body := fmt.Sprintf(`{"amount": 10.00, "pix_key": "maria@example.org", "external_id": "%d"}`, i)
				got, err := testkit.Try(t.Context(), url, payoutRequest(a.Key, "", body))
				// On a slow machine some wait too long for the one balance, and come again, or for the bank or the answer, and
				// look first whether it is there.
				for tries := 0; tries < triesMax && (err != nil || got.Status >= http.StatusInternalServerError); tries++ {
					_ = testkit.Real.Wait(t.Context(), 100*time.Millisecond)
					if err != nil || got.Status == http.StatusGatewayTimeout {
						got, err = testkit.Try(t.Context(), url, testkit.Request{Path: fmt.Sprint("/v1/payouts/ext:", i), Key: a.Key})
					}
					if err == nil && got.Status != http.StatusOK {
						got, err = testkit.Try(t.Context(), url, payoutRequest(a.Key, "", body))
					}
				}
				switch {
				case err != nil:
					t.Error(err)
				case (got.Status == http.StatusCreated || got.Status == http.StatusOK) && !strings.Contains(string(got.Body), `"status":"failed"`):
					accepted.Add(1)
				case got.Status == http.StatusPaymentRequired:
					refused.Add(1)
				default:
					t.Errorf("%d %s", got.Status, got.Body)
				}
			})
		}
		all.Wait()
		if accepted.Load() != enough || refused.Load() != many-enough {
			t.Errorf("%d accepted, %d refused", accepted.Load(), refused.Load())
		}
		wantBalance(t, s, a.Key, "0.00")
		testkit.Wait(t, "all to settle", func() bool {
			if inTransit(t, s, a.ID) != 0 {
				return false
			}
			settled := 0
			for _, b := range w.Payouts(t) {
				settled += b.Executions
			}
			return settled == enough
		})
		wantBalance(t, s, a.Key, "0.00")
		wantAudit(t, s)
	}
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		w := testkit.NewWorld(t)
		crowd(t, w, testkit.Run(t, url, testkit.Simulator(w)))
	})
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		w, url := testkit.NewWorld(t), sqltest.Postgres(t)
		crowd(t, w, testkit.Run(t, url, testkit.Simulator(w)), testkit.Run(t, url, testkit.Simulator(w)))
	})
}
