package nowpayments

import (
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/totp"
)

// codes remembers which codes were used, for a provider that takes each once.
type codes struct {
	mu   sync.Mutex
	used int64 // the latest step whose code was taken
	once bool  // the provider has refused a code that it had taken before
}

// take returns the code of this moment and its step. It reports false when that is known to be used up.
func (c *codes) take(key []byte, now time.Time) (code string, step int64, ok bool) {
	step = totp.Step(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.once && c.used >= step {
		return "", step, false
	}
	return totp.Code(key, step), step, true
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
