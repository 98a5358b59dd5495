package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/crowd"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	findMax      = 500              // deliveries found in one look
	apartMax     = 64               // endpoints that are looked at apart in one step
	releaseMax   = 500              // deliveries of a dead boot freed at once
	deadEvery    = time.Second      // real time between looks for dead owners
	lostEvery    = 10 * time.Second // real time between looks for our own that are not in hand
	lostPage     = 1000
	writersMax   = 64  // accounts whose results are written at once: they share what that costs
	resultsBatch = 100 // results that are not waited with
)

// upkeep is what the loops remember from one step to the next.
type upkeep struct {
	mu       sync.Mutex
	deadAt   time.Time      // real time of the last look for dead owners
	lostAt   time.Time      // and for our own that are not in hand
	lost     map[key]bool   // those that were not in hand then
	turn     id.ID          // the last endpoint that was looked at apart
	paces    map[id.ID]pace // that endpoints should have
	outcomes map[id.ID]bool // whether the last attempt to an endpoint worked, where that is news
	moved    map[id.ID]moved
}

// Find takes deliveries in hand that are due and that nobody has: retries, redeliveries, what there was no room for, and
// what dead nodes left.
func (s *Service) Find(ctx context.Context) (did bool, err error) {
	if s.Node == nil || !s.canOwn() {
		return false, nil
	}
	if err := errors.Join(s.releaseDead(ctx), s.releaseLost(ctx)); err != nil {
		return false, err
	}
	s.lines.nudge()
	common, err := s.findCommon(ctx)
	if err != nil {
		return false, err
	}
	apart, err := s.findApart(ctx)
	return common || apart, err
}

// findCommon takes what is due, whosever it is.
func (s *Service) findCommon(ctx context.Context) (more bool, err error) {
	room := min(s.lines.roomAll(), findMax)
	if room <= 0 {
		return false, nil
	}
	due, err := sqldb.All(ctx, s.DB, scanRow, findDue, s.Clock.Now().UnixMicro(), room)
	if err != nil || len(due) == 0 {
		return false, err
	}
	var wanted []row
	rooms := map[id.ID]int{}
	for _, d := range due {
		e := s.directory.get(d.endpoint)
		if e == nil || e.lane() != laneCommon {
			if err := s.misplaced(ctx, d, e); err != nil {
				return false, err
			}
			continue
		}
		if _, seen := rooms[d.endpoint]; !seen {
			rooms[d.endpoint] = s.lines.room(e)
		}
		if rooms[d.endpoint] <= 0 {
			s.propose(e, behind) // it would stand before all others
			continue
		}
		rooms[d.endpoint]--
		wanted = append(wanted, d)
	}
	taken, err := s.claim(ctx, wanted)
	return taken > 0 && len(due) == room, err
}

