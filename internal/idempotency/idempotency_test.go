package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// order is the resource of these tests. Its material data is its amount.
type order struct{ id, amount int64 }

const (
	createOrders = `CREATE TABLE test_order (
    account_id  BIGINT NOT NULL,
    id          BIGINT NOT NULL,
    amount      BIGINT NOT NULL,
    note        TEXT NOT NULL,
    idem_key    TEXT,
    idem_hash   TEXT NOT NULL,
    external_id TEXT,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idem_key),
    UNIQUE (account_id, external_id)
)`
	insertOrder = `INSERT INTO test_order (account_id, id, amount, note, idem_key, idem_hash, external_id, created_at)
VALUES ($1, $2, $3, $4, NULLIF($5, ''), $6, NULLIF($7, ''), $8) ON CONFLICT DO NOTHING RETURNING id`
	findOrders = `SELECT id, amount, COALESCE(idem_key, ''), idem_hash, COALESCE(external_id, ''), created_at FROM test_order
WHERE account_id = $1 AND (idem_key = $2 OR external_id = $3)`
	unbindOrder = `UPDATE test_order SET idem_key = NULL WHERE account_id = $1 AND idem_key = $2 AND created_at < $3`
)

// shop is a node that takes orders.
type shop struct {
	db     *sqldb.DB
	clock  *clock.Clock
	engine *Engine

	looking  func() // runs before each look, nil for nothing
	creating func() // runs before each creation, nil for nothing
}

// lastID makes ids that are unique in all tests.
var lastID atomic.Int64

func open(t *testing.T, url string, c *clock.Clock) *shop {
	t.Helper()
	db := sqltest.Open(t, url)
	return &shop{db: db, clock: c, engine: New(db, c, 0)}
}

func prepare(t *testing.T, url string) {
	t.Helper()
	db := sqltest.Open(t, url)
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return tx.Script(ctx, createOrders) })
	if err != nil {
		t.Fatal(err)
	}
}

// each runs test on both databases with an opened shop.
func each(t *testing.T, test func(t *testing.T, s *shop, h *hand)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		prepare(t, url)
		h := newHand()
		test(t, open(t, url, clock.New(h.now)), h)
	})
}

// hand is real time that moves only by hand.
type hand struct{ micros atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.micros.Store(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return h
}

func (h *hand) now() time.Time          { return time.UnixMicro(h.micros.Load()) }
func (h *hand) advance(d time.Duration) { h.micros.Add(d.Microseconds()) }

// post is a request for an order.
type post struct {
	account         id.Account
	key, externalID string
	amount          int64
	note            string // in the body, but not material
}

func (p post) request() Request {
	return Request{
		Policy: Pix, Account: p.account, Route: "POST /orders", Find: "GET /orders/ext:", Kind: "order", Key: p.key, ExternalID: p.externalID,
		Hash: sha256.Sum256(fmt.Append(nil, p.amount, p.note, p.externalID)),
	}
}

func (s *shop) order(ctx context.Context, p post) (order, Outcome, error) {
	return Do(ctx, s.engine, p.request(),
		func(ctx context.Context) (Found[order], error) { return s.find(ctx, p) },
		func(ctx context.Context, c Claim) (order, error) { return s.create(ctx, p, c) })
}

func (s *shop) find(ctx context.Context, p post) (found Found[order], err error) {
	if s.looking != nil {
		s.looking()
	}
	scan := func(r sqldb.Row) (o order, err error) {
		var key, hash, externalID string
		var createdAt int64
		if err = r.Scan(&o.id, &o.amount, &key, &hash, &externalID, &createdAt); err != nil {
			return o, err
		}
		stored := &Stored[order]{Resource: o, KeyAt: time.UnixMicro(createdAt), SameMaterial: o.amount == p.amount}
		if _, err = hex.Decode(stored.Hash[:], []byte(hash)); err != nil {
			return o, err
		}
		if p.key != "" && key == p.key {
			found.ByKey = stored
		}
		if p.externalID != "" && externalID == p.externalID {
			found.ByExternalID = stored
		}
		return o, nil
	}
	_, err = sqldb.All(ctx, s.db, scan, findOrders, int64(p.account), p.key, p.externalID)
	return found, err
}

func (s *shop) create(ctx context.Context, p post, c Claim) (order, error) {
	if s.creating != nil {
		s.creating()
	}
	if err := ctx.Err(); err != nil {
		return order{}, err
	}
	o := order{lastID.Add(1), p.amount}
	hash := p.request().Hash
	err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if !c.UnbindBefore.IsZero() {
			tx.Queue(ctx, unbindOrder, int64(p.account), p.key, c.UnbindBefore.UnixMicro())
		}
		_, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], insertOrder, int64(p.account), o.id, p.amount, p.note, p.key,
			hex.EncodeToString(hash[:]), p.externalID, s.clock.Now().UnixMicro())
		if errors.Is(err, sqldb.ErrNoRows) {
			return sqldb.ErrConflict
		}
		return err
	})
	return o, err
}

