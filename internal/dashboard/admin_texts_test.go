package dashboard

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/audit"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/oplog"
)

// Every word that the operator's pages put together has a text.
func TestAdminWords(t *testing.T) {
	t.Parallel()
	var keys []string
	add := func(prefix string, words ...string) {
		for _, w := range words {
			keys = append(keys, "admin."+prefix+w)
		}
	}
	for _, a := range oplog.Actions {
		add("action_", string(a))
	}
	for _, s := range infraction.States {
		add("infraction_", string(s))
	}
	for _, s := range []charge.State{charge.Pending, charge.Paid, charge.Expired, charge.Cancelled, charge.Refunded} {
		add("charge_", string(s))
	}
	for _, r := range []deposit.Review{deposit.ReviewLate, deposit.ReviewRefund, deposit.ReviewMore, deposit.ReviewCoin, deposit.ReviewStuck} {
		add("review_", string(r))
	}
	for _, s := range []audit.State{audit.Waiting, audit.Running, audit.Done, audit.Cancelled, audit.Failed} {
		add("audit_", string(s))
	}
	for _, h := range []infraction.Handing{infraction.Waiting, infraction.Taken, infraction.Refused} {
		add("handing_", string(h))
	}
	for _, o := range []acquirer.Outcome{acquirer.Accepted, acquirer.Refused, acquirer.Unknown, acquirer.Skipped} {
		add("outcome_", o.String())
		if outcomeTones[o] == "" {
			t.Errorf("the outcome %s has no tone", o)
		}
	}
	for _, s := range []acquirer.BreakerState{acquirer.BreakerClosed, acquirer.BreakerOpen, acquirer.BreakerTrial} {
		add("breaker_", s.String())
	}
	add("status_", statuses...)
	for _, row := range settingRows {
		add("set_", row.key)
		add("group_", string(row.group))
		if row.kind == settingChoice {
			add("choice_", row.words...)
		}
		if row.kind == settingText {
			add("wrong_", row.key)
		} else {
			add("wrong_", string(row.kind))
		}
	}
	for _, key := range keys {
		if !localePT.has(key) {
			t.Errorf("%s has no text", key)
		}
	}
	if len(reasons) != 8 {
		t.Errorf("%d reasons of routing have texts", len(reasons))
	}
}

// The form has every setting but the status, which has a form of its own, and reads back what it shows.
func TestSettingsInBothLanguages(t *testing.T) {
	t.Parallel()
	settings := account.Defaults()
	for _, assignment := range [][2]string{
		{"api_tx_limit", "12345.67"},
		{"crypto_tx_limit", "1000.5"},
		{"cash_in_fee", "0.50+0.99%"},
		{"release_delay", "36h"},
		{"rate_limit", "1200"},
		{"disabled_resources", "crypto,med"},
		{"crypto_out_fee", "2.500001"},
		{"api_payout", "off"},
		{"kyc", "pending"},
	} {
		if err := settings.Set(assignment[0], assignment[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range locales {
		for _, s := range []account.Settings{account.Defaults(), settings} {
			keys := []string{"status"}
			for _, one := range s.List() {
				at := slices.IndexFunc(settingRows, func(r settingRow) bool { return r.key == one.Key })
				if at < 0 {
					continue
				}
				row := settingRows[at]
				keys = append(keys, row.key)
				filled := map[string][]string{}
				text, rate := row.show(l, one.Value)
				switch {
				case row.kind == settingSet && one.Value == noLimit, row.kind == settingSwitch && one.Value == "off":
				default:
					filled[row.key], filled[row.key+share] = []string{text}, []string{rate}
				}
				back := s
				if err := back.Set(row.key, row.read(l, filled)); err != nil || back != s {
					t.Errorf("%s: %s=%s is shown as %q %q and read as %q, %v", l, row.key, one.Value, text, rate, row.read(l, filled), err)
				}
			}
			if len(keys) != len(s.List()) {
				t.Errorf("%d of %d settings have a field: %v", len(keys), len(s.List()), keys)
			}
		}
	}
}

// Every reason that a payment or an infraction is kept for has a text, and no text is for a reason that is gone.
func TestStraysHaveTexts(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, file := range []string{"charge/reconcile.go", "charge/settle.go", "deposit/reconcile.go", "infraction/settle.go"} {
		content, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		source.Write(content)
	}
	written := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?:s\.unmatched\([^"\n]*|tx\.Queue\(ctx, upsertUnmatched,[^"]*|why = )"([^"]+)"`).FindAllStringSubmatch(source.String(), -1) {
		written[found[1]] = true
		if strays[found[1]] == "" {
			t.Errorf("nothing is said for %q", found[1])
		}
	}
	for reason := range strays {
		if !written[reason] {
			t.Errorf("nobody writes %q", reason)
		}
	}
	if got := localeEN.stray("another"); got != "another" {
		t.Error(got)
	}
}
