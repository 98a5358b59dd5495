package clock

import (
	"testing"
	"time"
)

func TestTimestamp(t *testing.T) {
	t.Parallel()
	saoPaulo := time.FixedZone("BRT", -3*60*60)
	for _, at := range []time.Time{
		time.Date(2026, 11, 15, 9, 8, 7, 0, time.UTC), time.Date(2026, 11, 15, 23, 59, 59, 999_999_999, saoPaulo),
		time.Date(2026, 1, 2, 3, 4, 5, 6_007, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.UTC),
		{},
	} {
		if got, want := Timestamp(at), at.UTC().Format("2006-01-02T15:04:05.000000Z"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
