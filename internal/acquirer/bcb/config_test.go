package bcb

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/wire"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	a := &authority{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.certificate = sign(t, template, template, key.Public(), key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, public, private any) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, private)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// issue makes a certificate for a server on this machine, or for a client.
func (a *authority) issue(t *testing.T, public any) *x509.Certificate {
	t.Helper()
	return sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.certificate, public, a.key)
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.certificate)
	return p
}

func pemOf(t *testing.T, c *x509.Certificate, key any) Certificate {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Certificate{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// TestCertificates talks to a bank that asks for a certificate of its own authority.
func TestCertificates(t *testing.T) {
	t.Parallel()
	own, foreign := newAuthority(t), newAuthority(t)
	key := newKey(t)
	leaf, stranger := own.issue(t, key.Public()), foreign.issue(t, key.Public())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaLeaf := own.issue(t, rsaKey.Public())
	p12 := func(e *pkcs12.Encoder, private any, c *x509.Certificate, password string) Certificate {
		t.Helper()
		data, err := e.Encode(private, c, []*x509.Certificate{own.certificate}, password)
		if err != nil {
			t.Fatal(err)
		}
		return Certificate{PKCS12: data, Password: password}
	}
	tests := []struct {
		name        string
		certificate Certificate
		want        string
	}{
		{"PEM", pemOf(t, leaf, key), ""},
		{"PEM, RSA", pemOf(t, rsaLeaf, rsaKey), ""},
		{"PKCS#12", p12(pkcs12.Modern2023, key, leaf, "a password"), ""},
		{"PKCS#12 as Efí gives it", p12(pkcs12.LegacyRC2, rsaKey, rsaLeaf, ""), ""},
		{"PKCS#12 of old", p12(pkcs12.LegacyDES, key, leaf, ""), ""},
		{"none", Certificate{}, "refused credentials"},
		{"a stranger's", pemOf(t, stranger, key), "refused credentials"},
	}
	serverKey := newKey(t)
	server := own.issue(t, serverKey.Public())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b := &bank{}
		b.Server = httptest.NewUnstartedServer(b.handler(nil, always(reply{201, cobBody("ATIVA")})))
		b.Config.ErrorLog = quiet
		b.TLS = &tls.Config{
			MinVersion: version, MaxVersion: version, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: own.pool(),
			Certificates: []tls.Certificate{{Certificate: [][]byte{server.Raw}, PrivateKey: serverKey}},
		}
		b.StartTLS()
		t.Cleanup(b.Close)
		for _, tt := range tests {
			config := b.config()
			config.Certificate, config.RootCAs = tt.certificate, own.pool()
			c, _ := newClient(t, config)
			_, err := c.CreateCharge(t.Context(), newCharge)
			// With TLS 1.3 the bank may reset the connection before we have read why; then the class is another.
			got := outcome(err)
			if tt.want != "" && got == "refused down" {
				got = tt.want
			}
			if got != tt.want {
				t.Errorf("%s, %s: got %q, want %q: %v", tls.VersionName(version), tt.name, got, tt.want, err)
			}
		}
		// Who is not the bank gets nothing from us.
		before := len(b.tokens)
		config := b.config()
		config.RootCAs, config.Certificate = foreign.pool(), tests[0].certificate
		c, _ := newClient(t, config)
		if _, err := c.CreateCharge(t.Context(), newCharge); outcome(err) != "refused credentials" || len(b.tokens) != before {
			t.Errorf("%s: an impostor got an answer: %v", tls.VersionName(version), err)
		}
	}
}

// TestCertificateRefusedAfterSending is the case of TLS 1.3 in which the charge itself is sent before its connection is
// refused.
func TestCertificateRefusedAfterSending(t *testing.T) {
	t.Parallel()
	own, key := newAuthority(t), newKey(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(conn, &tls.Config{
				MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
				Certificates: []tls.Certificate{{Certificate: [][]byte{own.issue(t, key.Public()).Raw}, PrivateKey: key}},
			})
			if err := secure.Handshake(); err == nil {
				t.Error("no certificate was enough")
			}
			// What was sent is taken in, or the connection would be reset and nobody would know why.
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	})
	config := newBank(t, nil, nil).config()
	config.BaseURL, config.RootCAs = "https://"+listener.Addr().String(), own.pool()
	c, _ := newClient(t, config)
	if _, err := c.CreateCharge(t.Context(), newCharge); outcome(err) != "refused credentials" || acquirer.As(err).Operation != "charge.create" {
		t.Errorf("got %v", err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, config.BaseURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.transport.RoundTrip(r)
	if err == nil {
		answer.Body.Close()
	}
	if wire.SentNothing(err) || !wire.RefusedCertificate(err) {
		t.Errorf("the transport says %v", err)
	}

	for text, want := range map[string]bool{
		"tls: bad certificate": true, "tls: unknown certificate authority": true, "tls: certificate required": true, "tls: access denied": true,
		"tls: internal error": false, "tls: bad record MAC": false, "tls: close notify": false,
	} {
		err := fmt.Errorf("wrapped: %w", &net.OpError{Op: "remote error", Err: alertError(text)})
		if got := wire.RefusedCertificate(err); got != want {
			t.Errorf("%v is a refused certificate: %v", err, got)
		}
	}
	if wire.RefusedCertificate(&net.OpError{Op: "read", Err: alertError("tls: bad certificate")}) || wire.RefusedCertificate(alertError("certificate")) {
		t.Error("what the other side did not say counts")
	}
}

type alertError string

func (a alertError) Error() string { return string(a) }

func TestBadCertificates(t *testing.T) {
	t.Parallel()
	own := newAuthority(t)
	key, other := newKey(t), newKey(t)
	leaf := own.issue(t, key.Public())
	good := pemOf(t, leaf, key)
	mixed, err := pkcs12.Modern2023.Encode(other, leaf, nil, "secret-password")
	if err != nil {
		t.Fatal(err)
	}
	right, err := pkcs12.Modern2023.Encode(key, leaf, nil, "secret-password")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Certificate{
		"no key":             {CertPEM: good.CertPEM},
		"no certificate":     {KeyPEM: good.KeyPEM},
		"another's key":      {CertPEM: good.CertPEM, KeyPEM: pemOf(t, leaf, other).KeyPEM},
		"no PEM":             {CertPEM: []byte("x"), KeyPEM: []byte("secret-key")},
		"no PKCS#12":         {PKCS12: []byte("secret-file")},
		"wrong password":     {PKCS12: right, Password: "secret-wrong"},
		"another's PKCS#12":  {PKCS12: mixed, Password: "secret-password"},
		"PEM and PKCS#12":    {CertPEM: good.CertPEM, KeyPEM: good.KeyPEM, PKCS12: right, Password: "secret-password"},
		"PKCS#12, cut short": {PKCS12: right[:len(right)/2], Password: "secret-password"},
	} {
		config := (&bank{Server: &httptest.Server{URL: "https://bank.example"}}).config()
		config.Certificate = c
		if _, err := New(config, clock.New(nil)); err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "bcb: acquirer alpha: certificate: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	config := (&bank{Server: &httptest.Server{URL: "https://bank.example"}}).config()
	config.Certificate, config.Transport = good, http.DefaultTransport
	if _, err := New(config, clock.New(nil)); err == nil {
		t.Error("a transport of its own beside certificates")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{
		Name: "alpha", BaseURL: "https://bank.example/v2/", TokenURL: "https://bank.example/oauth/token", ClientID: "id", ClientSecret: "secret", Key: "k",
	}
	if _, err := New(good, clock.New(nil)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no name":          func(c *Config) { c.Name = "" },
		"no id":            func(c *Config) { c.ClientID = "" },
		"no secret":        func(c *Config) { c.ClientSecret = "" },
		"no key":           func(c *Config) { c.Key = "" },
		"no address":       func(c *Config) { c.BaseURL = "" },
		"half an address":  func(c *Config) { c.TokenURL = "/oauth/token" },
		"plain text":       func(c *Config) { c.BaseURL = "http://bank.example/v2" },
		"plain tokens":     func(c *Config) { c.TokenURL = "http://10.0.0.1/oauth/token" },
		"another scheme":   func(c *Config) { c.BaseURL = "ftp://bank.example" },
		"a password":       func(c *Config) { c.BaseURL = "https://me:secret@bank.example" },
		"a broken address": func(c *Config) { c.BaseURL = "https://me:secret@bank.example/%zz" },
		"a query":          func(c *Config) { c.BaseURL = "https://bank.example/?a=secret" },
		"a fragment":       func(c *Config) { c.BaseURL = "https://bank.example/#secret" },
	} {
		c := good
		change(&c)
		if _, err := New(c, clock.New(nil)); err == nil || strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "=secret") || !strings.HasPrefix(err.Error(), "bcb: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, local := range []string{"http://127.0.0.1:1", "http://localhost:1/x", "http://[::1]:1"} {
		c := good
		c.BaseURL, c.TokenURL = local, local
		if _, err := New(c, clock.New(nil)); err != nil {
			t.Errorf("%s: %v", local, err)
		}
	}
}

// TestSecretsStayHidden prints everything that can be printed, and lets a bank repeat whatever it was told.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			id, secret, _ := r.BasicAuth()
			sent := new(bytes.Buffer)
			_, _ = sent.ReadFrom(r.Body)
			words := strings.Join([]string{r.Header.Get("Authorization"), id, secret, sent.String(), "\x00\n\u2028", "529.982.247-25", strings.Repeat("long ", 100)}, " ")
			body, _ := json.Marshal(map[string]any{"nome": "x", "mensagem": words, "violacoes": []any{map[string]string{"razao": words, "propriedade": words, "valor": words}}})
			reply{status, string(body)}.write(w)
		}
	}
	config := Config{Certificate: Certificate{CertPEM: []byte(testSecret), KeyPEM: []byte(testSecret), PKCS12: []byte(testSecret), Password: testSecret}, ClientSecret: testSecret}
	var texts []string
	encoded, err := json.Marshal([]any{config, config.Certificate})
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", slog.Any("config", config), slog.Any("certificate", config.Certificate))
	texts = append(texts, string(encoded), logged.String(), fmt.Sprintf("%v %+v %#v %s %q", config, config, config, config, config),
		fmt.Sprintf("%v %+v %#v %s %q", config.Certificate, config.Certificate, config.Certificate, config.Certificate, config.Certificate))

	n := newCharge
	n.PayerName, n.PayerDocument = "Ana", "52998224725"
	for _, b := range []*bank{newBank(t, echo(401), nil), newBank(t, nil, echo(400)), newBank(t, nil, echo(401)), newBank(t, nil, echo(500))} {
		c, _ := b.client(t)
		_, err := c.CreateCharge(t.Context(), n)
		if err == nil {
			t.Fatal("a refusal is taken for a success")
		}
		texts = append(texts, err.Error(), fmt.Sprintf("%v %+v %#v", c, c, c))
		if message := acquirer.As(err).Message; len([]rune(message)) > messageRunesMax+1 || strings.ContainsAny(message, "\x00\n\u2028") {
			t.Errorf("the message is %q", message)
		}
	}
	for _, text := range texts {
		for _, hidden := range []string{testSecret, basic("client", testSecret), "token-1", "token-2", "52998224725", "529.982.247-25", "[115 51 99", testKey} {
			if strings.Contains(text, hidden) {
				t.Errorf("%q is in %s", hidden, text)
			}
		}
	}
}
