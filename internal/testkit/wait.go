package testkit

import "github.com/ponte-pay/ponte/internal/clock/clocktest"

// What tests of the whole service need of [clocktest].
var (
	Real   = clocktest.Real
	Wait   = clocktest.Wait
	Within = clocktest.Within
)
