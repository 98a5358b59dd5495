// Package idempotency makes each creation happen once per Idempotency-Key and once per external_id, on one node and on
// many.
//
// Nothing is stored here: a resource holds its key, the hash of its request and its external_id in columns of its own,
// under unique indexes. [Do] takes a lock on both, so that of many equal requests one does the work and the others are
// told at once; then it has the caller look for what exists, and decides. The locks save work and give clear answers;
// the indexes are what makes it once.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// RetentionDefault is how long a key is remembered unless the operator says otherwise.
const RetentionDefault = 7 * 24 * time.Hour

// Engine decides about creations. Make it with [New].
type Engine struct {
	db        *sqldb.DB
	clock     *clock.Clock
	retention time.Duration
}

// New returns an engine that remembers keys for that much business time; 0 means [RetentionDefault].
func New(db *sqldb.DB, clock *clock.Clock, retention time.Duration) *Engine {
	if retention == 0 {
		retention = RetentionDefault
	}
	return &Engine{db: db, clock: clock, retention: retention}
}

// Request is what a creation is known by. Without a key and an external_id it is known by nothing: it happens each time.
type Request struct {
	Policy     Policy
	Account    id.Account
	Route      string            // method and route, such as POST /charges: the scope of Key
	Key        string            // "" for none
	Hash       [sha256.Size]byte // of the body, by meaning
	Kind       string            // of resource, such as charge: the scope of ExternalID
	ExternalID string            // "" for none
	Find       string            // how callers find a resource by what follows, such as GET /charges/ext:; "" when they cannot

	// Any is a query that returns a row when anything may hold the key or the external_id: a resource, or a row of bound_key.
	// Its arguments are the account, the key, the external_id and the route. Most requests are new, and with it they cost a
	// single small look; "" looks for everything at once.
	Any string
}

// Policy is how a family of routes refuses.
type Policy struct {
	KeyConflict        string // code for a key that was used with another body
	ExternalIDConflict string // code for an external_id that was used with other data
}

// The two families of routes.
var (
	Pix    = Policy{KeyConflict: "IDEMPOTENCY_CONFLICT", ExternalIDConflict: "EXTERNAL_ID_CONFLICT"}
	Crypto = Policy{KeyConflict: "idempotency_conflict", ExternalIDConflict: "idempotency_conflict"}
)

// Found is what exists already. Both may be one resource.
type Found[T any] struct {
	ByKey        *Stored[T] // the resource that holds the request's key, nil for none
	ByExternalID *Stored[T] // the resource that holds the request's external_id, nil for none
}

// Stored is a resource that exists.
type Stored[T any] struct {
	Resource     T
	Hash         [sha256.Size]byte // of the request that created it; only of ByKey
	KeyAt        time.Time         // business time since which it holds its key; only of ByKey
	SameMaterial bool              // it agrees with the request in all that matters; only of ByExternalID
}

// Claim is what a creation has to know beside its own data.
type Claim struct {
	// UnbindBefore is not zero when the key is held by a resource that has held it for longer than keys are remembered.
	// The creation first takes the key from resources that have held it since before this moment, in its own transaction.
	UnbindBefore time.Time
}

// Outcome says where the resource that [Do] returns comes from.
type Outcome int

const (
	_        Outcome = iota // none: it failed
	Created                 // by this request
	Replayed                // by an earlier request with the same key and the same body
	Existing                // by an earlier request with the same external_id and the same material data
	Repeated                // as Existing, to an earlier request with the same key and the same body
)

