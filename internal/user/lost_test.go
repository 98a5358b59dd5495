package user

import (
	"fmt"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/totp"
)

// TestLostAnswers cuts the connection to the database before and after each message of setting up an app: whatever is lost,
// the recovery codes that a person is shown are good, and the code of the app is taken.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(t, sqltest.Open(t, proxy.URL))
	ctx := t.Context()
	const (
		messagesMax = 10 // later cuts hit nothing, which must be harmless too
		triesMax    = 3  // by whoever is told that it may not have happened
	)
	for cut := range messagesMax {
		for how, arm := range map[string]func(int){"before": proxy.CutBeforeSkipping, "after": proxy.CutAfterSkipping} {
			at := fmt.Sprintf("cut %s message %d", how, cut)
			p := w.person(fmt.Sprintf("ana-%d-%s@example.com", cut, how), Owner)
			_, v := w.signIn(p.Email)
			secret, err := w.PrepareTOTP(ctx, p)
			w.must(err)
			// until repeats what failed as a person would, who sends the same form again.
			until := func(what string, try func() error) {
				t.Helper()
				arm(cut)
				defer proxy.Pass()
				for range triesMax {
					if err = try(); err == nil {
						return
					}
				}
				t.Fatalf("%s: %s never happened: %v", at, what, err)
			}
			var codes []string
			until("the app", func() (err error) {
				codes, err = w.EnableTOTP(ctx, v, totp.Code(secret, totp.Step(*w.now)), "form")
				return err
			})
			p.HasTOTP = true
			w.must(w.CheckCode(ctx, p, codes[0], ""))
			until("the code", func() error { return w.CheckCode(ctx, p, totp.Code(secret, totp.Step(*w.now)+1), "form") })
			if left, err := w.CountRecoveryCodes(ctx, p); err != nil || left != recoveryCodes-1 {
				t.Errorf("%s: %d codes are left, %v", at, left, err)
			}
		}
	}
}
