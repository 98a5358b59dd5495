package sqldb

import "time"

// A trip to PostgreSQL costs about the same for one as for ten: it wakes a process there and one here, and a COMMIT waits
// for the disk. At the top rate there is always company. At half of it each would leave as soon as it could, with one or two,
// and cost so much that half of the load would take all of the machine. So while there is company, trips leave at a
// distance; who is alone never waits.
const (
	departEvery   = 2 * time.Millisecond // while there is company
	companyEnough = 8                    // who leave at once
)

// pace says when trips leave.
type pace struct {
	left    time.Time // when the last one left
	company bool      // it was shared
}

// hold returns how long a trip has to wait for others before it leaves. There are so many that would share it, and perhaps
// another one is under way.
func (p *pace) hold(now time.Time, travelers int, another bool) (wait time.Duration) {
	if travelers < companyEnough && (travelers > 1 || another || p.company) {
		wait = max(0, departEvery-now.Sub(p.left))
	}
	p.left = now.Add(wait)
	return wait
}
