package simulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the thumbprint that the standard asks for
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/ponte-pay/ponte/internal/httpkit"
)

// Where payers' banks read charges, and the keys that sign them.
const (
	locationPath = "/qr/v2/"
	jwksPath     = "/.well-known/jwks.json"
)

// location returns the URL, without its scheme, at which payers' banks read the charge at a place.
func (a *acquirer) location(place uint32) string {
	return *a.host.Load() + locationPath + a.books.token(a.number, place)
}

// getLocation tells a payer's bank the charge, signed. Expired and paid ones are told too: who pays decides.
func (a *acquirer) getLocation(r *http.Request) (httpkit.Answer, error) {
	v, err := a.books.chargeByToken(r.PathValue("token"))
	switch {
	case errors.Is(err, errNoCharge) || v.acquirer != a.number:
		return httpkit.Answer{}, payloadNotFound.because("Não há cobrança neste endereço.")
	case err != nil:
		return httpkit.Answer{}, err
	case v.status.isRemoved():
		return httpkit.Answer{}, payloadGone.because("A cobrança foi removida.")
	}
	made, err := a.books.readCharge(v.record())
	if err != nil {
		return httpkit.Answer{}, err
	}
	body := a.chargeBody(v, made)
	body.Calendar.Presented = timeText(a.clock.Now().UnixMilli())
	payload, err := json.Marshal(body)
	if err != nil {
		return httpkit.Answer{}, fmt.Errorf("simulator: encode payload: %w", err)
	}
	s, err := a.signer()
	if err != nil {
		return httpkit.Answer{}, err
	}
	signed, err := s.sign(payload, a.baseURL()+jwksPath)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Raw: []byte(signed), Header: http.Header{"Content-Type": {"application/jose"}, "Cache-Control": {"no-store"}}}, nil
}

// getKeys tells the key that signs, with its certificates.
func (a *acquirer) getKeys(*http.Request) (httpkit.Answer, error) {
	s, err := a.signer()
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.public()}}}, nil
}

// signer signs what payers' banks read.
type signer struct {
	key   *rsa.PrivateKey
	chain []*x509.Certificate // the key's own first, the root last
}

const (
	signerKeyBits  = 2048
	signerLifetime = 20 * 365 * 24 * time.Hour // of real time, as all certificates
	blockKey       = "PRIVATE KEY"
	blockCert      = "CERTIFICATE"
)

// openSigner reads an acquirer's key and certificates, or makes them.
func openSigner(path, name string, now time.Time) (*signer, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeSigner(path, name, now)
	case err != nil:
		return nil, fmt.Errorf("simulator: %w", err)
	}
	s, err := parseSigner(data)
	if err != nil {
		return nil, fmt.Errorf("simulator: %s: %w; delete it to have a new one made", path, err)
	}
	return s, nil
}

func parseSigner(data []byte) (*signer, error) {
	s := &signer{}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case blockKey:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			s.key, _ = key.(*rsa.PrivateKey)
		case blockCert:
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, err
			}
			s.chain = append(s.chain, cert)
		}
	}
	if s.key == nil || len(s.chain) < 2 || !s.key.PublicKey.Equal(s.chain[0].PublicKey) {
		return nil, errors.New("want a key, its certificate and the root's")
	}
	return s, nil
}

// makeSigner makes a root of one certificate, whose key is then thrown away.
func makeSigner(path, name string, now time.Time) (*signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, signerKeyBits)
	if err != nil {
		return nil, fmt.Errorf("simulator: new key: %w", err)
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("simulator: new key: %w", err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Ponte simulator root of " + name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(signerLifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("simulator: new certificate: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name + ".simulator"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{name + ".simulator", "localhost"}, IPAddresses: []net.IP{loopback[:]},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, rootKey)
	if err != nil {
		return nil, fmt.Errorf("simulator: new certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("simulator: new key: %w", err)
	}
	var data []byte
	for _, block := range []pem.Block{{Type: blockKey, Bytes: keyDER}, {Type: blockCert, Bytes: leafDER}, {Type: blockCert, Bytes: rootDER}} {
		data = append(data, pem.EncodeToMemory(&block)...)
	}
	if err := replaceFile(path, data); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	return parseSigner(data)
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, data []byte) error {
	half, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = half.Write(data)
	if err := errors.Join(err, half.Close()); err != nil {
		_ = os.Remove(half.Name())
		return err
	}
	return os.Rename(half.Name(), path)
}

// public returns the key that verifies.
func (s *signer) public() jose.JSONWebKey {
	one, two := sha1.Sum(s.chain[0].Raw), sha256.Sum256(s.chain[0].Raw) //nolint:gosec // see the import
	return jose.JSONWebKey{
		Key: &s.key.PublicKey, KeyID: base64.RawURLEncoding.EncodeToString(two[:]), Algorithm: string(jose.RS256), Use: "sig",
		Certificates: s.chain, CertificateThumbprintSHA1: one[:], CertificateThumbprintSHA256: two[:],
	}
}

// sign returns the payload as a JWS in its compact form. Its keys are at that URL.
func (s *signer) sign(payload []byte, keysURL string) (string, error) {
	public := s.public()
	options := (&jose.SignerOptions{}).WithType("JWS").WithHeader("kid", public.KeyID).WithHeader("jku", keysURL).
		WithHeader("x5t", base64.RawURLEncoding.EncodeToString(public.CertificateThumbprintSHA1))
	maker, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: s.key}, options)
	if err != nil {
		return "", fmt.Errorf("simulator: sign: %w", err)
	}
	signed, err := maker.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("simulator: sign: %w", err)
	}
	return signed.CompactSerialize()
}
