package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is a self-signed certificate for 127.0.0.1 in two files.
type Certificate struct {
	CertFile, KeyFile string
	Pool              *x509.CertPool // trusts it
	Serial            *big.Int
}

// NewCertificate writes a certificate into folder that is valid from an hour ago until then. One that is there is
// replaced.
func NewCertificate(tb testing.TB, folder string, until time.Time) Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "ponte.test"},
		NotBefore: Real.Real().Add(-time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	c := Certificate{filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), x509.NewCertPool(), serial}
	write := func(path, kind string, content []byte) {
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	write(c.KeyFile, "PRIVATE KEY", private)
	write(c.CertFile, "CERTIFICATE", der)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	c.Pool.AddCert(parsed)
	return c
}
