package simulator

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// readLocation does what a payer's bank does: it reads the location, follows jku, checks chain, thumbprint and signature.
func readLocation(tb testing.TB, location string) (c chargeJSON) {
	tb.Helper()
	got := send(tb, http.DefaultClient, request(tb, "GET", "http://"+location, ""))
	got.want(tb, http.StatusOK)
	if kind := got.header.Get("Content-Type"); kind != "application/jose" {
		tb.Errorf("Content-Type is %s", kind)
	}
	signed, err := jose.ParseSigned(got.body, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		tb.Fatal(err)
	}
	header := signed.Signatures[0].Header
	jku, _ := header.ExtraHeaders["jku"].(string)
	host, _, _ := strings.Cut(location, "/")
	if !strings.HasPrefix(jku, "http://"+host+"/") || header.ExtraHeaders["typ"] != "JWS" {
		tb.Errorf("header is %v", header.ExtraHeaders)
	}
	var set jose.JSONWebKeySet
	send(tb, http.DefaultClient, request(tb, "GET", jku, "")).into(tb, http.StatusOK, &set)
	keys := set.Key(header.KeyID)
	if len(keys) != 1 || keys[0].Algorithm != "RS256" || len(keys[0].Certificates) < 2 {
		tb.Fatalf("keys are %+v", keys)
	}
	leaf, roots := keys[0].Certificates[0], x509.NewCertPool()
	roots.AddCert(keys[0].Certificates[len(keys[0].Certificates)-1])
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1", CurrentTime: time.Now()}); err != nil {
		tb.Error(err)
	}
	sum := sha1.Sum(leaf.Raw)
	if header.ExtraHeaders["x5t"] != base64.RawURLEncoding.EncodeToString(sum[:]) {
		tb.Errorf("thumbprint is %v", header.ExtraHeaders["x5t"])
	}
	payload, err := signed.Verify(leaf.PublicKey)
	if err != nil {
		tb.Fatal(err)
	}
	if again, err := signed.Verify(keys[0]); err != nil || !bytes.Equal(payload, again) {
		tb.Errorf("the JWK does not verify: %v", err)
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestLocation(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := openWith(t, Options{Data: folder, Clock: standingNow()})
	alpha := w.acquirer("alpha")
	body := strings.Replace(alpha.body("10.00"), "{", `{"devedor":{"cpf":"52998224725","nome":"Á"},"solicitacaoPagador":"p","infoAdicionais":[{"nome":"a","valor":"b"}],`, 1)
	alpha.do("PUT", "/v2/cob/"+txidOf(1), body).want(t, http.StatusCreated)
	alpha.do("PATCH", "/v2/cob/"+txidOf(1), `{"valor":{"original":"11.00"}}`).want(t, http.StatusOK)
	w.clock.Raise(time.Minute)
	charge := alpha.charge(1)

	want := charge
	want.Calendar.Presented = timeText(w.clock.Now().UnixMilli())
	want.Loc, want.Location, want.CopyPaste = nil, "", ""
	if diff := cmp.Diff(want, readLocation(t, charge.Location)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	t.Log("expired and paid ones are told too")
	w.clock.Raise(24 * time.Hour)
	w.pay(`{"txid":"` + txidOf(1) + `"}`)
	if got := readLocation(t, charge.Location); got.Status != "CONCLUIDA" || got.Payments != nil {
		t.Errorf("got %+v", got)
	}

	t.Log("the key is kept")
	jwks := send(t, http.DefaultClient, request(t, "GET", alpha.account.BaseURL+jwksPath, "")).body
	w.Close()
	if info, err := os.Stat(filepath.Join(folder, "simulator-alpha.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	w = openWith(t, Options{Data: folder, Clock: standingNow()})
	alpha = w.acquirer("alpha")
	if got := send(t, http.DefaultClient, request(t, "GET", alpha.account.BaseURL+jwksPath, "")).body; got != jwks {
		t.Errorf("after a restart the key is %s", got)
	}
	if got := alpha.charge(1).Location; got != charge.Location {
		t.Errorf("after a restart the location is %s, was %s", got, charge.Location)
	}
	readLocation(t, charge.Location)

	get := func(host, token string) answer {
		return send(t, http.DefaultClient, request(t, "GET", host+locationPath+token, ""))
	}
	token := charge.Location[strings.LastIndex(charge.Location, "/")+1:]
	wantProblem(t, get(w.acquirer("beta").account.BaseURL, token), http.StatusNotFound, "CobPayloadNaoEncontrado", "")
	for _, unknown := range []string{"x", strings.Repeat("0", 32), token + "00", token[:31] + "g", w.books.token(0, 1), w.books.token(2, 0)} {
		wantProblem(t, get(alpha.account.BaseURL, unknown), http.StatusNotFound, "CobPayloadNaoEncontrado", "")
	}
	removed := alpha.create(2, "1.00")
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(2)+`"}`).want(t, http.StatusOK)
	wantProblem(t, send(t, http.DefaultClient, request(t, "GET", "http://"+removed.Location, "")), http.StatusGone, "CobPayloadNaoEncontrado", "")
}

func TestSignerThatIsBroken(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "simulator-alpha.pem")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, folder, standing())
	got := send(t, http.DefaultClient, request(t, "GET", w.acquirer("alpha").account.BaseURL+jwksPath, ""))
	wantProblem(t, got, http.StatusInternalServerError, "ErroInternoDoServidor", "")
	if strings.Contains(got.body, "pem") {
		t.Errorf("it tells too much: %s", got.body)
	}
}
