// Package totp makes and checks the six digits that authenticator apps show (RFC 6238: SHA-1, steps of 30 seconds).
package totp

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238 as authenticator apps speak it
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"time"
)

const (
	stepSeconds = 30
	digits      = 1_000_000

	// SecretBytes is the length of a secret, as the RFC wants it for SHA-1.
	SecretBytes = 20

	driftMax = 1 // steps that an app's clock may be off, to either side
)

// Step returns the step of a moment of real time.
func Step(now time.Time) int64 { return now.Unix() / stepSeconds }

// Code returns the digits of a step.
func Code(secret []byte, step int64) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac := hmac.New(sha1.New, secret)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%digits)
}

// Match returns the step whose digits these are, among the few around now. It reports false when there is none. That each
// step is good once is the caller's to see to.
func Match(secret []byte, code string, now time.Time) (step int64, ok bool) {
	for at := Step(now) - driftMax; at <= Step(now)+driftMax; at++ {
		if subtle.ConstantTimeCompare([]byte(Code(secret, at)), []byte(code)) == 1 {
			step, ok = at, true
		}
	}
	return step, ok
}

// Text returns a secret as people type it into an app.
func Text(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// URL returns what a QR code shows an app: the secret, and whose it is.
func URL(secret []byte, issuer, person string) string {
	u := url.URL{
		Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + person,
		RawQuery: url.Values{"secret": {Text(secret)}, "issuer": {issuer}}.Encode(),
	}
	return u.String()
}
