package main

import (
	"os/user"
	"strings"
	"testing"
)

// Whatever is changed by the command line is in the log, with who did it, and what only looks is not.
func TestEveryChangeIsLogged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		json := func(v any, args ...string) {
			t.Helper()
			r := in.call(t, append(args, "--json")...)
			if r.status != 0 {
				t.Fatalf("ponte %s: %s", strings.Join(args, " "), r.stderr)
			}
			decodeOne(t, r.stdout, v)
		}
		var shop struct {
			Account string `json:"account_id"`
			Key     string `json:"api_key"`
		}
		json(&shop, "account", "create", "--name", "shop")
		account, key := shop.Account, shop.Key[len("bp_"):len("bp_")+8]
		var hold struct {
			Hold string `json:"hold_id"`
		}
		json(&hold, "account", "hold", account, "--amount", "5", "--reason", "review")
		var made endpointJSON
		json(&made, "endpoint", "create", account, "--url", "https://shop.example/hook", "--events", "all")
		logged := func() []entryJSON {
			t.Helper()
			var entries []entryJSON
			json(&entries, "log")
			return entries
		}
		me, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		count := len(logged())
		if count != 3 {
			t.Errorf("%d entries after three changes", count)
		}
		for _, test := range []struct{ action, change, args string }{
			{"account.set", "kyc=approved rate_limit=600 -> kyc=pending rate_limit=7", "account set " + account + " kyc=pending rate_limit=7 --reason papers"},
			{"account.adjust", " -> amount=-1.50 currency=BRL", "account adjust " + account + " --currency BRL --amount -1.5 --reason fee"},
			{"account.release", "amount=5.00 reason=review -> ", "account release " + account + " " + hold.Hold},
			{"key.create", " -> scopes=balance:read", "key create " + account + " --scopes balance:read"},
			{"key.revoke", "state=works -> state=revoked", "key revoke " + key},
			{"", "", "key revoke " + key},
			{"ip.block", " -> state=blocked", "ip block 203.0.113.0/24"},
			{"ip.unblock", "state=blocked -> ", "ip unblock 203.0.113.0/24"},
			{"endpoint.disable", "events=all status=active url=https://shop.example/hook -> events=all status=disabled url=https://shop.example/hook", "endpoint disable " + made.Endpoint},
			{"endpoint.enable", "events=all status=disabled url=https://shop.example/hook -> events=all status=active url=https://shop.example/hook", "endpoint enable " + made.Endpoint},
			{"endpoint.rotate", "events=all status=active url=https://shop.example/hook -> events=all status=active url=https://shop.example/hook", "endpoint rotate --after 0s " + made.Endpoint},
			{"endpoint.delete", "events=all status=active url=https://shop.example/hook -> events=all status=deleted url=https://shop.example/hook", "endpoint delete " + made.Endpoint},
			{"event.redeliver", " -> failed=false since=2026-01-01T00:00:00Z until=2026-01-03T00:00:00Z", "event redeliver --account " + account + " --since 2026-01-01 --until 2026-01-02"},
			{"acquirer.off", "state=on -> state=off", "acquirer off alpha --reason drill"},
			{"", "", "acquirer list"},
			{"", "", "account show " + account},
			{"", "", "infraction unmatched"},
		} {
			if r := in.call(t, strings.Fields(test.args)...); r.status != 0 {
				t.Fatalf("ponte %s: %s", test.args, r.stderr)
			}
			entries := logged()
			if test.action == "" {
				if len(entries) != count {
					t.Errorf("ponte %s is logged: %+v", test.args, entries[0])
				}
				continue
			}
			count++
			one := entries[0]
			if got := fieldsText(one.Before) + " -> " + fieldsText(one.After); len(entries) != count || one.Action != test.action || got != test.change || one.Who != "cli:"+me.Username {
				t.Errorf("ponte %s: %d entries, %s: %s", test.args, len(entries), one.Action, got)
			}
		}
		for args, want := range map[string]string{
			"acquirer off alpah --reason typo":      "no acquirer",
			"acquirer off alpha --reason twice":     "already",
			"infraction dismiss 17 --reason none":   "no such infraction",
			"account set " + account + " kyc=maybe": "kyc",
		} {
			if r := in.call(t, strings.Fields(args)...); r.status != 1 || !strings.Contains(r.stderr, want) {
				t.Errorf("ponte %s: %d %s", args, r.status, r.stderr)
			}
		}
		if entries := logged(); len(entries) != count {
			t.Errorf("what was refused is logged: %+v", entries[0])
		}
		for _, e := range logged() {
			if text := fieldsText(e.Before) + fieldsText(e.After) + e.Subject; strings.Contains(text, "whsec_") || strings.Contains(text, "bp_") {
				t.Errorf("a secret is in the log: %s", text)
			}
		}
	})
}
