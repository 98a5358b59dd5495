package main

import (
	"context"
	"encoding/csv"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// auditResult is what ponte audit prints.
type auditResult struct {
	Accounts  int64         `json:"accounts"`
	Transfers int64         `json:"transfers"`
	Problems  []problemJSON `json:"problems"`
}

var defaultSettings = map[string]string{
	"status": "active", "kyc": "approved", "api_cashin": "on", "api_cashout": "on", "api_payout": "on", "crypto": "on", "split": "off",
	"api_tx_limit": "none", "crypto_tx_limit": "none", "rate_limit": "600", "release_delay": "0", "disabled_resources": "none",
	"cash_in_fee": "0", "cash_out_fee": "1.00", "crypto_in_fee": "0+1%", "crypto_out_fee": "1.00",
}

// TestCommands runs every command with --json and reads what it prints.
func TestCommands(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		var version struct {
			Version int64 `json:"version"`
		}
		in.json(t, &version, "migrate")
		if version.Version < 1 {
			t.Errorf("version %d", version.Version)
		}
		var accounts []accountJSON
		in.json(t, &accounts, "account", "list")
		if accounts == nil || len(accounts) != 0 {
			t.Errorf("no accounts are %v", accounts)
		}
		account, key := in.account(t, "shop & <sons>")
		in.json(t, &accounts, "account", "list")
		if len(accounts) != 1 || accounts[0].Account != account || accounts[0].Name != "shop & <sons>" {
			t.Errorf("%+v", accounts)
		}
		if diff := cmp.Diff(defaultSettings, accounts[0].Settings); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}

		var changed accountJSON
		want := maps.Clone(defaultSettings)
		args := []string{"account", "set", account}
		for name, value := range map[string]string{
			"kyc": "pending", "split": "on", "api_tx_limit": "100.50", "crypto_tx_limit": "none", "rate_limit": "5", "release_delay": "24h",
			"disabled_resources": "charges,med", "cash_in_fee": "0.50+0.99%", "crypto_out_fee": "0",
		} {
			want[name] = value
			args = append(args, name+"="+value)
		}
		in.json(t, &changed, args...)
		want["release_delay"] = changed.Settings["release_delay"] // however it is written
		if diff := cmp.Diff(want, changed.Settings); diff != "" {
			t.Errorf("changed settings (-want +got):\n%s", diff)
		}

		var transaction struct {
			ID string `json:"transaction_id"`
		}
		adjust := func(currency, amount, prefix string) {
			t.Helper()
			in.json(t, &transaction, "account", "adjust", account, "--currency", currency, "--amount", amount, "--reason", "test")
			if !strings.HasPrefix(transaction.ID, prefix) {
				t.Errorf("%s %s is %s", currency, amount, transaction.ID)
			}
		}
		adjust("BRL", "100.00", "txn_in_")
		adjust("BRL", "-5", "txn_out_")
		adjust("USDT", "7.123456", "txn_in_")
		var hold struct {
			ID string `json:"hold_id"`
		}
		in.json(t, &hold, "account", "hold", account, "--amount", "30", "--reason", " =review")
		released := hold
		in.json(t, &released, "account", "hold", account, "--amount", "1", "--reason", "mistake")
		in.json(t, &released, "account", "release", account, released.ID)

		var shown accountJSON
		in.json(t, &shown, "account", "show", account)
		balances := map[string]balanceJSON{
			"BRL":  {Available: "65.00", Pending: "0.00", Blocked: "30.00", InTransit: "0.00"},
			"USDT": {Available: "7.123456", Pending: "0.000000", Blocked: "0.000000", InTransit: "0.000000"},
		}
		if diff := cmp.Diff(balances, shown.Balances); diff != "" {
			t.Errorf("balances (-want +got):\n%s", diff)
		}
		if len(shown.Holds) != 1 || shown.Holds[0].Hold != hold.ID || shown.Holds[0].Amount != "30.00" {
			t.Errorf("holds %+v", shown.Holds)
		}

		var made keyJSON
		in.json(t, &made, "key", "create", account, "--scopes", "charges:read,balance:read")
		if !anyKey.MatchString(made.Key) || made.Prefix != made.Key[3:11] || strings.Join(made.Scopes, ",") != "charges:read,balance:read" {
			t.Errorf("%+v", made)
		}
		var revoked keyJSON
		in.json(t, &revoked, "key", "revoke", made.Prefix)
		if revoked.Prefix != made.Prefix {
			t.Errorf("revoked %+v", revoked)
		}
		var keys []keyJSON
		in.json(t, &keys, "key", "list", account)
		if len(keys) != 2 || keys[0].Prefix != made.Prefix || keys[0].RevokedAt == nil || keys[0].Key != "" || keys[1].RevokedAt != nil ||
			keys[1].Prefix != key[3:11] || len(keys[1].Scopes) != 8 {
			t.Errorf("%+v", keys)
		}

		var network networkJSON
		in.json(t, &network, "ip", "block", "203.0.113.77/24")
		if network.Network != "203.0.113.0/24" {
			t.Errorf("%+v", network)
		}
		var networks []networkJSON
		in.json(t, &networks, "ip", "list")
		if len(networks) != 1 || networks[0].Network != "203.0.113.0/24" {
			t.Errorf("%+v", networks)
		}
		in.json(t, &network, "ip", "unblock", "203.0.113.0/24")
		in.json(t, &networks, "ip", "list")
		if networks == nil || len(networks) != 0 {
			t.Errorf("%+v", networks)
		}

		var audit auditResult
		in.json(t, &audit, "audit")
		if audit.Accounts != 1 || audit.Transfers != 6 || audit.Problems == nil || len(audit.Problems) != 0 {
			t.Errorf("%+v", audit)
		}
		today := testkit.Real.Now().Format(time.DateOnly)
		var lines []lineJSON
		in.json(t, &lines, "statement", account, "--from", "2020-01-01", "--to", today)
		if len(lines) != 5 || lines[4].Available != "65.00" || lines[4].Blocked != "30.00" || lines[4].Total != "95.00" {
			t.Errorf("%+v", lines)
		}
		in.json(t, &lines, "statement", account, "--from", "2020-01-01", "--to", "2020-01-02", "--currency", "USDT")
		if lines == nil || len(lines) != 0 {
			t.Errorf("a statement without movements: %+v", lines)
		}
		decodeOne(t, in.must(t, "statement", account, "--from", "2020-01-01", "--to", today, "--currency", "USDT", "--format", "json"), &lines)
		if len(lines) != 1 || lines[0].Total != "7.123456" {
			t.Errorf("%+v", lines)
		}
		table, err := csv.NewReader(strings.NewReader(in.must(t, "statement", account, "--from", "2020-01-01", "--to", today))).ReadAll()
		if err != nil || len(table) != 6 || table[0][0] != "time" || table[3][4] != "' =review" || table[3][3] != hold.ID {
			t.Errorf("%v, %v", table, err)
		}

		var findings []findingJSON
		in.json(t, &findings, "doctor")
		checks := map[string]bool{}
		for _, f := range findings {
			checks[f.Check] = f.OK
		}
		healthy := map[string]bool{
			"configuration": true, "acquirers": true, "database": true, "schema": true, "clock": true, "payments": true, "payouts": true,
			"crypto payouts": true, "crypto payments": true, "crypto charges": true, "late crypto money": true, "refunds of paid crypto charges": true,
			"infractions": true, "defenses": true, "webhooks": true,
		}
		if diff := cmp.Diff(healthy, checks); diff != "" {
			t.Errorf("doctor (-want +got):\n%s", diff)
		}

		var doubts []doubtJSON
		in.json(t, &doubts, "payout", "doubt")
		if doubts == nil || len(doubts) != 0 {
			t.Errorf("%+v", doubts)
		}

		var unmatched []unmatchedJSON
		in.json(t, &unmatched, "charge", "unmatched")
		if unmatched == nil || len(unmatched) != 0 {
			t.Errorf("%+v", unmatched)
		}

		err = sqltest.Open(t, in.database).Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO unmatched_deposit (provider, payment_id, reference, amount, found_at, reason) VALUES ('chain', '4522625843', 'order-7', 12500000, 1, 'it names no crypto charge of ours')`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var coins []unmatchedDepositJSON
		in.json(t, &coins, "deposit", "unmatched")
		found := unmatchedDepositJSON{"chain", "4522625843", "order-7", "12.500000", "1970-01-01T00:00:00.000001Z", "it names no crypto charge of ours"}
		if len(coins) != 1 || coins[0] != found {
			t.Errorf("%+v", coins)
		}
		if r := in.call(t, "deposit", "unmatched"); r.status != 0 || !strings.Contains(r.stdout, "4522625843") {
			t.Errorf("%+v", r)
		}
		var dismissed map[string]string
		in.json(t, &dismissed, "deposit", "dismiss", "4522625843", "--reason", "paid out by hand")
		if dismissed["payment_id"] != "4522625843" || dismissed["reason"] != "paid out by hand" {
			t.Errorf("%v", dismissed)
		}
		in.json(t, &coins, "deposit", "unmatched")
		if coins == nil || len(coins) != 0 {
			t.Errorf("%+v", coins)
		}
		if r := in.call(t, "deposit", "dismiss", "4522625843", "--reason", "twice"); r.status != 1 || !strings.Contains(r.stderr, "no such payment") {
			t.Errorf("%+v", r)
		}

		// The same for people: nothing of it is JSON.
		for _, args := range [][]string{
			{"charge", "unmatched"},
			{"deposit", "unmatched"},
			{"account", "list"},
			{"account", "show", account},
			{"key", "list", account},
			{"ip", "list"},
			{"audit"},
			{"payout", "doubt"},
			{"doctor"},
			{"migrate"},
			{"account", "set", account, "kyc=approved"},
			{"key", "create", account},
		} {
			if r := in.call(t, args...); r.status != 0 || r.stdout == "" || strings.ContainsAny(r.stdout[:1], "{[") {
				t.Errorf("%v: status %d: %s%s", args, r.status, r.stdout, r.stderr)
			}
		}
	})
}

// TestManyAccounts lists more accounts than are read at once.
func TestManyAccounts(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	in.must(t, "migrate")
	db := sqltest.Open(t, in.database)
	account, _ := in.account(t, "first")
	const copies = 450
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		columns, err := sqldb.All(ctx, tx, sqldb.Scalar[string], `SELECT name FROM pragma_table_info('account') WHERE name <> 'id'`)
		if err != nil {
			return err
		}
		rest := strings.Join(columns, ", ")
		for i := range copies {
			tx.Queue(ctx, `INSERT INTO account (id, `+rest+`) SELECT $1, `+rest+` FROM account LIMIT 1`, i+1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []accountJSON
	in.json(t, &list, "account", "list")
	if len(list) != copies+1 || list[copies].Account != account {
		t.Errorf("%d accounts listed, want %d", len(list), copies+1)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	account, key := in.account(t, "shop")
	hold := strings.Fields(in.must(t, "account", "hold", account, "--amount", "5", "--reason", "x"))[1]
	in.must(t, "account", "release", account, hold)
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "ponte.yaml")
	if err := os.WriteFile(config, []byte("databse: postgres://u:hunter2@h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noSuch := strings.Replace(sqltest.EmptyPostgres(t), "ponte_empty_", "ponte_gone_", 1)
	const failed, usage = 1, 2
	for i, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"account", "show", "acc_00000001"}, failed, "acc_00000001"},
		{[]string{"account", "show", "shop"}, failed, "shop"},
		{[]string{"account", "set", account, "status=gone"}, failed, "status must be"},
		{[]string{"account", "set", account, "colour=red"}, failed, "colour"},
		{[]string{"account", "set", account, "status"}, failed, "KEY=VALUE"},
		{[]string{"account", "set", account, "kyc=pending", "kyc=approved"}, failed, "twice"},
		{[]string{"account", "set", "acc_00000001", "status=active"}, failed, "acc_00000001"},
		{[]string{"account", "adjust", account, "--currency", "EUR", "--amount", "1", "--reason", "x"}, failed, "EUR"},
		{[]string{"account", "adjust", account, "--currency", "BRL", "--amount", "ten", "--reason", "x"}, failed, "--amount"},
		{[]string{"account", "adjust", account, "--currency", "BRL", "--amount", "1.001", "--reason", "x"}, failed, "--amount"},
		{[]string{"account", "adjust", account, "--currency", "BRL", "--amount", "0", "--reason", "x"}, failed, "--amount"},
		{[]string{"account", "adjust", account, "--currency", "BRL", "--amount", "1", "--reason", " "}, failed, "--reason"},
		{[]string{"account", "hold", account, "--amount", "-1", "--reason", "x"}, failed, "--amount"},
		{[]string{"account", "release", account, "hld_x"}, failed, "hld_x"},
		{[]string{"account", "release", account, "hld_00000000000000000000000000"}, failed, "no such hold"},
		{[]string{"account", "release", account, hold}, failed, "released already"},
		{[]string{"account", "create", "--name", "two\nlines"}, failed, "one line"},
		{[]string{"account", "create", "--name", " "}, failed, "name"},
		{[]string{"key", "create", account, "--scopes", "charges"}, failed, "charges"},
		{[]string{"key", "create", account, "--scopes", ""}, failed, "scope"},
		{[]string{"account", "hold", account, "--amount", "1", "--reason", "two\nlines"}, failed, "--reason"},
		{[]string{"key", "create", "acc_00000001"}, failed, "acc_00000001"},
		{[]string{"key", "revoke", "00000000"}, failed, "00000000"},
		{[]string{"key", "revoke", key}, failed, "8 hex"},
		{[]string{"ip", "block", "everywhere"}, failed, "everywhere"},
		{[]string{"ip", "unblock", "203.0.113.7"}, failed, "203.0.113.7"},
		{[]string{"statement", account, "--from", "yesterday", "--to", "2026-01-01"}, failed, "yesterday"},
		{[]string{"statement", account, "--from", "2026-01-02", "--to", "2026-01-01"}, failed, "--from"},
		{[]string{"statement", account, "--from", "2026-01-01", "--to", "2026-01-02", "--currency", "EUR"}, failed, "EUR"},
		{[]string{"audit", "--database", "sqlite:/nowhere/ponte.db"}, failed, "ponte serve"},
		{[]string{"audit", "--database", "sqlite:" + t.TempDir()}, failed, "folder"},
		{[]string{"audit", "--database", "sqlite:" + garbage}, failed, "not a database"},
		{[]string{"audit", "--database", "sqlite:"}, failed, `--database "sqlite:": sqldb: a database is sqlite:PATH or postgres://USER@HOST/NAME`},
		{[]string{"audit", "--database", noSuch}, failed, "PostgreSQL refuses the connection"},
		{[]string{"audit", "--database", "mysql://u:hunter2@h/d"}, failed, "postgres://"},
		{[]string{"audit", "--database", "postgres://u:hunter2@127.0.0.1:1/d"}, failed, "127.0.0.1"},
		{[]string{"audit", "--database", "postgres://u:hunter2@127.0.0.1:port/d"}, failed, "cannot be read"},
		{[]string{"audit", "--database", "postgres://u:hunter2@127.0.0.1:1/d?sslmode=nonsense"}, failed, "cannot be read"},
		{[]string{"serve", "--database", "postgres://u:hunter2@127.0.0.1:1/d", "--listen", "127.0.0.1:0"}, failed, "127.0.0.1"},

		{[]string{"accounts"}, usage, "accounts"},
		{[]string{"account"}, usage, "create"},
		{[]string{"account", "show"}, usage, "account"},
		{[]string{"account", "create"}, usage, "--name"},
		{[]string{"account", "adjust", account, "--currency", "BRL"}, usage, "--amount"},
		{[]string{"audit", "--verbose"}, usage, "--verbose"},
		{[]string{"audit", "more"}, usage, "more"},
		{[]string{"statement", account, "--from", "2026-01-01", "--to", "2026-01-02", "--format", "xml"}, usage, "--format"},
		{[]string{"audit", "--config", config}, usage, `"databse"`},
		{[]string{"audit", "--config", "/nowhere/ponte.yaml"}, usage, "ponte: --config: open /nowhere/ponte.yaml"},
		{[]string{"serve", "--listen", "0.0.0.0:0"}, usage, "plain text"},
		{[]string{"serve", "--listen", "8080"}, usage, "HOST:PORT"},
		{[]string{"serve", "--simulator-listen", "0.0.0.0:0"}, usage, "--simulator-listen 0.0.0.0:0 would serve the simulator in plain text"},
		{[]string{"serve", "--trusted-proxy", "foo"}, usage, `--trusted-proxy: "foo" is no network`},
		{[]string{"simulator", "--listen", "0.0.0.0:0"}, usage, "--listen 0.0.0.0:0 would serve the simulator in plain text"},
		{[]string{"serve", "--log-format", "xml"}, usage, "--log-format"},
		{[]string{"serve", "--tls-cert", "/nowhere/cert.pem"}, usage, "go together"},
	} {
		args := c.args
		if i%2 == 0 { // an error is the same with it
			args = append([]string{"--json"}, args...)
		}
		bare := &installation{binary: in.binary}
		if !strings.Contains(strings.Join(args, " "), "--database") {
			bare.where = in.where
		}
		r := bare.call(t, args...)
		name := strings.ReplaceAll(strings.Join(args, " "), key, "KEY")
		if r.status != c.status || r.stdout != "" {
			t.Errorf("ponte %s: status %d, want %d: %s%s", name, r.status, c.status, r.stdout, r.stderr)
		}
		if !strings.HasPrefix(r.stderr, "ponte: ") || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("ponte %s says %q, want one line with %s", name, r.stderr, c.says)
		}
		if strings.Contains(r.stderr, "hunter2") || strings.Contains(r.stderr, key[12:]) {
			t.Errorf("ponte %s tells a secret: %s", name, r.stderr)
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"account", "--help"}} {
		bare := &installation{binary: in.binary}
		if r := bare.call(t, args...); r.status != 0 || !strings.Contains(r.stdout, "Usage: ponte") || r.stderr != "" {
			t.Errorf("ponte %v: status %d: %s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	var audit auditResult
	in.json(t, &audit, "audit")
	if audit.Accounts != 1 || audit.Transfers != 2 {
		t.Errorf("a refused command did something: %+v", audit)
	}
}

// TestInvitationLink makes links to where people reach the dashboard: the public URL, or where the server listens.
func TestInvitationLink(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	in.must(t, "migrate")
	config := filepath.Join(t.TempDir(), "ponte.yaml")
	if err := os.WriteFile(config, []byte("listen: 127.0.0.1:8181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"http://127.0.0.1:8080/":   {},
		"http://127.0.0.1:8181/":   {"--config", config},
		"https://pay.example.com/": {"--config", config, "--url", "https://pay.example.com/"},
	} {
		r := in.call(t, append([]string{"user", "invite", "op@example.com", "--operator"}, args...)...)
		if r.status != 0 || !strings.HasPrefix(r.stdout, "link  "+want+"invitations/") {
			t.Errorf("%v: status %d: %s%s", args, r.status, r.stdout, r.stderr)
		}
	}
}

// TestNewerSchema meets a database of a later version.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		in.must(t, "migrate")
		db := sqltest.Open(t, in.database)
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO schema_version (version, name, checksum, applied_at) VALUES (999, 'later', 'x', 0)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"audit"}, {"migrate"}, {"account", "create", "--name", "x"}, {"serve", "--listen", "127.0.0.1:0"}} {
			r := in.call(t, args...)
			if r.status != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "newer ponte") {
				t.Errorf("ponte %v: status %d: %s", args, r.status, r.stderr)
			}
		}
	})
}

