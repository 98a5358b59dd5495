package account

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Block is a network that an operator blocked for good.
type Block struct {
	Network   netip.Prefix // as [ParseCIDR] returns it
	CreatedAt time.Time    // business time in UTC, to the microsecond
}

// ParseCIDR reads a network such as 10.0.0.0/8 or a single address, and returns it in its one form: masked, and IPv4
// where it was IPv4 written as IPv6.
func ParseCIDR(s string) (netip.Prefix, error) {
	p, err := parseCIDR(s)
	return p, wrap(err)
}

func parseCIDR(s string) (netip.Prefix, error) {
	var p netip.Prefix
	var err error
	if strings.Contains(s, "/") {
		p, err = netip.ParsePrefix(s)
	} else {
		var a netip.Addr
		a, err = netip.ParseAddr(s)
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if err != nil || strings.Contains(s, "%") { // a zone means something on one machine only
		return netip.Prefix{}, refuse(fault.Invalid, "%q is no network: write an address or a CIDR, such as 203.0.113.7 or 10.0.0.0/8", s)
	}
	const mapped = 96 // bits before an IPv4 address that is written as IPv6
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), nil
}

const (
	// NetworksMax is how many networks can be blocked for good.
	NetworksMax = 10_000

	wrongKeysMax  = 20 // from one source within wrongWindow; the last one blocks
	wrongWindow   = time.Minute
	blockTime     = 5 * time.Minute
	retryAfterMin = time.Second

	addressesMax  = 20_000 // with wrong keys, and again with temporary blocks; more are forgotten, the oldest first
	blockSliceMax = 100    // blocks that one Step stores, and that it deletes

	sourceBits6 = 64 // of an IPv6 address: who has one of such a network has all

	forever = math.MaxInt64 // the end of a permanent block
)

// Block blocks a network for good, on every node within two seconds, and returns it as it is stored. One that is
// blocked already stays as it is.
func (s *Service) Block(ctx context.Context, cidr string) (netip.Prefix, error) {
	network, err := parseCIDR(cidr)
	if err != nil {
		return netip.Prefix{}, wrap(err)
	}
	now := s.now()
	entry := oplog.Begin(ctx, s.ids, oplog.Entry{Action: oplog.IPBlock, Subject: network.String(), After: oplog.Fields{"state": "blocked"}})
	return network, wrap(s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		entry.Write(ctx, tx)
		// Counted afterwards, so that a second run does not refuse what the first one stored.
		n, err := insertBlock(ctx, tx, network, now)
		if err == nil && n > NetworksMax {
			err = refuse(fault.Invalid, "%d networks are blocked already: unblock some or block larger ones", NetworksMax)
		}
		return err
	}))
}

// Unblock ends the block of exactly that network, also a temporary one, on every node within two seconds, and returns
// it as it was stored.
func (s *Service) Unblock(ctx context.Context, cidr string) (netip.Prefix, error) {
	network, err := parseCIDR(cidr)
	if err != nil {
		return netip.Prefix{}, wrap(err)
	}
	deleted := false
	entry := oplog.Begin(ctx, s.ids, oplog.Entry{Action: oplog.IPUnblock, Subject: network.String(), Before: oplog.Fields{"state": "blocked"}})
	return network, wrap(s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		found, err := deleteBlock(ctx, tx, network)
		// Also when an earlier run found it: whether that one was committed or not, it is gone.
		deleted = deleted || found
		if err == nil && !deleted {
			err = refuse(fault.NotFound, "%s is not blocked", network)
		}
		if err == nil {
			entry.Write(ctx, tx)
		}
		return err
	}))
}

// ListBlocks returns the networks that are blocked for good, in the order of their text.
func (s *Service) ListBlocks(ctx context.Context) ([]Block, error) {
	list, err := listBlocks(ctx, s.db, NetworksMax)
	return list, wrap(err)
}

// Guard tells which addresses are blocked, from a copy of the list that [Guard.Step] brings up to date, and blocks those
// that send too many wrong keys.
type Guard struct {
	db    *sqldb.DB
	clock *clock.Clock

	mu     sync.RWMutex
	list   networks                      // as the last Step read it
	own    map[netip.Prefix]ownBlock     // made by this node; not in the list yet
	wrongs recent[netip.Prefix, *wrongs] // by source
}

