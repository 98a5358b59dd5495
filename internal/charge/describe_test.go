package charge

import (
	"errors"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/plainjson/plainjsontest"
)

// TestDescribe wants that what is written by hand is what encoding/json writes.
func TestDescribe(t *testing.T) {
	t.Parallel()
	type line struct {
		Acquirer string `json:"acquirer"`
		Reason   string `json:"reason"`
		Outcome  string `json:"outcome"`
		Error    string `json:"error,omitempty"`
		Millis   int64  `json:"took_ms"`
	}
	failed := acquirer.Attempt{Acquirer: "alpha", Reason: "rule \"2\"", Outcome: acquirer.Refused, Err: errors.New("no \"such\" key"), Took: 1999 * time.Microsecond}
	went := acquirer.Attempt{Acquirer: "beta"}
	for _, tt := range []struct {
		attempts []acquirer.Attempt
		want     []line
	}{
		{nil, []line{}},
		{[]acquirer.Attempt{failed, went}, []line{
			{"alpha", "rule \"2\"", acquirer.Refused.String(), "no \"such\" key", 1},
			{"beta", "", went.Outcome.String(), "", 0},
		}},
	} {
		plainjsontest.Check(t, []byte(describe(tt.attempts)), nil, tt.want)
	}
}