// misplaced sees to it that a delivery in the wrong lane is moved. It got there from a node that did not know better yet.
func (s *Service) misplaced(ctx context.Context, d row, e *Endpoint) error {
	if e == nil { // deleted for good, or newer than what this node knows
		stored, err := getEndpoint(ctx, s.DB, d.account, d.endpoint)
		if errors.Is(err, sqldb.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		e = stored
	}
	if !e.settled {
		return nil // it is being seen to
	}
	_, err := s.write(ctx, e, nil, func(e *Endpoint) bool { e.settled = false; return true })
	return err
}

// findApart takes what is due of endpoints that stand apart, some of them in each step, so that none waits for another.
func (s *Service) findApart(ctx context.Context) (more bool, err error) {
	list := slices.DeleteFunc(s.directory.busyOnes(), func(e *Endpoint) bool { return e.lane() != laneApart })
	if len(list) == 0 {
		return false, nil
	}
	at, found := slices.BinarySearchFunc(list, s.upkeep.turn, func(e *Endpoint, x id.ID) int { return e.ID.Compare(x) })
	if found {
		at++
	}
	list = slices.Concat(list[at:], list[:at])
	list = list[:min(len(list), apartMax)]
	now := s.Clock.Now().UnixMicro()
	for _, e := range list {
		s.upkeep.turn = e.ID
		room := s.lines.room(e)
		if room <= 0 {
			continue
		}
		due, err := sqldb.All(ctx, s.DB, scanRow, listApart, int64(e.Account), e.ID, now, room)
		if err != nil {
			return false, err
		}
		if idle, isSlow := s.lines.isIdle(e.ID); len(due) == 0 && idle && !isSlow && e.pace == behind {
			s.propose(e, common)
		}
		taken, err := s.claim(ctx, due)
		if err != nil {
			return false, err
		}
		more = more || (taken > 0 && len(due) == room && e.pace == behind)
	}
	return more, nil
}

// claim takes deliveries that nobody has. Of two nodes that try, one gets each.
func (s *Service) claim(ctx context.Context, wanted []row) (taken int, err error) {
	slices.SortFunc(wanted, func(a, b row) int { return a.key.compare(b.key) }) // so that two nodes never wait for each other in opposite order
	me, lapses := s.Node.Boot(), s.Node.Lapses()
	for len(wanted) > 0 {
		n := slices.IndexFunc(wanted, func(d row) bool { return d.account != wanted[0].account })
		if n < 0 {
			n = len(wanted)
		}
		ours := wanted[:n]
		wanted = wanted[n:]
		var got []claimed
		err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, d := range ours {
				tx.Queue(ctx, claimDelivery, me, int64(d.account), d.event, d.endpoint, d.attempt)
			}
			var err error
			got, err = sqldb.All(ctx, tx, scanClaimed, listClaimed, int64(ours[0].account), me, ours[0].event, ours[len(ours)-1].event, ownedMax+findMax)
			return err
		})
		if err != nil {
			return taken, fmt.Errorf("webhook: claim: %w", err)
		}
		asked := map[key]bool{}
		for _, d := range ours {
			asked[d.key] = true
		}
		now := s.Clock.Real()
		for i := range got {
			c := &got[i]
			c.Account = ours[0].account
			k := key{c.Account, c.ID, c.endpoint}
			e := s.directory.get(c.endpoint)
			if !asked[k] || e == nil {
				continue // in hand already, or given back when it is found not to be
			}
			s.lines.add(e, &job{key: k, kind: c.Type, body: c.Body(), attempt: c.attempt, lapses: lapses, since: now})
			taken++
		}
	}
	return taken, nil
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.account, o.account), k.event.Compare(o.event), k.endpoint.Compare(o.endpoint))
}

// releaseDead frees the deliveries of boots that are dead. How long that takes to be sure of includes an attempt that was
// under way: two nodes that live never make the same one.
func (s *Service) releaseDead(ctx context.Context) error {
	now := s.Clock.Real()
	if now.Sub(s.upkeep.deadAt) < deadEvery {
		return nil
	}
	s.upkeep.deadAt = now
	after := node.DeadAfter + s.Settings.Timeout
	owner := id.First(time.UnixMicro(0))
	for {
		next, err := sqldb.One(ctx, s.DB, sqldb.Scalar[id.ID], findOwner, owner)
		if errors.Is(err, sqldb.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		owner = next
		dead, err := s.Node.IsDead(ctx, owner, after)
		if err != nil {
			return err
		}
		if !dead {
			continue
		}
		for {
			rows, err := sqldb.All(ctx, s.DB, scanRow, findOwned, owner, int64(0), id.First(time.UnixMicro(0)), id.First(time.UnixMicro(0)), releaseMax)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				break
			}
			s.Log.LogAttrs(ctx, slog.LevelInfo, "webhook deliveries of a dead node are taken over", slog.Int("deliveries", len(rows)))
			if err := s.release(ctx, rows); err != nil {
				return err
			}
		}
	}
}

