package config_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// commands is a command line with the settings of this package.
type commands struct {
	config.Store

	Serve struct {
		config.Serve `embed:""`
	} `cmd:""`
	Audit struct{} `cmd:""`
}

// parse reads a command line as ponte does.
func parse(t *testing.T, args ...string) (commands, error) {
	t.Helper()
	if err := config.SecretFiles(); err != nil {
		return commands{}, err
	}
	var c commands
	parser, err := kong.New(&c, config.Files(), config.Networks(), kong.Exit(func(int) { t.Error("it exits") }))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return c, err
}

func mustParse(t *testing.T, args ...string) commands {
	t.Helper()
	c, err := parse(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ponte.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "serve")
	folder, err := filepath.Abs("ponte-data")
	if err != nil {
		t.Fatal(err)
	}
	if c.URL() != "sqlite:"+filepath.Join(folder, "ponte.db") || c.SQLitePath() != filepath.Join(folder, "ponte.db") {
		t.Errorf("database %s", c.URL())
	}
	s := c.Serve.Serve
	if s.Listen != "127.0.0.1:8080" || s.AdminListen != "127.0.0.1:9090" || s.HasTLS() || !s.HasAdmin() || s.LogFormat != "text" ||
		s.LogLevel != slog.LevelInfo || s.DrainTimeout != 20*time.Second || len(s.TrustedProxy) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPrecedence sets one value in every combination of places: a flag weighs more than a variable, and that more than
// the file.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		flag, variable, file bool
		want                 string
	}{
		{true, true, true, "127.0.0.1:1"},
		{true, true, false, "127.0.0.1:1"},
		{true, false, true, "127.0.0.1:1"},
		{true, false, false, "127.0.0.1:1"},
		{false, true, true, "127.0.0.1:2"},
		{false, true, false, "127.0.0.1:2"},
		{false, false, true, "127.0.0.1:3"},
		{false, false, false, "127.0.0.1:8080"},
	} {
		t.Run(fmt.Sprintf("flag=%v variable=%v file=%v", c.flag, c.variable, c.file), func(t *testing.T) {
			args := []string{"serve"}
			if c.flag {
				args = append(args, "--listen", "127.0.0.1:1")
			}
			if c.variable {
				t.Setenv("PONTE_LISTEN", "127.0.0.1:2")
			}
			content := "log_format: json\n"
			if c.file {
				content += "listen: 127.0.0.1:3\n"
			}
			args = append(args, "--config", file(t, content))
			got := mustParse(t, args...)
			if got.Serve.Listen != c.want || got.Serve.LogFormat != "json" {
				t.Errorf("listens on %s, logs %s", got.Serve.Listen, got.Serve.LogFormat)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	t.Setenv("PONTE_DATABASE", "postgres://u@h/d")
	t.Setenv("PONTE_DATA", "/srv/ponte")
	t.Setenv("PONTE_CONFIG", file(t, "acme-email: a@example.org\nacme_domain: [pay.example.org]"))
	t.Setenv("PONTE_LISTEN", "0.0.0.0:443")
	t.Setenv("PONTE_ADMIN_LISTEN", "off")
	t.Setenv("PONTE_LOG_FORMAT", "json")
	t.Setenv("PONTE_LOG_LEVEL", "debug")
	t.Setenv("PONTE_DRAIN_TIMEOUT", "3s")
	t.Setenv("PONTE_TRUSTED_PROXY", "10.0.0.0/8,2001:db8::/32")
	c := mustParse(t, "serve")
	s := c.Serve.Serve
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	if c.URL() != "postgres://u@h/d" || c.SQLitePath() != "" || c.Data != "/srv/ponte" || s.Listen != "0.0.0.0:443" || s.HasAdmin() ||
		s.LogFormat != "json" || s.LogLevel != slog.LevelDebug || s.DrainTimeout != 3*time.Second ||
		!slices.Equal(s.TrustedProxy, proxies) || s.ACMEEmail != "a@example.org" || !slices.Equal(s.ACMEDomain, []string{"pay.example.org"}) {
		t.Errorf("%+v", c)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "serve", "--config", file(t, `
# Names are the flags', with - or _.
database: sqlite:/srv/ponte.db
trusted_proxy:
  - 10.0.0.0/8
  - 192.168.0.0/16
drain-timeout: 5s
log_level: warn
admin_listen: "off"
`))
	s := c.Serve.Serve
	if c.SQLitePath() != "/srv/ponte.db" || len(s.TrustedProxy) != 2 || s.DrainTimeout != 5*time.Second || s.LogLevel != slog.LevelWarn || s.HasAdmin() {
		t.Errorf("%+v", c)
	}
	mustParse(t, "audit", "--config", file(t, "listen: 127.0.0.1:1\n")) // one file for every command
	mustParse(t, "serve", "--config", file(t, ""))
	for name, c := range map[string]struct{ content, want string }{
		"unknown name":           {"listen: 127.0.0.1:1\nlisten_on: x\n", `unknown setting "listen_on"`},
		"unknown name, a secret": {"databse: postgres://u:hunter2@h/d\n", `unknown setting "databse"`},
		"no YAML":                {"listen: [", "yaml"},
		"a name twice":           {"listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", "already defined"},
		"a list":                 {"- listen\n", "yaml"},
		"a bad value":            {"drain_timeout: soon\n", "drain-timeout"},
		"a bad network":          {"trusted_proxy: [10.0.0.0/99]\n", "trusted-proxy"},
		"a bad word":             {"log_format: xml\n", "log-format"},
		"too large":              {"# " + strings.Repeat("x", 1<<20) + "\n", "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, "serve", "--config", file(t, c.content))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "--help") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := parse(t, "serve", "--config", "/nowhere/ponte.yaml"); err == nil || !strings.HasPrefix(err.Error(), "--config: open /nowhere/ponte.yaml") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestSecretFiles(t *testing.T) {
	secret := file(t, "postgres://u:hunter2@h/d\r\n")
	t.Setenv("PONTE_DATABASE_FILE", secret)
	t.Setenv("PONTE_DATABASE", "") // empty is the same as not set, and restored after the test
	if c := mustParse(t, "audit"); c.URL() != "postgres://u:hunter2@h/d" {
		t.Errorf("database %q", c.URL())
	}
	_, err := parse(t, "audit") // now both are set
	if err == nil || !strings.Contains(err.Error(), "PONTE_DATABASE_FILE") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("both set: %v", err)
	}
	t.Setenv("PONTE_DATABASE", "")
	t.Setenv("PONTE_DATABASE_FILE", "/nowhere/secret")
	if _, err := parse(t, "audit"); err == nil || !strings.Contains(err.Error(), "/nowhere/secret") {
		t.Errorf("a missing file: %v", err)
	}
	t.Setenv("PONTE_DATABASE_FILE", "")
	t.Setenv("OTHER_DATABASE_FILE", "/nowhere/else") // somebody else's
	if c := mustParse(t, "audit"); c.SQLitePath() == "" {
		t.Errorf("database %q", c.URL())
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	cert := testkit.NewCertificate(t, t.TempDir(), testkit.Real.Real().Add(time.Hour))
	other := testkit.NewCertificate(t, t.TempDir(), testkit.Real.Real().Add(time.Hour))
	for _, c := range []struct {
		name string
		args []string
		want string // in the refusal; "" means that it is fine
	}{
		{"loopback", []string{"--listen", "127.0.0.1:8080"}, ""},
		{"all of loopback", []string{"--listen", "127.1.2.3:8080"}, ""},
		{"IPv6 loopback", []string{"--listen", "[::1]:8080"}, ""},
		{"localhost", []string{"--listen", "localhost:8080"}, ""},
		{"any address", []string{"--listen", "0.0.0.0:8080"}, "plain text"},
		{"any IPv6 address", []string{"--listen", "[::]:8080"}, "plain text"},
		{"no address", []string{"--listen", ":8080"}, "plain text"},
		{"a private address", []string{"--listen", "192.168.1.1:8080"}, "plain text"},
		{"a name", []string{"--listen", "pay.example.org:8080"}, "plain text"},
		{"a name like localhost", []string{"--listen", "localhost.example.org:8080"}, "plain text"},
		{"behind a proxy", []string{"--listen", "0.0.0.0:8080", "--trusted-proxy", "10.0.0.0/8"}, ""},
		{"own TLS", []string{"--listen", "0.0.0.0:443", "--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile}, ""},
		{"ACME", []string{"--listen", "0.0.0.0:443", "--acme-domain", "pay.example.org", "--acme-email", "a@example.org"}, ""},
		{"no port", []string{"--listen", "127.0.0.1"}, "HOST:PORT"},
		{"certificate without key", []string{"--tls-cert", cert.CertFile}, "go together"},
		{"key without certificate", []string{"--tls-key", cert.KeyFile}, "go together"},
		{"another key", []string{"--tls-cert", cert.CertFile, "--tls-key", other.KeyFile}, "--tls-cert"},
		{"no such certificate", []string{"--tls-cert", "/nowhere/cert.pem", "--tls-key", cert.KeyFile}, "/nowhere/cert.pem"},
		{"certificate and ACME", []string{"--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile, "--acme-domain", "pay.example.org"}, "exclude"},
		{"ACME without domain", []string{"--acme-email", "a@example.org"}, "--acme-domain"},
		{"no wait", []string{"--drain-timeout", "0s"}, ""},
		{"keys for a day", []string{"--key-retention", "24h"}, ""},
		{"keys for a minute", []string{"--key-retention", "1m"}, "--key-retention"},
		{"keys for two years", []string{"--key-retention", "17520h"}, "--key-retention"},
		{"a negative wait", []string{"--drain-timeout=-1s"}, "--drain-timeout"},
		{"a long wait", []string{"--drain-timeout", "11m"}, "--drain-timeout"},
		{"admin on loopback", []string{"--admin-listen", "[::1]:9090"}, ""},
		{"no admin", []string{"--admin-listen", "off"}, ""},
		{"admin for everybody", []string{"--admin-listen", "0.0.0.0:9090"}, "--admin-listen"},
		{"admin for everybody beside TLS", []string{"--admin-listen", ":9090", "--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile}, "--admin-listen"},
		{"no admin address", []string{"--admin-listen", "no"}, "--admin-listen"},
		{"simulator on loopback", []string{"--simulator-listen", "[::1]:8090"}, ""},
		{"simulator for everybody", []string{"--simulator-listen", "0.0.0.0:8090"}, "--simulator-listen 0.0.0.0:8090 would serve the simulator in plain text"},
		{"simulator for everybody beside TLS", []string{"--simulator-listen", ":8090", "--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile}, "plain text"},
		{"no simulator address", []string{"--simulator-listen", "8090"}, "HOST:PORT"},
		{"no network", []string{"--trusted-proxy", "proxy"}, `--trusted-proxy: "proxy" is no network`},
		{"an address", []string{"--trusted-proxy", "10.0.0.1"}, `--trusted-proxy: "10.0.0.1" is no network`},
		{"two networks", []string{"--trusted-proxy", "10.0.0.0/8,2001:db8::/32"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, append([]string{"serve"}, c.args...)...)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:/srv/ponte.db":                                 "sqlite:/srv/ponte.db",
		"postgres://u@h/d":                                     "postgres://u@h/d",
		"postgres://u@h:5432/d?sslmode=disable":                "postgres://u@h:5432/d?sslmode=disable",
		"postgres://u:hunter2@h/d":                             "postgres://u:***@h/d",
		"postgresql://u:hunter2@h:5432/d?pool_max_conns=4":     "postgresql://u:***@h:5432/d?pool_max_conns=4",
		"postgres://u:hunter2%40%2F@h/d":                       "postgres://u:***@h/d",
		"postgres://u:hunter2@ex@h/d":                          "postgres://u:***@h/d",
		"postgres://h/d?user=u&password=hunter2":               "postgres://h/d",
		"postgres://u:hunter2@h/d?sslpassword=hunter2&x=1":     "postgres://u:***@h/d",
		"postgres://u:hunter2@h:port/d":                        "***",
		"postgres://u:hunter2%zz@h/d":                          "***",
		"host=h user=u password=hunter2":                       "***",
		"postgres://u:@h/d":                                    "postgres://u:***@h/d",
		"mysql://u:hunter2@h/d":                                "mysql://u:***@h/d",
		"postgres://u@h/d?options=-c%20search_path%3Dhunter":   "postgres://u@h/d?options=-c%20search_path%3Dhunter",
		"postgres://h/d?user=u&PASSWORD=hunter2":               "postgres://h/d",
		"postgres://u:hunter2@h1:1,h2:2/d?target_session=any":  "postgres://u:***@h1:1,h2:2/d?target_session=any",
		"postgres://u:hunter2@h/d?application_name=ponte#frag": "postgres://u:***@h/d?application_name=ponte#frag",
	} {
		s := config.Store{Database: url}
		if got := s.Redacted(); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("serving", slog.Any("database", s))
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: logged %s", url, log.String())
		}
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	if w, err := (config.Store{}).Webhooks(); err != nil || w.Timeout != 0 || w.RetryWaits != nil {
		t.Errorf("without a file: %+v %v", w, err)
	}
	c := mustParse(t, "serve", "--config", file(t, "listen: 127.0.0.1:1\nwebhooks:\n  timeout: 200ms\n  retry_waits: [1s, 2m]\n  keep: 48h\n  allow_networks: [10.0.0.0/8]\n"))
	w, err := c.Webhooks()
	if err != nil || w.Timeout != 200*time.Millisecond || !slices.Equal(w.RetryWaits, []time.Duration{time.Second, 2 * time.Minute}) ||
		w.Keep != 48*time.Hour || !slices.Equal(w.AllowNetworks, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}) {
		t.Errorf("%+v %v", w, err)
	}
	for _, text := range []string{"timeout: 1ms", "timeout: 2m", "retry_waits: [-1s]", "retry_waits: [200h]", "keep: 1h", "allow_networks: [10.0.0.0]", "wait: 1s"} {
		if _, err := (config.Store{Config: file(t, "webhooks:\n  "+text+"\n")}).Webhooks(); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestSimulatorListen holds the flag's default, which a tag has to repeat, to the name that others compare it with.
func TestSimulatorListen(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[config.Serve]().FieldByName("SimulatorListen")
	if got := field.Tag.Get("default"); got != config.SimulatorListen {
		t.Errorf("the flag's default is %s, want %s", got, config.SimulatorListen)
	}
}
