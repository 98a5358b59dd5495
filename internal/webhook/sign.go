package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"
)

// secretPrefix marks a secret for people and for scanners of leaked secrets.
const secretPrefix = "whsec_"

const secretBytes = 32

// newSecret draws a secret as its owner sees it.
func newSecret(random io.Reader) (string, error) {
	b := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("webhook: %w", err)
	}
	return secretPrefix + hex.EncodeToString(b), nil
}

// Sign returns the header x-service-signature of a body that is sent at a moment of real time. The key is the secret as
// it is shown, prefix included.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, t+".") // a hash takes everything
	_, _ = mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