// ownBlock is a temporary block that the list does not show yet.
type ownBlock struct {
	until  int64 // business microseconds UTC
	stored bool  // the next Step will find it in the list, unless an operator has ended it
}

// wrongs are the moments of the last wrong keys of one source.
type wrongs struct {
	at    [wrongKeysMax]int64 // business microseconds UTC, in a ring
	count int                 // of all since the source was first seen
}

// add notes a wrong key and reports whether it is one too many.
func (w *wrongs) add(now int64) bool {
	w.at[w.count%wrongKeysMax] = now
	w.count++
	oldest := w.at[w.count%wrongKeysMax]
	return w.count >= wrongKeysMax && now-oldest < wrongWindow.Microseconds()
}

// NewGuard returns a guard that blocks nothing until its first Step.
func NewGuard(db *sqldb.DB, c *clock.Clock) *Guard {
	return &Guard{
		db:     db,
		clock:  c,
		own:    map[netip.Prefix]ownBlock{},
		wrongs: newRecent[netip.Prefix, *wrongs](addressesMax, wrongWindow),
	}
}

// Blocked reports whether requests from addr are refused. Then retryAfter is what is left of a temporary block, at least
// a second, and 0 for a permanent one.
func (g *Guard) Blocked(addr netip.Addr) (retryAfter time.Duration, blocked bool) {
	g.mu.RLock()
	until := g.until(plain(addr))
	g.mu.RUnlock()
	switch until {
	case 0:
		return 0, false
	case forever:
		return 0, true
	}
	left := until - g.clock.Now().UnixMicro()
	if left <= 0 {
		return 0, false
	}
	return max(time.Duration(left)*time.Microsecond, retryAfterMin), true
}

// until returns the end of the longest block of a plain address; 0 means that there is none.
func (g *Guard) until(addr netip.Addr) int64 {
	return max(g.list.until(addr), g.own[source(addr)].until)
}

// WrongKey counts a wrong key from addr; the twentieth on this node within a minute blocks the address for five minutes, an
// IPv6 one with all of its /64. The block counts here at once and on other nodes once it is stored; an error means that it is not
// stored yet, and the next Step tries again.
func (g *Guard) WrongKey(ctx context.Context, addr netip.Addr) error {
	addr = plain(addr)
	if !addr.IsValid() {
		return nil
	}
	now := g.clock.Now()
	block, isNew := g.count(addr, now)
	if !isNew {
		return nil
	}
	return wrap(g.store(ctx, map[netip.Prefix]ownBlock{source(addr): block}))
}

// count notes a wrong key and returns the block that it led to.
func (g *Guard) count(addr netip.Addr, now time.Time) (block ownBlock, isNew bool) {
	from, micro := source(addr), now.UnixMicro()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until(addr) > micro {
		return ownBlock{}, false // what was under way when the block began does not make it longer
	}
	w := g.wrongs.get(from)
	if w == nil {
		w = new(wrongs)
	}
	if !w.add(micro) {
		g.wrongs.put(from, w, now)
		return ownBlock{}, false
	}
	g.wrongs.drop(from)
	if len(g.own) >= addressesMax {
		for other := range g.own { // any: so many wait only while nothing can be stored
			delete(g.own, other)
			break
		}
	}
	block = ownBlock{until: now.Add(blockTime).UnixMicro()}
	g.own[from] = block
	return block, true
}

// Step reads the list anew, stores blocks that could not be stored before and deletes those that have ended. It reports
// whether it stored or deleted any, so that there may be more. Its caller runs it once before it serves, and then every
// second or more often.
func (g *Guard) Step(ctx context.Context) (did bool, err error) {
	waiting := g.waiting()
	err = g.store(ctx, waiting) // the list is read all the same: it must not grow old
	did = len(waiting) > 0 && err == nil
	expired, listErr := g.refresh(ctx)
	if listErr == nil && len(expired) > 0 {
		listErr = g.deleteExpired(ctx, expired)
		did = did || listErr == nil
	}
	return did, wrap(errors.Join(err, listErr))
}

