package account

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

func TestParseCIDR(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ give, want string }{
		{"203.0.113.7", "203.0.113.7/32"},
		{"203.0.113.7/32", "203.0.113.7/32"},
		{"10.1.2.3/8", "10.0.0.0/8"},
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"2001:DB8::1", "2001:db8::1/128"},
		{"2001:db8:1:2:3::/48", "2001:db8:1::/48"},
		{"::ffff:10.1.2.3", "10.1.2.3/32"},
		{"::ffff:10.1.2.3/104", "10.0.0.0/8"},
		{"::ffff:a01:203/128", "10.1.2.3/32"},
		{"::ffff:10.1.2.3/64", "::/64"}, // wider than IPv4: a network of IPv6
		{"::/0", "::/0"},
	} {
		if got, err := ParseCIDR(test.give); err != nil || got.String() != test.want {
			t.Errorf("ParseCIDR(%s) = %s, %v, want %s", test.give, got, err, test.want)
		}
	}
	for _, bad := range []string{"", "/", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/08", "10.0.0.0/-1", "010.0.0.1", "::1/129", "fe80::1%eth0", "fe80::%eth0/64", "host", " 10.0.0.1"} {
		_, err := ParseCIDR(bad)
		wantFault(t, err, fault.Invalid, fmt.Sprintf("%q is no network: write an address or a CIDR, such as ", bad))
	}
}

func FuzzParseCIDR(f *testing.F) {
	for _, s := range []string{"10.1.2.3/8", "::ffff:10.1.2.3/104", "2001:db8::/32", "::ffff:0:0/95", "fe80::1%x", "1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseCIDR(s)
		if err != nil {
			return
		}
		if !p.IsValid() || p != p.Masked() || p.Addr().Zone() != "" || p.Addr().Is4In6() {
			t.Errorf("ParseCIDR(%q) = %s, which is not the one form", s, p)
		}
		if again, err := ParseCIDR(p.String()); err != nil || again != p {
			t.Errorf("ParseCIDR(%s) = %s, %v", p, again, err)
		}
		var list networks
		list.ends = map[netip.Prefix]int64{}
		list.add(networkBlock{p, forever})
		if list.until(plain(p.Addr())) != forever {
			t.Errorf("%s does not block its own first address", p)
		}
	})
}

func TestBlockList(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, h := t.Context(), newHands()
		c := clock.New(h.now)
		s := New(sqltest.Open(t, url), c, rand.Reader)
		g := NewGuard(sqltest.Open(t, url), c) // of another node
		created := c.Now()
		for _, cidr := range []string{"2001:db8::1/32", "10.1.2.3/8", "192.0.2.7", "::ffff:192.0.2.7"} {
			if _, err := s.Block(ctx, cidr); err != nil {
				t.Fatal(err)
			}
			h.move(time.Second) // the second block of 192.0.2.7 leaves the first as it was
		}
		list, err := s.ListBlocks(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := []Block{
			{netip.MustParsePrefix("10.0.0.0/8"), created.Add(time.Second)},
			{netip.MustParsePrefix("192.0.2.7/32"), created.Add(2 * time.Second)},
			{netip.MustParsePrefix("2001:db8::/32"), created},
		}
		if fmt.Sprint(list) != fmt.Sprint(want) {
			t.Errorf("list %v, want %v", list, want)
		}

		wantOpen(t, g, "10.0.0.1") // until its next Step
		step(t, g, false)
		for _, addr := range []string{"10.255.0.1", "::ffff:10.0.0.1", "192.0.2.7", "2001:db8:ffff::1", "2001:db8::1%eth0"} {
			wantBlocked(t, g, addr, 0)
		}
		for _, addr := range []string{"11.0.0.1", "192.0.2.8", "2001:db9::1", "::1", "::a00:1"} {
			wantOpen(t, g, addr)
		}
		if _, blocked := g.Blocked(netip.Addr{}); blocked {
			t.Error("no address is blocked")
		}

		if network, err := s.Unblock(ctx, "10.9.9.9/8"); err != nil || network.String() != "10.0.0.0/8" {
			t.Errorf("Unblock: %s, %v", network, err)
		}
		step(t, g, false)
		wantOpen(t, g, "10.255.0.1")
		wantBlocked(t, g, "192.0.2.7", 0)
		_, err = s.Unblock(ctx, "10.0.0.0/8")
		wantFault(t, err, fault.NotFound, "10.0.0.0/8 is not blocked")
		_, err = s.Unblock(ctx, "x")
		wantFault(t, err, fault.Invalid, `"x" is no network`)
		_, err = s.Block(ctx, "x")
		wantFault(t, err, fault.Invalid, `"x" is no network`)
	})
}