func (s *shop) count(t *testing.T) int64 {
	t.Helper()
	n, err := sqldb.One(t.Context(), s.db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM test_order`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// must is order for requests that are answered with a resource.
func (s *shop) must(t *testing.T, p post, want Outcome) order {
	t.Helper()
	o, outcome, err := s.order(t.Context(), p)
	if err != nil || outcome != want {
		t.Fatalf("%+v: got %+v, outcome %d, %v, want outcome %d", p, o, outcome, err, want)
	}
	return o
}

// refused is order for requests that are refused.
func (s *shop) refused(t *testing.T, p post, kind fault.Kind, code string) {
	t.Helper()
	o, outcome, err := s.order(t.Context(), p)
	checkFault(t, err, kind, code)
	if (o != order{}) || outcome != 0 {
		t.Errorf("%+v: got %+v, outcome %d with the refusal", p, o, outcome)
	}
}

func checkFault(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind || f.Code != code || f.Public == "" {
		t.Fatalf("got %#v, want a fault of kind %d with code %q", err, kind, code)
	}
}

func busy(err error) bool {
	code := fault.As(err).Code
	return code == "idempotency_key_in_progress" || code == "external_id_in_progress"
}

func TestDecide(t *testing.T) {
	t.Parallel()
	mine, other := sha256.Sum256([]byte("mine")), sha256.Sum256([]byte("other"))
	forgotten := time.Date(2026, 11, 8, 12, 0, 0, 0, time.UTC)
	key := func(resource string, hash [32]byte, at time.Time) *Stored[string] {
		return &Stored[string]{Resource: resource, Hash: hash, KeyAt: at}
	}
	external := func(resource string, same bool) *Stored[string] {
		return &Stored[string]{Resource: resource, SameMaterial: same}
	}
	young, border, old := forgotten.Add(time.Hour), forgotten, forgotten.Add(-time.Microsecond)
	for _, c := range []struct {
		name     string
		found    Found[string]
		outcome  Outcome
		resource string
		unbind   bool
		pix      string // code of the refusal
		crypto   string
	}{
		{name: "nothing", outcome: Created},
		{name: "key", found: Found[string]{key("a", mine, young), nil}, outcome: Replayed, resource: "a"},
		{name: "key with another body", found: Found[string]{key("a", other, young), nil}, pix: "IDEMPOTENCY_CONFLICT", crypto: "idempotency_conflict"},
		{name: "key as old as keys get", found: Found[string]{key("a", mine, border), nil}, outcome: Replayed, resource: "a"},
		{name: "old key", found: Found[string]{key("a", mine, old), nil}, outcome: Created, unbind: true},
		{name: "old key with another body", found: Found[string]{key("a", other, old), nil}, outcome: Created, unbind: true},
		{name: "external_id", found: Found[string]{nil, external("a", true)}, outcome: Existing, resource: "a"},
		{name: "external_id with other data", found: Found[string]{nil, external("a", false)}, pix: "EXTERNAL_ID_CONFLICT", crypto: "idempotency_conflict"},
		{name: "both of one resource", found: Found[string]{key("a", mine, young), external("a", true)}, outcome: Replayed, resource: "a"},
		{name: "both of one resource with another body", found: Found[string]{key("a", other, young), external("a", true)}, pix: "IDEMPOTENCY_CONFLICT", crypto: "idempotency_conflict"},
		{name: "both, the key decides", found: Found[string]{key("a", mine, young), external("b", false)}, outcome: Replayed, resource: "a"},
		{name: "both, the key refuses", found: Found[string]{key("a", other, young), external("b", true)}, pix: "IDEMPOTENCY_CONFLICT", crypto: "idempotency_conflict"},
		{name: "old key and its external_id", found: Found[string]{key("a", mine, old), external("a", true)}, outcome: Existing, resource: "a"},
		{name: "old key and other data", found: Found[string]{key("a", mine, old), external("b", false)}, pix: "EXTERNAL_ID_CONFLICT", crypto: "idempotency_conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range []struct {
				Policy
				code string
			}{{Pix, c.pix}, {Crypto, c.crypto}} {
				d, err := decide(Request{Policy: p.Policy, Hash: mine, ExternalID: "o-1"}, c.found, forgotten)
				if p.code != "" {
					checkFault(t, err, fault.Conflict, p.code)
					continue
				}
				want := decision[string]{outcome: c.outcome, resource: c.resource}
				if c.unbind {
					want.claim.UnbindBefore = forgotten
				}
				if err != nil || d != want {
					t.Errorf("got %+v, %v, want %+v", d, err, want)
				}
			}
		})
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, _ *hand) {
		p := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
		made := s.must(t, p, Created)
		if got := s.must(t, p, Replayed); got != made {
			t.Errorf("replayed %+v, want %+v", got, made)
		}
		noted := p
		noted.note = "in the body, not material"
		s.refused(t, noted, fault.Conflict, "IDEMPOTENCY_CONFLICT")
		noted.key = "key-00002"
		if got := s.must(t, noted, Existing); got != made {
			t.Errorf("existing %+v, want %+v", got, made)
		}
		noted.key = ""
		s.must(t, noted, Existing)
		noted.amount = 31
		s.refused(t, noted, fault.Conflict, "EXTERNAL_ID_CONFLICT")

		if n := s.count(t); n != 1 {
			t.Errorf("%d orders, want 1", n)
		}
	})
}

// A key that was answered with an order that existed is remembered like one that made an order.
func TestKeyOfAnExistingOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, h *hand) {
		made := s.must(t, post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}, Created)
		second := post{account: 1, key: "key-00002", externalID: "o-1", amount: 30, note: "again"}
		s.must(t, second, Existing)
		for range 2 {
			if got := s.must(t, second, Repeated); got != made {
				t.Errorf("repeated %+v, want %+v", got, made)
			}
		}
		other := second
		other.note = "another body"
		s.refused(t, other, fault.Conflict, "IDEMPOTENCY_CONFLICT")
		s.refused(t, post{account: 1, key: "key-00002", amount: 5}, fault.Conflict, "IDEMPOTENCY_CONFLICT")
		s.must(t, post{account: 2, key: "key-00002", amount: 5}, Created) // another account's key

		if did, err := s.engine.Step(t.Context()); err != nil || did {
			t.Errorf("step: %v, %v", did, err)
		}
		s.must(t, second, Repeated) // not forgotten yet
		h.advance(RetentionDefault + time.Second)
		if _, err := s.engine.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := sqldb.One(t.Context(), s.db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM bound_key`); err != nil || n != 0 {
			t.Errorf("%d keys are kept, %v", n, err)
		}
		s.must(t, post{account: 1, key: "key-00002", amount: 5}, Created)
	})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, _ *hand) {
		p := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
		blocked, proceed := make(chan struct{}), make(chan struct{})
		s.creating = func() { close(blocked); <-proceed }
		done := make(chan error)
		go func() {
			_, _, err := s.order(t.Context(), p)
			done <- err
		}()
		<-blocked
		other := &shop{db: s.db, clock: s.clock, engine: s.engine}
		p.account = 2
		other.must(t, p, Created)
		for _, r := range []Request{
			{Account: 1, Route: "POST /others", Key: "key-00001"},
			{Account: 1, Kind: "other", ExternalID: "o-1"},
			{Account: 1}, // nothing to know it by: it need not even look
		} {
			made := 0
			_, outcome, err := Do(t.Context(), s.engine, r,
				func(context.Context) (Found[int], error) {
					if r.Key == "" && r.ExternalID == "" {
						t.Error("looked for nothing")
					}
					return Found[int]{}, nil
				},
				func(context.Context, Claim) (int, error) { made++; return made, nil })
			if err != nil || outcome != Created || made != 1 {
				t.Errorf("%+v: got outcome %d, %v", r, outcome, err)
			}
		}
		close(proceed)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestInProgress(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		prepare(t, url)
		c := clock.New(newHand().now)
		holder := open(t, url, c)
		asker := &shop{db: holder.db, clock: c, engine: New(holder.db, c, 0)}
		if holder.db.IsPostgres() {
			asker = open(t, url, c) // another node
		}
		blocked, proceed := make(chan struct{}), make(chan struct{})
		holder.creating = func() { close(blocked); <-proceed }
		p := post{account: 1, key: "key-00001", externalID: "o/1", amount: 30}
		done := make(chan order)
		go func() {
			o, _, err := holder.order(t.Context(), p)
			if err != nil {
				t.Error(err)
			}
			done <- o
		}()
		<-blocked

		asker.refused(t, p, fault.InProgress, "idempotency_key_in_progress")
		asker.refused(t, post{account: 1, key: p.key, amount: 99}, fault.InProgress, "idempotency_key_in_progress")
		asker.refused(t, post{account: 1, key: p.key, externalID: "o/2", amount: 30}, fault.InProgress, "idempotency_key_in_progress")
		asker.refused(t, post{account: 1, externalID: p.externalID, amount: 30}, fault.Conflict, "external_id_in_progress")
		asker.refused(t, post{account: 1, key: "key-00002", externalID: p.externalID, amount: 30}, fault.Conflict, "external_id_in_progress")
		_, _, err := asker.order(t.Context(), post{account: 1, externalID: p.externalID})
		if public := fault.As(err).Public; !strings.Contains(public, "GET /orders/ext:o/1") {
			t.Errorf("the refusal says %q, want what to do", public)
		}
		// A refused request holds nothing.
		asker.must(t, post{account: 1, key: "key-00002", amount: 30}, Created)
		asker.must(t, post{account: 1, externalID: "o/2", amount: 30}, Created)

		close(proceed)
		if made := <-done; made != asker.must(t, p, Replayed) {
			t.Errorf("the replay is not what was made, %+v", made)
		}
		asker.must(t, post{account: 1, externalID: p.externalID, amount: 30}, Existing)
	})
}

