package nowpayments

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238 as authenticator apps speak it
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

const (
	totpStep   = 30 // seconds
	totpDigits = 1_000_000
)

// totp returns the code of RFC 6238 for a step of time: six digits, SHA-1.
func totp(key []byte, step int64) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac := hmac.New(sha1.New, key)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%totpDigits)
}

// codes remembers which codes were used, for a provider that takes each once.
type codes struct {
	mu   sync.Mutex
	used int64 // the latest step whose code was taken
	once bool  // the provider has refused a code that it had taken before
}

// take returns the code of this moment and its step. It reports false when that is known to be used up.
func (c *codes) take(key []byte, now time.Time) (code string, step int64, ok bool) {
	step = now.Unix() / totpStep
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.once && c.used >= step {
		return "", step, false
	}
	return totp(key, step), step, true
}

// taken remembers that the provider took the code of a step.
func (c *codes) taken(step int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = max(c.used, step)
}

// refused remembers that the provider did not take it. It reports whether that was because it had taken it before.
func (c *codes) refused(step int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == step {
		c.once = true
	}
	return c.used == step
}
