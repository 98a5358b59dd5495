package testkit

import (
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/totp"
)

// codeTravelMax is how long a code may take from the app to the server on a busy machine.
const codeTravelMax = 12 * time.Second

// Phone is somebody's authenticator app. Each of its codes is used once.
type Phone struct {
	Secret []byte

	step int64 // whose code was used last
}

// Code returns a code that was not used before and is good long enough to arrive. There are two or three at any time, and
// Code waits for the next one when they are used up.
func (p *Phone) Code(tb testing.TB) string {
	tb.Helper()
	p.step = max(p.step+1, totp.Step(Real.Real().Add(codeTravelMax))-1)
	Wait(tb, "the next code", func() bool { return p.step <= totp.Step(Real.Real())+1 })
	return totp.Code(p.Secret, p.step)
}