// TestReplayWhileExternalIDBusy is about the order of answers: what the key says comes first.
func TestReplayWhileExternalIDBusy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, _ *hand) {
		p := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
		made := s.must(t, p, Created)
		blocked, proceed := make(chan struct{}), make(chan struct{})
		holder := &shop{db: s.db, clock: s.clock, engine: s.engine, looking: func() { close(blocked); <-proceed }}
		done := make(chan error)
		go func() {
			_, outcome, err := holder.order(t.Context(), post{account: 1, key: "key-00002", externalID: "o-1", amount: 30})
			if outcome != Existing {
				t.Errorf("outcome %d, want existing", outcome)
			}
			done <- err
		}()
		<-blocked
		if got := s.must(t, p, Replayed); got != made {
			t.Errorf("replayed %+v, want %+v", got, made)
		}
		changed := p
		changed.note = "changed"
		s.refused(t, changed, fault.Conflict, "IDEMPOTENCY_CONFLICT")
		changed.key = "key-00003"
		s.refused(t, changed, fault.Conflict, "external_id_in_progress")
		close(proceed)
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.must(t, changed, Existing)
	})
}

func TestRetention(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, h *hand) {
		p := post{account: 1, key: "key-00001", amount: 30}
		first := s.must(t, p, Created)
		withID := s.must(t, post{account: 1, key: "key-00002", externalID: "o-1", amount: 30}, Created)
		h.advance(RetentionDefault)
		s.clock.Raise(500 * time.Nanosecond) // databases keep microseconds
		if got := s.must(t, p, Replayed); got != first {
			t.Errorf("replayed %+v, want %+v", got, first)
		}
		h.advance(time.Microsecond)
		second := s.must(t, p, Created)
		if got := s.must(t, p, Replayed); got != second {
			t.Errorf("replayed %+v, want the second, %+v", got, second)
		}
		if got := s.must(t, post{account: 1, key: "key-00002", externalID: "o-1", amount: 30}, Existing); got != withID {
			t.Errorf("existing %+v, want %+v: an external_id is never forgotten", got, withID)
		}
		if n := s.count(t); n != 3 {
			t.Errorf("%d orders, want 3", n)
		}

		s.engine = New(s.db, s.clock, time.Hour)
		h.advance(time.Hour + time.Microsecond)
		p.amount = 31 // nobody remembers that it was 30
		s.must(t, p, Created)

		// By the moved clock.
		s.clock.Raise(time.Hour + time.Microsecond)
		s.must(t, p, Created)
	})
}