// Do returns the one resource that req asks for: the one that look finds, or else the one that create makes.
//
// look finds, with one query outside any transaction, what holds the request's key and what holds its external_id.
// create makes the resource in one transaction and returns [sqldb.ErrConflict] when another one holds the key or the
// external_id; Do then looks again and answers with the winner. A creation whose COMMIT was lost meets itself when it is
// run again: it must know its own id and return no conflict. No more than one create runs for a key or an external_id at
// a time, unless this node lost its locks.
//
// What fails leaves nothing behind here: key and external_id are free again as soon as Do returns or panics, and at the
// latest after [sqldb.LockTimeMax]. Refusals are faults; the errors of look and create are returned as they are.
func Do[T any](
	ctx context.Context, e *Engine, req Request,
	look func(ctx context.Context) (Found[T], error),
	create func(ctx context.Context, claim Claim) (T, error),
) (T, Outcome, error) {
	var none T
	// Whoever works for longer has lost its lock.
	ctx, cancel := clock.Within(ctx, sqldb.LockTimeMax)
	defer cancel()
	held, err := e.lock(ctx, req)
	if err != nil {
		return none, 0, err
	}
	defer held.unlock(ctx)

	// After the locks, never before: what was not there then may be by now.
	d := decision[T]{outcome: Created}
	if !held.unclaimed {
		d, err = answer(ctx, e, req, held, look)
	}
	if err == nil && d.outcome == Existing {
		err = e.bind(ctx, req)
	}
	if err != nil {
		return none, 0, err
	}
	if d.outcome != Created {
		return d.resource, d.outcome, nil
	}
	made, err := create(ctx, d.claim)
	if err == nil {
		return made, Created, nil
	}
	if !errors.Is(err, sqldb.ErrConflict) {
		return none, 0, err
	}
	d, lookErr := answer(ctx, e, req, held, look)
	switch {
	case lookErr != nil:
		return none, 0, lookErr
	case d.outcome == Created:
		return none, 0, fmt.Errorf("idempotency: %s conflicts with a resource that cannot be found: %w", req.Route, err)
	}
	return d.resource, d.outcome, nil
}

// IsUnderWay reports whether a request with that external_id is being worked on, on this node or another. Once it is not,
// what such a request began has ended, unless its node lost its locks.
func (e *Engine) IsUnderWay(ctx context.Context, account id.Account, kind, externalID string) (bool, error) {
	lock, err := e.db.TryLock(ctx, externalIDName(account, kind, externalID))
	switch {
	case errors.Is(err, sqldb.ErrLocked):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("idempotency: lock: %w", err)
	}
	lock.Unlock(ctx)
	return false, nil
}

// answer looks and decides.
func answer[T any](
	ctx context.Context, e *Engine, req Request, held locks, look func(context.Context) (Found[T], error),
) (decision[T], error) {
	found, err := look(ctx)
	if err != nil {
		return decision[T]{}, err
	}
	if held.externalIDBusy {
		found.ByExternalID = nil // its holder may be about to change it
	}
	// In the database's unit, so that the creation finds exactly the keys that were found to be too old here.
	forgotten := e.clock.Now().Add(-e.retention).Truncate(time.Microsecond)
	if req.Key != "" && (found.ByKey == nil || found.ByKey.KeyAt.Before(forgotten)) {
		bound, err := e.findBound(ctx, req, forgotten)
		switch {
		case err != nil:
			return decision[T]{}, err
		case bound != nil && *bound != req.Hash:
			return decision[T]{}, keyConflict(req)
		case bound != nil && found.ByExternalID != nil:
			return decision[T]{outcome: Repeated, resource: found.ByExternalID.Resource}, nil
		}
	}
	d, err := decide(req, found, forgotten)
	if err == nil && d.outcome == Created && held.externalIDBusy {
		return decision[T]{}, externalIDBusy(req)
	}
	return d, err
}

// decision is what to do about a request. Created means that it is yet to be done.
type decision[T any] struct {
	outcome  Outcome
	resource T     // of all but Created
	claim    Claim // of Created
}

// decide says what to do about req when that was found. Keys that were bound before forgotten do not count.
//
// The key comes first: a request that repeats an earlier one gets that one's resource, whoever holds the external_id.
func decide[T any](req Request, found Found[T], forgotten time.Time) (decision[T], error) {
	byKey, byExternalID := found.ByKey, found.ByExternalID
	var claim Claim
	if byKey != nil && byKey.KeyAt.Before(forgotten) {
		byKey, claim.UnbindBefore = nil, forgotten
	}
	switch {
	case byKey != nil && byKey.Hash == req.Hash:
		return decision[T]{outcome: Replayed, resource: byKey.Resource}, nil
	case byKey != nil:
		return decision[T]{}, keyConflict(req)
	case byExternalID != nil && byExternalID.SameMaterial:
		return decision[T]{outcome: Existing, resource: byExternalID.Resource}, nil
	case byExternalID != nil:
		return decision[T]{}, fault.New(fault.Conflict, req.Policy.ExternalIDConflict,
			"this external_id was used with other data"+req.found(" shows what it belongs to"))
	}
	return decision[T]{outcome: Created, claim: claim}, nil
}

