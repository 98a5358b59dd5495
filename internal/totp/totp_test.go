package totp

import (
	"testing"
	"time"
)

// The vectors of RFC 6238, appendix B, in six digits.
func TestCode(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for unix, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := Code(secret, Step(time.Unix(unix, 0))); got != want {
			t.Errorf("at %d: %s, want %s", unix, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	secret, now := []byte("12345678901234567890"), time.Unix(1234567890, 0)
	for drift := int64(-3); drift <= 3; drift++ {
		step, ok := Match(secret, Code(secret, Step(now)+drift), now)
		if want := drift >= -1 && drift <= 1; ok != want || (ok && step != Step(now)+drift) {
			t.Errorf("%d steps off: step %d, %v", drift, step, ok)
		}
	}
	for _, code := range []string{"", "00592", "0059240", "abcdef", "005925"} {
		if _, ok := Match(secret, code, now); ok {
			t.Errorf("%q is taken", code)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	const want = "otpauth://totp/Ponte:ana@example.com?issuer=Ponte&secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	if got := URL([]byte("12345678901234567890"), "Ponte", "ana@example.com"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
