// Package id makes and reads the identifiers of everything that Ponte stores: 128 bits, ordered by time, never the
// same twice, and safe to show.
package id

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// ID is a 128-bit identifier in the layout of a UUIDv7: 48 bits of milliseconds, 12 bits of their 4096ths, 62 random
// bits. IDs order as the moments at which they were made. The zero ID means none.
type ID [16]byte

// Max is above every identifier.
var Max = ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// IsZero reports whether x is no identifier.
func (x ID) IsZero() bool { return x == ID{} }

// Compare orders identifiers by the time at which they were made.
func (x ID) Compare(y ID) int { return bytes.Compare(x[:], y[:]) }

// Time returns the moment at which x was made, to the microsecond.
func (x ID) Time() time.Time {
	tick := tickOf(x)
	return time.UnixMicro(tick/ticksPerMilli*1000 + tick%ticksPerMilli*1000/ticksPerMilli).UTC()
}

// String returns the 26 characters of x in Crockford's base32, lower case.
func (x ID) String() string {
	var b [textLen]byte
	high, low := binary.BigEndian.Uint64(x[:8]), binary.BigEndian.Uint64(x[8:])
	for i := textLen - 1; i >= 0; i-- {
		b[i] = alphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(b[:])
}

// UUID returns x as a UUID with dashes.
func (x ID) UUID() string {
	h := hex.EncodeToString(x[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Parse reads what [ID.String] wrote.
func Parse(s string) (ID, error) {
	var x ID
	if len(s) != textLen || s[0] > '7' {
		return x, ErrSyntax
	}
	var high, low uint64
	for i := range textLen {
		v := strings.IndexByte(alphabet, s[i])
		if v < 0 {
			return ID{}, ErrSyntax
		}
		high = high<<5 | low>>59
		low = low<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(x[:8], high)
	binary.BigEndian.PutUint64(x[8:], low)
	return x, nil
}

// ParseUUID reads what [ID.UUID] wrote, in any case.
func ParseUUID(s string) (ID, error) {
	var x ID
	if len(s) != uuidLen || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return x, ErrSyntax
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != len(x) {
		return x, ErrSyntax
	}
	copy(x[:], b)
	return x, nil
}

// Value stores an ID in a database: 16 bytes, or NULL for none.
func (x ID) Value() (driver.Value, error) {
	if x.IsZero() {
		return nil, nil
	}
	return x[:], nil
}

// Scan reads an ID from a database: 16 bytes, or none.
func (x *ID) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*x = ID{}
	case []byte:
		if len(v) != len(x) {
			return fmt.Errorf("id: %d bytes in the database, want %d", len(v), len(x))
		}
		copy(x[:], v)
	case string: // a UUID with dashes
		b, err := hex.DecodeString(strings.ReplaceAll(v, "-", ""))
		if err != nil || len(b) != len(x) {
			return fmt.Errorf("id: %q in the database is no identifier", v)
		}
		copy(x[:], b)
	default:
		return fmt.Errorf("id: %T in the database is no identifier", src)
	}
	return nil
}

// ErrSyntax is returned for a text that is no identifier.
var ErrSyntax = errors.New("id: not an identifier")

const (
	alphabet      = "0123456789abcdefghjkmnpqrstvwxyz"
	textLen       = 26
	uuidLen       = 36
	ticksPerMilli = 4096
)

// Prefix says which kind of thing an identifier names.
type Prefix string

const (
	Charge       Prefix = "chg_"     // a Pix charge
	Payout       Prefix = "pyt_"     // a Pix payout
	Infraction   Prefix = "inf_"     // a claim that a payment was fraud
	CryptoPayout Prefix = "cpo_"     // a crypto withdrawal
	CryptoQuote  Prefix = "cqt_"     // what an amount was worth
	CryptoCharge Prefix = "ccr_"     // a crypto charge
	Event        Prefix = "evt_"     // something that happened
	Endpoint     Prefix = "whk_"     // where events are sent
	Request      Prefix = "req_"     // one HTTP request
	Hold         Prefix = "hld_"     // money an operator blocked
	InflowTx     Prefix = "txn_in_"  // a transaction that brought money in
	OutflowTx    Prefix = "txn_out_" // a transaction that took money out
)

// Format returns x with its prefix, as people see it.
func (p Prefix) Format(x ID) string { return string(p) + x.String() }

// Parse reads an identifier of that kind. It fails for every other kind.
func (p Prefix) Parse(s string) (ID, error) {
	rest, ok := strings.CutPrefix(s, string(p))
	if !ok {
		return ID{}, ErrSyntax
	}
	return Parse(rest)
}

// Generator makes identifiers that only ever rise within one process.
type Generator struct {
	now    func() time.Time
	random io.Reader

	mu   sync.Mutex
	tick int64  // of the last identifier
	tail uint64 // its 62 random bits
}

// NewGenerator makes identifiers from the time that now tells and the bytes that random gives. Both are called by as
// many goroutines at once as the generator is.
func NewGenerator(now func() time.Time, random io.Reader) *Generator {
	return &Generator{now: now, random: random}
}

// New returns an identifier above all that g made before.
func (g *Generator) New() ID { return g.After(ID{}) }

// After returns an identifier above floor and, unless floor is ahead of the clock, above all that g made before. A floor
// that is ahead, by another node's clock or a wrong one, does not take later identifiers along.
func (g *Generator) After(floor ID) ID {
	var b [8]byte
	if _, err := io.ReadFull(g.random, b[:]); err != nil {
		panic("id: no randomness: " + err.Error())
	}
	tail := binary.BigEndian.Uint64(b[:]) & tailMask
	tick := tickAt(g.now())

	g.mu.Lock()
	defer g.mu.Unlock()
	if tick > g.tick {
		g.tick, g.tail = tick, tail
	} else {
		g.tick, g.tail = above(g.tick, g.tail, tail) // the clock has not moved on, or runs behind
	}
	if x := build(g.tick, g.tail); x.Compare(floor) > 0 {
		return x
	}
	return build(above(tickOf(floor), tailOf(floor), tail))
}

// above counts on from an identifier by a step that cannot be guessed.
func above(tick int64, tail, random uint64) (int64, uint64) {
	tail += 1 + random>>tailStepShift
	if tail > tailMask {
		return tick + 1, random
	}
	return tick, tail
}

// First returns the smallest identifier of the moment t, which may be past or future. It names nothing: it is the
// border between what is older than t and what is not.
func First(t time.Time) ID { return build(tickAt(t), 0) }

const (
	tailMask      = 1<<62 - 1
	tailStepShift = 32 // steps of at most 2^30 leave room for 2^32 identifiers in one tick
)

func build(tick int64, tail uint64) ID {
	var x ID
	milli, sub := uint64(tick/ticksPerMilli), uint64(tick%ticksPerMilli)
	binary.BigEndian.PutUint64(x[:8], milli<<16|0x7000|sub)
	binary.BigEndian.PutUint64(x[8:], 1<<63|tail)
	return x
}

// tickAt returns t in 4096ths of a millisecond, rounded up so that [ID.Time] gives back the same microsecond.
func tickAt(t time.Time) int64 {
	micro := max(0, t.UnixMicro())
	return micro/1000*ticksPerMilli + (micro%1000*ticksPerMilli+999)/1000
}

func tickOf(x ID) int64 {
	v := binary.BigEndian.Uint64(x[:8])
	return int64(v>>16)*ticksPerMilli + int64(v&0xfff)
}

func tailOf(x ID) uint64 { return binary.BigEndian.Uint64(x[8:]) & tailMask }
