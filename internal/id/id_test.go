package id

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 123_456_000, time.UTC)

// constant is a source of randomness that always gives the same byte.
type constant byte

func (c constant) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c)
	}
	return len(b), nil
}

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func TestText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		id         ID
		text, uuid string
	}{
		{ID{}, "00000000000000000000000000", "00000000-0000-0000-0000-000000000000"},
		{ID(bytes.Repeat([]byte{0xff}, 16)), "7zzzzzzzzzzzzzzzzzzzzzzzzz", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
		{ID{15: 1}, "00000000000000000000000001", "00000000-0000-0000-0000-000000000001"},
		{ID{0: 0x80}, "40000000000000000000000000", "80000000-0000-0000-0000-000000000000"},
		{ID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x7c, 0xde, 0x80, 0, 0, 0, 0, 0, 0, 0x2a}, "014d2pf2dbfkf800000000001a", "01234567-89ab-7cde-8000-00000000002a"},
	}
	for _, tt := range tests {
		if got := tt.id.String(); got != tt.text {
			t.Errorf("%x is written %s, want %s", tt.id[:], got, tt.text)
		}
		if got := tt.id.UUID(); got != tt.uuid {
			t.Errorf("%x is the UUID %s, want %s", tt.id[:], got, tt.uuid)
		}
		if got, err := Parse(tt.text); got != tt.id || err != nil {
			t.Errorf("Parse(%s) = %x, %v", tt.text, got[:], err)
		}
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	x := NewGenerator(at(noon), constant(0xff)).New()
	// 0x018df4bc567b is noon in milliseconds; 0.456 of the next is 0x74c of 0xfff; then the version, the variant, the tail.
	if got, want := x.UUID(), "018df4bc-567b-774c-bfff-ffffffffffff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const valid = "01hqtga4yvex6bzzzzzzzzzzzz"
	if _, err := Parse(valid); err != nil {
		t.Fatalf("Parse(%s): %v", valid, err)
	}
	bad := []string{
		"", valid[1:], valid + "0", "8" + valid[1:], strings.ToUpper(valid), " " + valid[1:], "/" + valid[1:],
		"chg_" + valid, strings.Repeat("é", len(valid)/2),
	}
	for _, c := range "ilou-_\x00" {
		bad = append(bad, valid[:10]+string(c)+valid[11:])
	}
	for _, s := range bad {
		if got, err := Parse(s); !errors.Is(err, ErrSyntax) || !got.IsZero() {
			t.Errorf("Parse(%q) = %v, %v", s, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("01hqtga4yvex6bzzzzzzzzzzzz", make([]byte, 16))
	f.Add("7zzzzzzzzzzzzzzzzzzzzzzzzz", bytes.Repeat([]byte{0xff}, 16))
	f.Add("80000000000000000000000000", []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, s string, b []byte) {
		if x, err := Parse(s); err == nil && x.String() != s {
			t.Errorf("%q is %x, which is written %q", s, x[:], x)
		}
		if len(b) != 16 {
			return
		}
		x := ID(b)
		if y, err := Parse(x.String()); y != x || err != nil {
			t.Errorf("%x is written %q, which is %x, %v", x[:], x, y[:], err)
		}
		if y := (ID{}); y.Scan(x.UUID()) != nil || y != x {
			t.Errorf("%x is the UUID %s, which is %x", x[:], x.UUID(), y[:])
		}
	})
}

func TestTextOrder(t *testing.T) {
	t.Parallel()
	var ids []ID
	for range 1000 {
		var x ID
		_, _ = rand.Read(x[:])
		ids = append(ids, x)
	}
	slices.SortFunc(ids, ID.Compare)
	for i := 1; i < len(ids); i++ {
		if ids[i-1].String() >= ids[i].String() || bytes.Compare(ids[i-1][:], ids[i][:]) >= 0 {
			t.Fatalf("%v is not below %v", ids[i-1], ids[i])
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	x := NewGenerator(at(noon), rand.Reader).New()
	s := InflowTx.Format(x)
	if want := "txn_in_" + x.String(); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got, err := InflowTx.Parse(s); got != x || err != nil {
		t.Errorf("Parse(%s) = %v, %v", s, got, err)
	}
	for _, bad := range []string{OutflowTx.Format(x), x.String(), s[:len(s)-1], "TXN_IN_" + x.String(), "txn_in_", ""} {
		if got, err := InflowTx.Parse(bad); !errors.Is(err, ErrSyntax) || !got.IsZero() {
			t.Errorf("Parse(%q) = %v, %v", bad, got, err)
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	want := NewGenerator(at(noon), rand.Reader).New()
	stored, err := want.Value()
	if b, ok := stored.([]byte); err != nil || !ok || !bytes.Equal(b, want[:]) {
		t.Errorf("Value() = %v, %v", stored, err)
	}
	if stored, err := (ID{}).Value(); stored != nil || err != nil {
		t.Errorf("none is stored as %v, %v", stored, err)
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	want := NewGenerator(at(noon), rand.Reader).New()
	for _, src := range []any{want[:], want.UUID(), strings.ReplaceAll(want.UUID(), "-", "")} {
		var got ID
		if err := got.Scan(src); err != nil || got != want {
			t.Errorf("Scan(%v) = %v, %v", src, got, err)
		}
	}
	got := want
	if err := got.Scan(nil); err != nil || !got.IsZero() {
		t.Errorf("Scan(nil) = %v, %v", got, err)
	}
	for _, src := range []any{want[:15], append(want[:], 0), []byte{}, "", "x", want.UUID()[1:], 7, time.Time{}} {
		got := want
		if err := got.Scan(src); err == nil || got != want {
			t.Errorf("Scan(%v) = %v, %v", src, got, err)
		}
	}
}

func TestTimeRoundTrip(t *testing.T) {
	t.Parallel()
	moments := []time.Time{time.UnixMicro(0), noon, noon.Add(999), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)}
	for micro := range 1000 {
		moments = append(moments, noon.Truncate(time.Millisecond).Add(time.Duration(micro)*time.Microsecond))
	}
	for range 1000 {
		moments = append(moments, time.UnixMicro(mathrand.Int64N(noon.UnixMicro()*4)))
	}
	for _, want := range moments {
		for _, random := range []io.Reader{constant(0), constant(0xff)} {
			x := NewGenerator(at(want), random).New()
			if got := x.Time(); !got.Equal(want.Truncate(time.Microsecond)) || got.Location() != time.UTC {
				t.Fatalf("made at %v, says %v", want, got)
			}
		}
	}
	if got := First(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)).Time(); !got.Equal(time.UnixMicro(0)) {
		t.Errorf("before 1970: got %v", got)
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	for micro := range 2000 {
		now := noon.Add(time.Duration(micro) * time.Microsecond)
		first := First(now)
		for _, random := range []io.Reader{constant(0), constant(0xff)} {
			if x := NewGenerator(at(now), random).New(); x.Compare(first) < 0 {
				t.Fatalf("%v was made at %v and is below %v", x, now, first)
			}
			earlier := NewGenerator(at(now.Add(-time.Microsecond)), random)
			for range 3 {
				if x := earlier.New(); x.Compare(first) >= 0 {
					t.Fatalf("%v was made before %v and is not below %v", x, now, first)
				}
			}
		}
	}
}

func TestNewRises(t *testing.T) {
	t.Parallel()
	clocks := map[string]func() func() time.Time{
		"moving": func() func() time.Time {
			n := noon
			return func() time.Time { n = n.Add(300 * time.Nanosecond); return n }
		},
		"standing": func() func() time.Time { return at(noon) },
		"running back": func() func() time.Time {
			n := noon
			return func() time.Time { n = n.Add(-time.Millisecond); return n }
		},
		"at zero": func() func() time.Time { return at(time.UnixMicro(0)) },
	}
	for name, now := range clocks {
		for _, random := range []io.Reader{constant(0), constant(0x80), constant(0xff), rand.Reader} {
			g := NewGenerator(now(), random)
			var last ID
			for i := range 5000 {
				x := g.New()
				if x.Compare(last) <= 0 {
					t.Fatalf("%s: id %d, %v, is not above %v", name, i, x, last)
				}
				if x[6]>>4 != 7 || x[8]>>6 != 2 {
					t.Fatalf("%s: %s is no UUIDv7", name, x.UUID())
				}
				last = x
			}
		}
	}
}

func TestNewConcurrently(t *testing.T) {
	t.Parallel()
	const makers, each = 8, 2000
	g := NewGenerator(at(noon), rand.Reader)
	made := make([][]ID, makers)
	var wg sync.WaitGroup
	for m := range makers {
		wg.Go(func() {
			for i := range each {
				if i%2 == 0 {
					made[m] = append(made[m], g.New())
				} else {
					made[m] = append(made[m], g.After(made[m][i-1]))
				}
			}
		})
	}
	wg.Wait()
	seen := map[ID]bool{}
	for _, ids := range made {
		for i, x := range ids {
			if i > 0 && x.Compare(ids[i-1]) <= 0 {
				t.Fatalf("%v was made after %v and is not above it", x, ids[i-1])
			}
			if seen[x] {
				t.Fatalf("%v was made twice", x)
			}
			seen[x] = true
		}
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	random := mathrand.NewChaCha8([32]byte{1})
	tick := tickAt(noon)
	g := NewGenerator(at(noon), random)
	var last ID // above which every floor is, as in one transaction
	for i := range 20_000 {
		// Near the generator's own ticks, before and after the clock, and at the ends of a tick.
		tail := []uint64{0, 1, tailMask, tailMask - 1, mathrand.Uint64() & tailMask, tailOf(last), tailOf(last) + 1}[i%7] & tailMask
		floor := build(tick+mathrand.Int64N(5)-2+int64(i/100), tail)
		if floor.Compare(last) < 0 {
			floor = last
		}
		x := g.After(floor)
		if x.Compare(floor) <= 0 {
			t.Fatalf("%s is not above its floor %s", x.UUID(), floor.UUID())
		}
		if x.Compare(last) <= 0 {
			t.Fatalf("%s is not above the one before, %s", x.UUID(), last.UUID())
		}
		last = x
	}
}

// A floor from a clock that is ahead dates one identifier, not all that follow.
func TestAfterTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	g := NewGenerator(at(noon), rand.Reader)
	before := g.New()
	ahead := First(noon.AddDate(1, 0, 0))
	if x := g.After(ahead); x.Compare(ahead) <= 0 {
		t.Errorf("%v is not above its floor", x)
	}
	next := g.New()
	if next.Compare(before) <= 0 || !next.Time().Equal(noon) {
		t.Errorf("the next identifier is of %v", next.Time())
	}
}

// TestAfterIsNoGuess fails when an id that must be above a floor is always the very next one.
func TestAfterIsNoGuess(t *testing.T) {
	t.Parallel()
	for _, tail := range []uint64{5, tailMask / 2} {
		g := NewGenerator(at(noon), rand.Reader)
		g.tick, g.tail = tickAt(noon), 0
		if x := g.After(build(tickAt(noon), tail)); tailOf(x) == tail+1 {
			t.Errorf("the id after %d is the next", tail)
		}
	}
}

func TestNoRandomness(t *testing.T) {
	t.Parallel()
	broken := iotest.ErrReader(errors.New("no entropy"))
	for name, draw := range map[string]func(){
		"New":        func() { NewGenerator(at(noon), broken).New() },
		"NewAccount": func() { NewAccount(broken) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s went on without randomness", name)
				}
			}()
			draw()
		}()
	}
}

func TestParseUUID(t *testing.T) {
	t.Parallel()
	x := NewGenerator(at(noon), rand.Reader).New()
	for _, s := range []string{x.UUID(), strings.ToUpper(x.UUID())} {
		if got, err := ParseUUID(s); err != nil || got != x {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	u := x.UUID()
	for _, s := range []string{"", x.String(), u + "0", u[1:], strings.ReplaceAll(u, "-", ""), strings.Replace(u, "-", "0", 1), "g" + u[1:], "{" + u + "}", "-" + strings.Replace(u, "-", "0", 1)[1:]} {
		if got, err := ParseUUID(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