// TestAuditFindsWhatIsWrong breaks a balance behind the ledger's back.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		account, _ := in.account(t, "shop")
		in.must(t, "account", "adjust", account, "--currency", "BRL", "--amount", "10", "--reason", "x")
		db := sqltest.Open(t, in.database)
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE balance SET amount = amount + 1 WHERE book = 'available' AND currency = 'BRL'`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r := in.run(t, "audit", "--json")
		var audit auditResult
		decodeOne(t, r.stdout, &audit)
		if r.status != 1 || len(audit.Problems) != 1 || audit.Problems[0].Account != account {
			t.Errorf("status %d: %+v", r.status, audit)
		}
	})
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	cert := testkit.NewCertificate(t, t.TempDir(), testkit.Real.Real().Add(72*time.Hour))
	expired := testkit.NewCertificate(t, t.TempDir(), testkit.Real.Real().Add(-time.Minute))
	diagnose := func(status int, args ...string) map[string]findingJSON {
		t.Helper()
		r := in.call(t, append([]string{"doctor", "--json"}, args...)...)
		if r.status != status || r.stderr != "" || strings.Contains(r.stdout, "hunter2") {
			t.Errorf("doctor %v: status %d: %s%s", args, r.status, r.stdout, r.stderr)
		}
		var findings []findingJSON
		decodeOne(t, r.stdout, &findings)
		byCheck := map[string]findingJSON{}
		for _, f := range findings {
			if f.Detail == "" || strings.Contains(f.Detail, "\n") {
				t.Errorf("%s: %q", f.Check, f.Detail)
			}
			byCheck[f.Check] = f
		}
		return byCheck
	}
	if got := diagnose(1); got["database"].OK || !got["configuration"].OK || !strings.Contains(got["database"].Detail, "ponte serve") {
		t.Errorf("without a database: %+v", got)
	}
	in.must(t, "migrate")
	if got := diagnose(0, "--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile); !got["certificate"].OK || !strings.Contains(got["certificate"].Detail, "2 days") {
		t.Errorf("with a certificate: %+v", got)
	}
	if got := diagnose(1, "--tls-cert", expired.CertFile, "--tls-key", expired.KeyFile); got["certificate"].OK {
		t.Errorf("with an old certificate: %+v", got)
	}
	if got := diagnose(1, "--listen", "0.0.0.0:80"); got["configuration"].OK || !strings.Contains(got["configuration"].Detail, "plain text") {
		t.Errorf("in plain text: %+v", got)
	}
	in.where = nil
	if got := diagnose(1, "--database", "postgres://u:hunter2@127.0.0.1:1/d"); got["database"].OK {
		t.Errorf("nobody there: %+v", got)
	}
}