func TestFailureFreesBoth(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, _ *hand) {
		p := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
		refusal := fault.New(fault.Unprocessable, "below_minimum", "too little")
		req := p.request()
		look := func(ctx context.Context) (Found[order], error) { return s.find(ctx, p) }
		_, outcome, err := Do(t.Context(), s.engine, req, look, func(context.Context, Claim) (order, error) { return order{}, refusal })
		if !errors.Is(err, refusal) || outcome != 0 {
			t.Errorf("got outcome %d, %v, want the refusal", outcome, err)
		}
		broken := errors.New("broken")
		_, outcome, err = Do(t.Context(), s.engine, req,
			func(context.Context) (Found[order], error) { return Found[order]{}, broken },
			func(context.Context, Claim) (order, error) { t.Error("created"); return order{}, nil })
		if !errors.Is(err, broken) || outcome != 0 {
			t.Errorf("got outcome %d, %v, want that look failed", outcome, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			_, _, _ = Do(t.Context(), s.engine, req, look, func(context.Context, Claim) (order, error) { panic("defect") })
		}()
		ctx, cancel := context.WithCancel(t.Context())
		s.creating = cancel
		if _, _, err := s.order(ctx, p); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want cancelled", err)
		}
		s.creating = nil
		s.must(t, p, Created)
	})
}

func TestLockEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, _ *hand) {
		_, _, err := Do(t.Context(), s.engine, post{account: 1, key: "key-00001"}.request(),
			func(context.Context) (Found[int], error) { return Found[int]{}, nil },
			func(ctx context.Context, _ Claim) (int, error) {
				if end, ok := ctx.Deadline(); !ok || end.After(clock.New(nil).Real().Add(sqldb.LockTimeMax)) {
					t.Errorf("the work ends at %s, want no later than its lock", end)
				}
				return 0, nil
			})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestReplayAfterRestart(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		prepare(t, url)
		c := clock.New(newHand().now)
		p := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
		first := open(t, url, c)
		made := first.must(t, p, Created)
		first.db.Close()
		second := open(t, url, c)
		if got := second.must(t, p, Replayed); got != made {
			t.Errorf("replayed %+v, want %+v", got, made)
		}
	})
}

// TestRace has many requests for each order at once, on one node and on two.
func TestRace(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		prepare(t, url)
		c := clock.New(newHand().now)
		a := open(t, url, c)
		b := a
		if a.db.IsPostgres() {
			b = open(t, url, c)
		}
		const orders, racers = 10, 16
		for i := range orders {
			p := post{account: 1, key: fmt.Sprintf("key-%05d", i), externalID: fmt.Sprint("o-", i), amount: 30}
			want := Replayed
			switch i % 3 {
			case 1:
				p.key, want = "", Existing
			case 2:
				p.externalID = ""
			}
			var created atomic.Int64
			var wg sync.WaitGroup
			start := make(chan struct{})
			for j := range racers {
				s := []*shop{a, b}[j%2]
				wg.Go(func() {
					<-start
					for again := true; again; {
						_, outcome, err := s.order(t.Context(), p)
						switch {
						case err != nil && !busy(err):
							t.Error(err)
							return
						case err != nil:
							_ = clock.New(nil).Wait(t.Context(), time.Millisecond)
						case outcome == Created:
							created.Add(1)
						default:
							again = false
							if outcome != want {
								t.Errorf("outcome %d, want %d", outcome, want)
							}
						}
					}
				})
			}
			close(start)
			wg.Wait()
			if n := created.Load(); n != 1 {
				t.Errorf("%+v was created %d times", p, n)
			}
		}
		if n := a.count(t); n != orders {
			t.Errorf("%d orders, want %d", n, orders)
		}
	})
}