func TestBlockListIsBounded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := sqltest.Open(t, sqltest.SQLite(t))
	s := New(db, clock.New(nil), rand.Reader)
	err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range NetworksMax {
			tx.Queue(ctx, insertBlockSQL, netip.PrefixFrom(someAddr(i), 32).String(), 1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Block(ctx, "203.0.113.7")
	wantFault(t, err, fault.Invalid, "10000 networks are blocked already")
	if _, err := s.Block(ctx, someAddr(0).String()); err != nil { // is there already
		t.Error(err)
	}
	if n := count(t, db, `SELECT COUNT(*) FROM ip_block`); n != NetworksMax {
		t.Errorf("%d networks are stored, want %d", n, NetworksMax)
	}
}

// The twentieth wrong key within a minute blocks for five minutes of business time: here at once, elsewhere and after a
// restart from the next Step.
func TestWrongKeys(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		h := newHands()
		c := clock.New(h.now)
		advance := func(d time.Duration) { c.Raise(c.Offset() + d) }
		here, there := NewGuard(sqltest.Open(t, url), c), NewGuard(sqltest.Open(t, url), c)

		wrong(t, here, "192.0.2.7", 19)
		wrong(t, here, "192.0.2.8", 19)
		wantOpen(t, here, "192.0.2.7")
		wrong(t, here, "::ffff:192.0.2.7", 1) // the same address
		wantBlocked(t, here, "192.0.2.7", 5*time.Minute)
		wantOpen(t, here, "192.0.2.8")
		wantOpen(t, there, "192.0.2.7")
		step(t, there, false)
		wantBlocked(t, there, "192.0.2.7", 5*time.Minute)
		step(t, here, false)
		wantBlocked(t, here, "192.0.2.7", 5*time.Minute) // now from the list
		if len(here.own) != 0 {
			t.Errorf("%d blocks are kept beside the list", len(here.own))
		}
		advance(time.Second)
		wrong(t, here, "192.0.2.7", 40) // from requests that were under way: the block gets no longer
		wantBlocked(t, here, "192.0.2.7", 5*time.Minute-time.Second)

		advance(5*time.Minute - 1500*time.Millisecond)
		wantBlocked(t, here, "192.0.2.7", time.Second) // never less
		advance(500 * time.Millisecond)
		wantOpen(t, here, "192.0.2.7")
		wantOpen(t, there, "192.0.2.7")
		step(t, there, true) // the row is deleted
		step(t, there, false)
		step(t, here, false)
		if n := count(t, here.db, `SELECT COUNT(*) FROM ip_block`); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		// It starts anew.
		wrong(t, here, "192.0.2.7", 19)
		wantOpen(t, here, "192.0.2.7")
		wrong(t, here, "192.0.2.7", 1)
		wantBlocked(t, here, "192.0.2.7", 5*time.Minute)
	})
}

func TestWrongKeysWithinAMinute(t *testing.T) {
	t.Parallel()
	h := newHands()
	c := clock.New(h.now)
	g := NewGuard(sqltest.Open(t, sqltest.SQLite(t)), c)
	// 1 + 18 within a minute, and then always the oldest leaves the minute before the next comes.
	wrong(t, g, "192.0.2.7", 1)
	h.move(59 * time.Second)
	wrong(t, g, "192.0.2.7", 18)
	h.move(time.Second)
	wrong(t, g, "192.0.2.7", 1)
	wantOpen(t, g, "192.0.2.7")
	// The minute slides: the twentieth counts from wherever the first of them is.
	h.move(58 * time.Second)
	wrong(t, g, "192.0.2.7", 1)
	wantBlocked(t, g, "192.0.2.7", 5*time.Minute)

	for range 200 { // for ever at a rate that is just allowed
		h.move(wrongWindow/(wrongKeysMax-1) + time.Millisecond)
		wrong(t, g, "192.0.2.9", 1)
	}
	wantOpen(t, g, "192.0.2.9")
}

