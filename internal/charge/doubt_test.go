package charge_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// doubt loses the answer to one COMMIT, and from then on the way to the database.
type doubt struct {
	armed bool
	away  bool
}

func (d *doubt) Begin(write bool) error {
	if d.away && !write {
		return sqldb.ErrProbeConnection
	}
	return nil
}

func (d *doubt) End(err error) error {
	if err == nil && d.armed {
		d.armed, d.away = false, true
		return sqldb.ErrProbeCommit
	}
	return err
}

func (d *doubt) Statement(s sqldb.Statement) []sqldb.Statement { return []sqldb.Statement{s} }
func (d *doubt) Query(s sqldb.Statement) sqldb.Statement       { return s }
func (d *doubt) Commit() error                                 { return nil }
func (d *doubt) Lock([]int64) error                            { return nil }
func (d *doubt) Unlock([]int64)                                {}
func (d *doubt) Now() time.Time                                { return time.Now() }

// TestDoubtIsNoRefusal stores a charge without knowing it, and then cannot even look: it must stay payable where it is.
func TestDoubtIsNoRefusal(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		d := &doubt{}
		n := newWorld(t).node(db.Probed(d, true))
		r := n.request(n.account(), 1000)
		d.armed = true
		if _, _, err := n.Create(t.Context(), r); !errors.Is(err, sqldb.ErrCommitUnknown) {
			t.Fatalf("got %v", err)
		}
		d.away = false
		for _, h := range n.router.Health() {
			if h.LostCharges != 0 {
				t.Errorf("%d charges are to be removed at %s", h.LostCharges, h.Acquirer)
			}
		}
		c, outcome, err := n.Create(t.Context(), r)
		if err != nil || outcome != idempotency.Replayed {
			t.Fatalf("%v %v", outcome, err)
		}
		n.hear(c, n.pay(c.TxID, 1000))
		n.audit()
	})
}