// TestLockLost has a second request win while the first is at work with locks that are no longer worth anything.
func TestLockLost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, _ *hand) {
		for i, c := range []struct {
			name   string
			winner func(p post) post
			want   Outcome
			code   string
		}{
			{"same request", func(p post) post { return p }, Replayed, ""},
			{"same key, another body", func(p post) post { p.note = "x"; return p }, 0, "IDEMPOTENCY_CONFLICT"},
			{"same external_id", func(p post) post { p.key = "key-winner"; return p }, Existing, ""},
			{"same external_id, other data", func(p post) post { p.key, p.amount = "key-winner", 31; return p }, 0, "EXTERNAL_ID_CONFLICT"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := post{account: id.Account(i + 1), key: "key-00001", externalID: "o-1", amount: 30}
				var won order
				s.creating = func() {
					s.creating = nil
					var err error
					if won, err = s.create(t.Context(), c.winner(p), Claim{}); err != nil {
						t.Fatal(err)
					}
				}
				if c.code != "" {
					s.refused(t, p, fault.Conflict, c.code)
				} else if got := s.must(t, p, c.want); got != won {
					t.Errorf("got %+v, want the winner's, %+v", got, won)
				}
			})
		}
		if n := s.count(t); n != 4 {
			t.Errorf("%d orders, want 4", n)
		}
		_, _, err := Do(t.Context(), s.engine, Request{Key: "key-00001", Route: "POST /orders"},
			func(context.Context) (Found[int], error) { return Found[int]{}, nil },
			func(context.Context, Claim) (int, error) { return 0, sqldb.ErrConflict })
		if !errors.Is(err, sqldb.ErrConflict) || fault.As(err).Kind != fault.Internal {
			t.Errorf("a conflict with nothing: got %v, want a defect", err)
		}
	})
}

// terminateHolders ends the sessions that hold locks in the database, as the death of their node does.
const terminateHolders = `SELECT COUNT(pg_terminate_backend(pid, 10000)) FROM (
    SELECT DISTINCT pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()) holders`