// release takes deliveries from their owner.
func (s *Service) release(ctx context.Context, rows []row) error {
	return byAccount(rows, func(d row) id.Account { return d.account }, func(ours []row) error {
		return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, d := range ours {
				tx.Queue(ctx, handBack, int64(d.account), d.event, d.endpoint, d.owner, d.attempt)
			}
			return nil
		})
	})
}

// releaseLost frees deliveries that are marked as ours and are not in hand: those of a transaction whose COMMIT was
// answered by nobody. One that is missing in two looks is not on its way.
func (s *Service) releaseLost(ctx context.Context) error {
	now := s.Clock.Real()
	if now.Sub(s.upkeep.lostAt) < lostEvery {
		return nil
	}
	s.upkeep.lostAt = now
	missing := map[key]bool{}
	var lost []row
	last := key{event: id.First(time.UnixMicro(0)), endpoint: id.First(time.UnixMicro(0))}
	for {
		rows, err := sqldb.All(ctx, s.DB, scanRow, findOwned, s.Node.Boot(), int64(last.account), last.event, last.endpoint, lostPage)
		if err != nil {
			return err
		}
		for _, d := range rows {
			switch {
			case s.lines.has(d.key):
			case s.upkeep.lost[d.key]:
				lost = append(lost, d)
			default:
				missing[d.key] = true
			}
		}
		if len(rows) < lostPage {
			break
		}
		last = rows[len(rows)-1].key
	}
	s.upkeep.lost = missing
	if len(lost) == 0 {
		return nil
	}
	return s.release(ctx, lost)
}

// result is how a delivery stands after an attempt.
type result struct {
	*job
	outcome  Outcome
	state    State
	dueAt    time.Time // of the next attempt
	lane     lane
	handBack bool // nothing happened; whoever finds it next may send it
}

// results wait to be written together.
type results struct {
	mu   sync.Mutex
	list []result
	wake chan struct{}
}

func newResults() results { return results{wake: make(chan struct{}, 1)} }

func (r *results) add(one ...result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, one...)
	if len(r.list) >= resultsBatch {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func (r *results) take() []result {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// note decides what becomes of a delivery after an attempt.
func (s *Service) note(j *job, o Outcome, want pace) {
	r := result{job: j, outcome: o, state: Waiting, dueAt: s.Clock.Now(), lane: laneCommon}
	number := int(j.attempt) + 1
	switch {
	case o.OK:
		r.state = Delivered
	case number > len(s.Settings.Waits):
		r.state = Parked
	default:
		r.dueAt = r.dueAt.Add(s.Settings.Waits[number-1])
	}
	if e := s.directory.get(j.endpoint); e != nil {
		if e.pace != common {
			r.lane = laneApart
		}
		switch {
		case want == slow && e.pace != slow:
			s.propose(e, slow)
		case want != slow && e.pace == slow:
			s.propose(e, behind) // common once it has caught up
		}
		s.upkeep.mu.Lock()
		// What was noted and is not written yet is not news any more when the next attempt went otherwise.
		if _, isNoted := s.upkeep.outcomes[e.ID]; isNoted || o.OK != e.FailingSince.IsZero() {
			if s.upkeep.outcomes == nil {
				s.upkeep.outcomes = map[id.ID]bool{}
			}
			s.upkeep.outcomes[e.ID] = o.OK
		}
		s.upkeep.mu.Unlock()
	}
	s.results.add(r)
}

// Store writes the results of attempts, those of an account together. What cannot be written is kept and tried again.
func (s *Service) Store(ctx context.Context) (did bool, err error) {
	list := s.results.take()
	if len(list) == 0 {
		return false, nil
	}
	slices.SortFunc(list, func(a, b result) int { return a.key.compare(b.key) })
	err = byAccount(list, func(r result) id.Account { return r.account }, func(ours []result) error {
		if err := s.store(ctx, ours); err != nil {
			s.results.add(ours...)
			return err
		}
		keys := make([]key, len(ours))
		for i, r := range ours {
			keys[i] = r.key
		}
		s.lines.forget(keys)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("webhook: store results: %w", err)
	}
	return false, err
}

// errNotOurs says that a delivery is no longer this node's.
var errNotOurs = errors.New("webhook: another has it")

func (s *Service) store(ctx context.Context, list []result) error {
	err := s.storeAll(ctx, list)
	if errors.Is(err, errNotOurs) || errors.Is(err, sqldb.ErrConflict) {
		return s.storeOwn(ctx, list)
	}
	return err
}

// storeAll stores results of deliveries that are all still this node's, as they nearly always are: rows and changes without
// a look at anything are what the database does best.
func (s *Service) storeAll(ctx context.Context, list []result) error {
	me := s.Node.Boot()
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range list {
			if r := &list[i]; !r.handBack {
				tx.Queue(ctx, insertAttempt, slices.Concat([]any{int64(r.account), r.event, r.endpoint, r.attempt + 1}, r.outcome.columns())...)
			}
		}
		for i := range list {
			list[i].write(ctx, tx, me, errNotOurs)
		}
		return nil
	})
}

// storeOwn stores results of those deliveries that are still this node's. The log tells of the attempts that counted.
func (s *Service) storeOwn(ctx context.Context, list []result) error {
	me := s.Node.Boot()
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range list {
			r := &list[i]
			if !r.handBack {
				tx.Queue(ctx, insertOwnAttempt, slices.Concat([]any{int64(r.account), r.event, r.endpoint, me, r.attempt}, r.outcome.columns())...)
			}
			r.write(ctx, tx, me, nil)
		}
		return nil
	})
}