// locks are what a request has against other requests.
type locks struct {
	held           []*sqldb.Lock
	externalIDBusy bool // another request has the external_id: only the key can still answer this one
	unclaimed      bool // nothing had the key or the external_id once they were locked
}

func (l locks) unlock(ctx context.Context) {
	for _, lock := range l.held {
		lock.Unlock(ctx)
	}
}

// lock takes the request's key and external_id, so that no other request has them.
func (e *Engine) lock(ctx context.Context, req Request) (locks, error) {
	var names []int64
	if req.Key != "" {
		names = append(names, lockName(req.Account, "key", req.Route, req.Key))
	}
	if req.ExternalID != "" {
		names = append(names, externalIDName(req.Account, req.Kind, req.ExternalID))
	}
	if len(names) == 0 {
		return locks{unclaimed: true}, nil
	}
	both, claimed, err := e.lockBoth(ctx, req, names)
	switch {
	case err == nil:
		return locks{held: []*sqldb.Lock{both}, unclaimed: !claimed}, nil
	case !errors.Is(err, sqldb.ErrLocked):
		return locks{}, fmt.Errorf("idempotency: lock: %w", err)
	case req.ExternalID == "":
		return locks{}, keyBusy()
	case req.Key == "":
		return locks{}, externalIDBusy(req)
	}
	return e.lockInTurn(ctx, names[0], names[1])
}

// lockBoth takes all that the request wants, and reports whether something may have it.
func (e *Engine) lockBoth(ctx context.Context, req Request, names []int64) (both *sqldb.Lock, claimed bool, err error) {
	if req.Any == "" {
		both, err = e.db.TryLock(ctx, names...)
		return both, true, err
	}
	return e.db.TryLockAsking(ctx, names, req.Any, int64(req.Account), req.Key, req.ExternalID, req.Route)
}

// lockInTurn takes the key and then the external_id: only so it is known which of them is busy.
func (e *Engine) lockInTurn(ctx context.Context, key, externalID int64) (locks, error) {
	first, err := e.db.TryLock(ctx, key)
	switch {
	case errors.Is(err, sqldb.ErrLocked):
		return locks{}, keyBusy()
	case err != nil:
		return locks{}, fmt.Errorf("idempotency: lock: %w", err)
	}
	second, err := e.db.TryLock(ctx, externalID)
	switch {
	case errors.Is(err, sqldb.ErrLocked):
		return locks{held: []*sqldb.Lock{first}, externalIDBusy: true}, nil
	case err != nil:
		first.Unlock(ctx)
		return locks{}, fmt.Errorf("idempotency: lock: %w", err)
	}
	return locks{held: []*sqldb.Lock{first, second}}, nil // the holder has just ended
}

func keyConflict(req Request) error {
	return fault.New(fault.Conflict, req.Policy.KeyConflict,
		"this Idempotency-Key was used with another body: use a new key for a new request")
}

func keyBusy() error {
	return fault.New(fault.InProgress, "idempotency_key_in_progress",
		"a request with this Idempotency-Key is still being processed: repeat the same request in a moment")
}

// externalIDBusy is a Conflict, which says not to repeat: this request may differ from the one that is under way.
func externalIDBusy(req Request) error {
	return fault.New(fault.Conflict, "external_id_in_progress",
		"a creation with this external_id is still being processed"+req.found(" instead of repeating the request"))
}

// found tells callers how to find what holds the external_id, and why.
func (req *Request) found(why string) string {
	if req.Find == "" {
		return ""
	}
	return ": " + req.Find + req.ExternalID + why
}

func externalIDName(account id.Account, kind, externalID string) int64 {
	return lockName(account, "external_id", kind, externalID)
}

// lockName returns the number that a lock has in the database. Two requests that get the same one by chance, one in 2^64,
// only cannot run at the same time.
func lockName(account id.Account, parts ...string) int64 {
	var room [256]byte // for what most names take
	b := binary.BigEndian.AppendUint64(room[:0], uint64(account))
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p))) // so that no two lists of parts have the same bytes
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