func TestHolderDies(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(t *testing.T, holder, other *shop){
		"session terminated": func(t *testing.T, _, other *shop) {
			t.Helper()
			n, err := sqldb.One(t.Context(), other.db, sqldb.Scalar[int64], terminateHolders)
			if err != nil || n != 1 {
				t.Fatalf("terminated %d sessions, %v, want 1", n, err)
			}
		},
		"database closed": func(t *testing.T, holder, _ *shop) {
			t.Helper()
			holder.db.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := sqltest.Postgres(t)
			prepare(t, url)
			c := clock.New(newHand().now)
			holder, other := open(t, url, c), open(t, url, c)
			blocked, proceed := make(chan struct{}), make(chan struct{})
			holder.creating = func() { close(blocked); <-proceed }
			p := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
			type result struct {
				order   order
				outcome Outcome
				err     error
			}
			done := make(chan result)
			go func() {
				o, outcome, err := holder.order(t.Context(), p)
				done <- result{o, outcome, err}
			}()
			<-blocked
			other.refused(t, p, fault.InProgress, "idempotency_key_in_progress")
			kill(t, holder, other)

			wall := clock.New(nil)
			killed := wall.Real()
			made, outcome, err := other.order(t.Context(), p)
			for busy(err) && wall.RealSince(killed) < 5*time.Second {
				_ = wall.Wait(t.Context(), time.Millisecond)
				made, outcome, err = other.order(t.Context(), p)
			}
			if err != nil || outcome != Created {
				t.Fatalf("got outcome %d, %v, want the lock to be free", outcome, err)
			}
			t.Logf("free after %s", wall.RealSince(killed))

			close(proceed)
			got := <-done
			if name == "database closed" {
				if !errors.Is(got.err, sqldb.ErrUnavailable) {
					t.Errorf("the holder got %+v without a database", got)
				}
			} else if got != (result{made, Replayed, nil}) {
				t.Errorf("the holder got %+v, want what the other made, %+v", got, made)
			}
			if n := other.count(t); n != 1 {
				t.Errorf("%d orders, want 1", n)
			}
		})
	}
}

func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	prepare(t, url)
	s := open(t, url, clock.New(nil))
	s.db.Close()
	_, _, err := s.order(t.Context(), post{account: 1, key: "key-00001", amount: 30})
	if !errors.Is(err, sqldb.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestLockName(t *testing.T) {
	t.Parallel()
	names := map[int64]string{}
	for _, c := range []struct {
		account id.Account
		parts   []string
	}{
		{1, []string{"key", "POST /charges", "key-00001"}},
		{2, []string{"key", "POST /charges", "key-00001"}},
		{1, []string{"key", "POST /charge", "skey-00001"}},
		{1, []string{"key", "POST /payouts", "key-00001"}},
		{1, []string{"external_id", "POST /charges", "key-00001"}},
		{1, []string{"external_id", "charge", "o-1"}},
		{1, []string{"external_id", "payout", "o-1"}},
	} {
		n, text := lockName(c.account, c.parts...), fmt.Sprint(c)
		if names[n] != "" {
			t.Errorf("%s and %s have the same number", text, names[n])
		}
		names[n] = text
	}
	// Nodes of two versions share a database while the second replaces the first: this number may never change.
	if n := lockName(1, "key", "POST /charges", "key-00001"); n != lockNameGolden {
		t.Errorf("got %d, want %d", n, int64(lockNameGolden))
	}
}

const lockNameGolden = 4239219827322411349

// A key that was forgotten and then answered with an existing order is remembered anew, although its first order still
// has it.
func TestForgottenThenBound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *shop, h *hand) {
		s.must(t, post{account: 1, key: "key-00001", amount: 10}, Created)
		h.advance(RetentionDefault + time.Hour)
		s.must(t, post{account: 1, key: "key-00009", externalID: "o-1", amount: 30}, Created)
		again := post{account: 1, key: "key-00001", externalID: "o-1", amount: 30}
		s.must(t, again, Existing)
		s.must(t, again, Repeated)
		_, _, err := s.order(t.Context(), post{account: 1, key: "key-00001", amount: 77})
		if fault.As(err).Code != "IDEMPOTENCY_CONFLICT" {
			t.Errorf("another body: %v", err)
		}
	})
}