// Whoever has an IPv6 address has its /64.
func TestWrongKeysIPv6(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		g := NewGuard(sqltest.Open(t, url), clock.New(newHands().now))
		for i := range wrongKeysMax {
			wantOpen(t, g, "2001:db8:1:2::1")
			wrong(t, g, fmt.Sprintf("2001:db8:1:2::%x", i), 1)
		}
		for range 2 {
			wantBlocked(t, g, "2001:db8:1:2:ffff:ffff:ffff:ffff", 5*time.Minute)
			wantBlocked(t, g, "2001:db8:1:2::1%eth0", 5*time.Minute)
			wantOpen(t, g, "2001:db8:1:3::1")
			step(t, g, false)
		}
		if err := g.WrongKey(t.Context(), netip.Addr{}); err != nil {
			t.Error(err)
		}
	})
}

// A block that cannot be stored counts here, and is stored as soon as that is possible.
func TestWrongKeysWithoutDatabase(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, h := t.Context(), newHands()
		c := clock.New(h.now)
		g := NewGuard(sqltest.Open(t, url), c)
		g.db.Close()
		wrong(t, g, "192.0.2.7", 19)
		if err := g.WrongKey(ctx, netip.MustParseAddr("192.0.2.7")); err == nil {
			t.Error("a block was stored in a database that is closed")
		}
		if _, err := g.Step(ctx); err == nil {
			t.Error("a database that is closed was read")
		}
		wantBlocked(t, g, "192.0.2.7", 5*time.Minute)

		g.db = sqltest.Open(t, url)
		h.move(time.Minute)
		step(t, g, true)
		step(t, g, false)
		wantBlocked(t, g, "192.0.2.7", 4*time.Minute)
		restarted := NewGuard(g.db, c)
		step(t, restarted, false)
		wantBlocked(t, restarted, "192.0.2.7", 4*time.Minute)
	})
}

// Permanent and temporary blocks of one network do not get in each other's way.
func TestBlockBoth(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		c := clock.New(newHands().now)
		s, g := New(sqltest.Open(t, url), c, rand.Reader), NewGuard(sqltest.Open(t, url), c)

		// An operator ends a temporary block.
		wrong(t, g, "192.0.2.7", 20)
		if _, err := s.Unblock(ctx, "192.0.2.7"); err != nil {
			t.Fatal(err)
		}
		step(t, g, false)
		wantOpen(t, g, "192.0.2.7")

		// He makes one permanent, and wrong keys leave it so.
		wrong(t, g, "192.0.2.7", 20)
		if _, err := s.Block(ctx, "192.0.2.7"); err != nil {
			t.Fatal(err)
		}
		other := NewGuard(g.db, c) // has not heard of it
		wrong(t, other, "192.0.2.7", 20)
		step(t, g, false)
		wantBlocked(t, g, "192.0.2.7", 0)
		c.Raise(c.Offset() + time.Hour)
		step(t, g, false)
		wantBlocked(t, g, "192.0.2.7", 0)

		// The longer one of two counts, whichever network it is of.
		wrong(t, g, "10.0.0.1", 20)
		if _, err := s.Block(ctx, "10.0.0.0/8"); err != nil {
			t.Fatal(err)
		}
		step(t, g, false)
		wantBlocked(t, g, "10.0.0.1", 0)
	})
}

