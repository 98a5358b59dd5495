package charge

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Shops ask for a paid charge again and again, and it hardly ever changes. So each node keeps copies of paid charges that it
// was asked for. The database counts every change of a paid charge, in the transaction that makes it and whoever does. A copy
// is used only after a look at that count, begun after the question came, that sees no more changes than there were before the
// copy was read. So nobody is told what had changed before it asked, on whichever node. Whoever asks at the same time shares
// the look.
const copyAgeMax = time.Minute // for changes that are in no count, such as a database that was put back to an earlier day

const countPaidChanges = `SELECT count FROM paid_change WHERE name = 'all'`

// copies are paid charges as this node has read them.
type copies struct {
	changes *sqldb.SharedLook[int64]
	seen    atomic.Int64 // how many changes there were when somebody looked last
	charges inquiry.Recent[asked, *copied]
}

// asked is what a caller calls a charge.
type asked struct {
	account id.Account
	ref     string
}

// copied is a charge that was paid.
type copied struct {
	Charge
	changes int64     // of paid charges, as seen before this one was read
	at      time.Time // when that was
}

func newCopies(db *sqldb.DB) *copies {
	return &copies{changes: sqldb.NewSharedLook(db, sqldb.Scalar[int64], countPaidChanges)}
}

// get returns the copy of a charge, or nil when it must be read. Whoever keeps what it then reads says how many changes were
// seen before: more than were seen can only make the copy useless.
func (c *copies) get(ctx context.Context, by asked, now time.Time) (kept *Charge, seen int64) {
	if one, ok := c.charges.Get(by); ok && now.Sub(one.at) <= copyAgeMax {
		changes, err := c.changes.Ask(ctx)
		if err == nil {
			c.seen.Store(changes)
		}
		if err == nil && changes == one.changes {
			return &one.Charge, changes
		}
	}
	return nil, c.seen.Load()
}

// keep makes a copy of a charge that is paid.
func (c *copies) keep(by asked, now time.Time, one Charge, seen int64) *Charge {
	by.ref = strings.Clone(by.ref) // which is part of the whole line of the request
	kept := &copied{one, seen, now}
	c.charges.Add(by, kept)
	return &kept.Charge
}