// waiting returns some of the own blocks that are not stored.
func (g *Guard) waiting() map[netip.Prefix]ownBlock {
	now := g.clock.Now().UnixMicro()
	g.mu.RLock()
	defer g.mu.RUnlock()
	blocks := map[netip.Prefix]ownBlock{}
	for network, b := range g.own {
		if len(blocks) == blockSliceMax {
			break
		}
		if !b.stored && b.until > now {
			blocks[network] = b
		}
	}
	return blocks
}

// store stores own blocks.
func (g *Guard) store(ctx context.Context, blocks map[netip.Prefix]ownBlock) error {
	if len(blocks) == 0 {
		return nil
	}
	now := g.clock.Now().UnixMicro()
	err := g.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for network, b := range blocks {
			insertTemporary(ctx, tx, network, now, b.until)
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for network, b := range blocks {
		if g.own[network] == b {
			g.own[network] = ownBlock{until: b.until, stored: true}
		}
	}
	return nil
}

// refresh reads the list and returns some networks whose blocks have ended.
func (g *Guard) refresh(ctx context.Context) (expired []netip.Prefix, err error) {
	now := g.clock.Now().UnixMicro()
	settled := g.settled(now)
	blocks, err := listNetworks(ctx, g.db, NetworksMax+addressesMax)
	if err != nil {
		return nil, err
	}
	list, expired := newNetworks(blocks, now)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = list
	for network, b := range settled {
		if g.own[network] == b {
			delete(g.own, network)
		}
	}
	return expired, nil
}

// settled returns the own blocks that a list read from now on shows, and those that have ended.
func (g *Guard) settled(now int64) map[netip.Prefix]ownBlock {
	g.mu.RLock()
	defer g.mu.RUnlock()
	blocks := map[netip.Prefix]ownBlock{}
	for network, b := range g.own {
		if b.stored || b.until <= now {
			blocks[network] = b
		}
	}
	return blocks
}

func (g *Guard) deleteExpired(ctx context.Context, expired []netip.Prefix) error {
	now := g.clock.Now().UnixMicro()
	return g.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, network := range expired {
			deleteExpired(ctx, tx, network, now)
		}
		return nil
	})
}

// plain returns IPv4 where it was IPv4 written as IPv6. A zone may stay: no network of an address has it.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap() }

// source returns the network of a plain address whose wrong keys are counted together.
func source(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = sourceBits6
	}
	p, _ := addr.Prefix(bits) // the zero Prefix for the zero Addr
	return p
}

// networks is a list of blocks that is searched by looking up the address's network of every length there is.
type networks struct {
	ends     map[netip.Prefix]int64 // business microseconds UTC, or forever
	lengths4 []int                  // of the IPv4 networks, each once
	lengths6 []int                  // of the IPv6 networks, each once
}

func newNetworks(blocks []networkBlock, now int64) (list networks, expired []netip.Prefix) {
	list.ends = make(map[netip.Prefix]int64, len(blocks))
	for _, b := range blocks {
		switch {
		case b.until > now:
			list.add(b)
		case len(expired) < blockSliceMax:
			expired = append(expired, b.network)
		}
	}
	return list, expired
}

func (n *networks) add(b networkBlock) {
	lengths := &n.lengths4
	if b.network.Addr().Is6() {
		lengths = &n.lengths6
	}
	if !slices.Contains(*lengths, b.network.Bits()) {
		*lengths = append(*lengths, b.network.Bits())
	}
	n.ends[b.network] = b.until
}

// until returns the end of the longest block of a plain address; 0 means that there is none.
func (n *networks) until(addr netip.Addr) int64 {
	lengths := n.lengths4
	if addr.Is6() {
		lengths = n.lengths6
	}
	var end int64
	for _, bits := range lengths {
		p, _ := addr.Prefix(bits) // of its own family, so that it cannot fail
		end = max(end, n.ends[p])
	}
	return end
}