// A block that was made longer since somebody saw its end is not deleted.
func TestBlockLongerMeanwhile(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		ctx, c := t.Context(), clock.New(newHands().now)
		here, there := NewGuard(sqltest.Open(t, url), c), NewGuard(sqltest.Open(t, url), c)
		wrong(t, here, "192.0.2.7", 20)
		c.Raise(blockTime)
		expired, err := here.refresh(ctx)
		if err != nil || len(expired) != 1 {
			t.Fatalf("expired %v, %v, want one", expired, err)
		}
		wrong(t, there, "192.0.2.7", 20)
		if err := here.deleteExpired(ctx, expired); err != nil {
			t.Fatal(err)
		}
		step(t, here, false)
		wantBlocked(t, here, "192.0.2.7", blockTime)
	})
}

// However many temporary blocks there are, the permanent ones are read first.
func TestListNetworks(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx, c := t.Context(), clock.New(newHands().now)
		wrong(t, NewGuard(db, c), "10.0.0.1", 20)
		if _, err := New(db, c, rand.Reader).Block(ctx, "192.0.2.7"); err != nil {
			t.Fatal(err)
		}
		wrong(t, NewGuard(db, c), "203.0.113.7", 20)
		list, err := listNetworks(ctx, db, 1)
		if err != nil || len(list) != 1 || list[0] != (networkBlock{netip.MustParsePrefix("192.0.2.7/32"), forever}) {
			t.Errorf("the first is %v, %v", list, err)
		}
	})
}

// A flood of addresses is counted in bounded memory and cleared away in bounded slices.
func TestWrongKeysFromEverywhere(t *testing.T) {
	t.Parallel()
	ctx, h := t.Context(), newHands()
	c := clock.New(h.now)
	db := sqltest.Open(t, sqltest.SQLite(t))
	g := NewGuard(db, c)
	for i := range 2 * addressesMax {
		if err := g.WrongKey(ctx, someAddr(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := sizeOf(&g.wrongs); n > addressesMax || n < addressesMax/2 {
		t.Errorf("%d addresses are counted, want at most %d", n, addressesMax)
	}
	wrong(t, g, "192.0.2.7", 20)
	wantBlocked(t, g, "192.0.2.7", 5*time.Minute)

	// Blocks that cannot be stored are bounded too.
	g.db = sqltest.Open(t, sqltest.SQLite(t))
	g.db.Close()
	for i := range addressesMax + 100 {
		for range wrongKeysMax {
			_ = g.WrongKey(ctx, someAddr(i)) // the last one fails
		}
	}
	if len(g.own) != addressesMax {
		t.Errorf("%d blocks are kept, want %d", len(g.own), addressesMax)
	}
	g.db = db
	for stored := int64(1); stored < 250; stored += blockSliceMax {
		if n := count(t, db, `SELECT COUNT(*) FROM ip_block`); n != stored {
			t.Errorf("%d blocks are stored, want %d", n, stored)
		}
		step(t, g, true)
	}
	c.Raise(c.Offset() + blockTime)
	for left := int64(301); left > 0; left -= blockSliceMax {
		if n := count(t, db, `SELECT COUNT(*) FROM ip_block`); n != left {
			t.Errorf("%d blocks are left, want %d", n, left)
		}
		step(t, g, true)
	}
	step(t, g, false)
	if len(g.own) != 0 {
		t.Errorf("%d blocks that have ended are kept", len(g.own))
	}
}

// The search for an address finds exactly what comparing it with every network finds.
func TestNetworksUntil(t *testing.T) {
	t.Parallel()
	var blocks []networkBlock
	for i := range 300 {
		addr := someAddr(i % 64)
		bits := i % 33
		if i%2 == 1 {
			addr, bits = someAddr6(i%64), i%129
		}
		p, err := addr.Prefix(bits)
		if err != nil {
			t.Fatal(err)
		}
		if bits > 2 { // without networks that hold nearly everything
			blocks = append(blocks, networkBlock{p, int64(1000 + i)})
		}
	}
	list, expired := newNetworks(blocks, 1050)
	if len(expired) == 0 {
		t.Fatal("none has ended")
	}
	last := map[netip.Prefix]int64{}
	for _, b := range blocks {
		if b.until > 1050 {
			last[b.network] = b.until
		}
	}
	hits := 0
	for i := range 4000 {
		for _, addr := range []netip.Addr{someAddr(i), someAddr6(i)} {
			var want int64
			for network, until := range last {
				if network.Contains(addr) {
					want = max(want, until)
				}
			}
			if got := list.until(addr); got != want {
				t.Fatalf("%s is blocked until %d, want %d", addr, got, want)
			}
			if want > 0 {
				hits++
			}
		}
	}
	if hits == 0 || hits == 8000 {
		t.Errorf("%d of 8000 addresses are blocked: that tells nothing", hits)
	}
}

func TestBlockedAllocates(t *testing.T) { // not parallel: others would be counted too
	g := benchGuard(5000)
	for _, addr := range []netip.Addr{someAddr(1), someAddr6(1), netip.MustParseAddr("::ffff:1.2.3.4"), {}} {
		if n := testing.AllocsPerRun(100, func() { g.Blocked(addr) }); n != 0 {
			t.Errorf("%v allocations for %s", n, addr)
		}
	}
}

// benchGuard knows that many networks, of lengths that people use.
func benchGuard(size int) *Guard {
	g := NewGuard(nil, clock.New(newHands().now))
	blocks := make([]networkBlock, 0, size)
	for i := range size {
		p, _ := someAddr(i).Prefix(16 + i%17)
		if i%4 == 0 {
			p, _ = someAddr6(i).Prefix([]int{32, 48, 56, 64, 128}[i/4%5])
		}
		blocks = append(blocks, networkBlock{p, forever})
	}
	g.list, _ = newNetworks(blocks, 0)
	return g
}

// BenchmarkBlocked measures an address that is not blocked, which is searched for in full: growing the list must not
// cost, growing the number of lengths may.
func BenchmarkBlocked(b *testing.B) {
	open4, open6 := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8:1:2::7")
	for _, size := range []int{0, 100, 10_000} {
		g := benchGuard(size)
		for name, addr := range map[string]netip.Addr{"ipv4": open4, "ipv6": open6} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, blocked := g.Blocked(addr); blocked {
						b.Fatal("blocked")
					}
				}
			})
		}
	}
}