// write writes what a delivery of that owner becomes. Unless otherwise is nil, it must still be that one's.
func (r *result) write(ctx context.Context, tx *sqldb.Tx, owner id.ID, otherwise error) {
	account := int64(r.account)
	if r.handBack {
		tx.Queue(ctx, handBack, account, r.event, r.endpoint, owner, r.attempt)
		return
	}
	tx.Guard(ctx, otherwise, updateResult, string(r.state), r.attempt+1, r.dueAt.UnixMicro(), int64(r.lane),
		account, r.event, r.endpoint, owner, r.attempt)
}

// columns are what the log has of an attempt.
func (o *Outcome) columns() []any {
	return []any{
		o.at.UnixMicro(), o.Took.Microseconds(), int64(o.status), null(plainText(o.err)), blob(o.response), null(o.signature),
	}
}

// plainText drops what no database takes as text.
func plainText(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?") }

// byAccount calls f with the items of each account, which stand together, several accounts at once.
func byAccount[T any](items []T, account func(T) id.Account, f func([]T) error) error {
	var groups [][]T
	for len(items) > 0 {
		n := slices.IndexFunc(items, func(x T) bool { return account(x) != account(items[0]) })
		if n < 0 {
			n = len(items)
		}
		n = min(n, 2*resultsBatch)
		groups, items = append(groups, items[:n]), items[n:]
	}
	var mu sync.Mutex
	var failed error
	crowd.Each(len(groups), writersMax, func(i int) {
		if err := f(groups[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	return failed
}

// Wake returns what wakes the senders of a pool.
func (s *Service) Wake(pool Pool) <-chan struct{} { return s.lines.wake[pool] }

// WakeStore returns what wakes [Service.Store] before its time.
func (s *Service) WakeStore() <-chan struct{} { return s.results.wake }

// Leave stores what is known and hands everything back that is in hand, so that others need not wait for this node to be
// taken for dead. The loops have ended.
func (s *Service) Leave(ctx context.Context) error {
	if _, err := s.Store(ctx); err != nil {
		return err
	}
	for _, j := range s.lines.all() {
		s.results.add(result{job: j, handBack: true})
	}
	_, err := s.Store(ctx)
	return err
}