// BenchmarkStep measures the read of a whole list.
func BenchmarkStep(b *testing.B) {
	for _, size := range []int{100, NetworksMax} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			db := sqltest.Open(b, sqltest.SQLite(b))
			g := NewGuard(db, clock.New(nil))
			err := db.Write(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				for i := range size {
					tx.Queue(ctx, insertBlockSQL, netip.PrefixFrom(someAddr(i), 32).String(), 1)
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Step(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// someAddr returns the i-th of addresses that are spread over all of IPv4.
func someAddr(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(i)*2654435761) // odd, so that no two are the same
	return netip.AddrFrom4(b)
}

func someAddr6(i int) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], 0x2000<<48|uint64(i)*0x9e3779b97f4a7c15>>4)
	b[15] = byte(i)
	return netip.AddrFrom16(b)
}

func wrong(t *testing.T, g *Guard, addr string, times int) {
	t.Helper()
	for range times {
		if err := g.WrongKey(t.Context(), netip.MustParseAddr(addr)); err != nil {
			t.Fatal(err)
		}
	}
}

func step(t *testing.T, g *Guard, wantDid bool) {
	t.Helper()
	if did, err := g.Step(t.Context()); err != nil || did != wantDid {
		t.Errorf("Step: %v, %v, want %v", did, err, wantDid)
	}
}

func wantBlocked(t *testing.T, g *Guard, addr string, retryAfter time.Duration) {
	t.Helper()
	if got, blocked := g.Blocked(netip.MustParseAddr(addr)); !blocked || got != retryAfter {
		t.Errorf("%s: blocked is %v for %s, want for %s", addr, blocked, got, retryAfter)
	}
}

func wantOpen(t *testing.T, g *Guard, addr string) {
	t.Helper()
	if got, blocked := g.Blocked(netip.MustParseAddr(addr)); blocked || got != 0 {
		t.Errorf("%s is blocked for %s", addr, got)
	}
}
