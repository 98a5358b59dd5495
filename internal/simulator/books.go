package simulator

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// acquirerNames are the acquirers of this world, the preferred one first. The journal knows them by their places here.
var acquirerNames = [...]string{"alpha", "beta"}

// AcquirerNames returns the names of the acquirers of every world, the preferred one first.
func AcquirerNames() []string { return acquirerNames[:] }

// openingBalance is what each acquirer begins with.
const openingBalance money.BRL = 10_000_000_00

// fileName is the journal's.
const fileName = "simulator.db"

// worldRecord is the first record: what was drawn once and for all.
type worldRecord struct {
	Version   int              `json:"version"`
	Locations string           `json:"locations"` // hexadecimal key under which charges' places are hidden in their locations
	Tokens    string           `json:"tokens"`    // hexadecimal key that signs access tokens
	Acquirers []identityRecord `json:"acquirers"` // in the order of acquirerNames
}

const worldVersion = 1

// identityRecord is what a client needs to use an acquirer.
type identityRecord struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Key          string `json:"key"` // the Pix key that charges pay
}

// portRecord is an acquirer's port, which it tries to get again after a restart.
type portRecord struct {
	Acquirer int `json:"acquirer"`
	Port     int `json:"port"`
}

// clockRecord is how far business time was moved in all.
type clockRecord struct {
	Offset time.Duration `json:"offset"`
}

// books are the books of both acquirers in one journal. Whatever changes them is written down first.
type books struct {
	clock *clock.Clock

	mu      sync.Mutex
	random  io.Reader
	journal *journal
	world   *worldRecord
	offset  time.Duration // of the clock, as it was last written
	latest  int64         // the latest moment in the books; business time never goes back in them
	book    [len(acquirerNames)]*book

	locations cipher.Block

	chain *chainworld.World // whose entries stand in the journal too
}

// book is the books of one acquirer.
type book struct {
	port     int
	charges  slab[charge]
	byTxID   map[txID]uint32
	payments slab[payment]
	recent   [recentMax]*paymentRecord // of the last payments, by the rests of their places
	byE2E    map[endToEndID]uint32
	refunds  map[uint32][]refund // by the place of their payment
	loose    map[uint32]string   // txids, perhaps empty, of payments that belong to no charge
	balance  money.BRL
	webhook  webhook
	payoutBook
	infractionBook
}

func openBooks(o Options, faults *faultRules) (*books, error) {
	b := &books{clock: o.Clock, random: o.Random}
	b.chain = newChain(o, faults, func() *books { return b })
	for i := range b.book {
		b.book[i] = &book{
			byTxID: map[txID]uint32{}, byE2E: map[endToEndID]uint32{}, refunds: map[uint32][]refund{}, loose: map[uint32]string{},
			balance: openingBalance, payoutBook: newPayoutBook(), infractionBook: newInfractionBook(),
		}
	}
	var err error
	if b.journal, err = openJournal(filepath.Join(o.Data, fileName), b.apply); err != nil {
		return nil, err
	}
	if err := b.begin(); err != nil {
		_ = b.journal.close()
		return nil, err
	}
	return b, nil
}

// begin makes the world on the first start, and brings the clock to where it was on any other.
func (b *books) begin() error {
	if b.world == nil {
		if err := b.write(&record{World: b.newWorld()}); err != nil {
			return err
		}
	}
	key, err := hex.DecodeString(b.world.Locations)
	if err != nil {
		return fmt.Errorf("simulator: locations key: %w", err)
	}
	if b.locations, err = aes.NewCipher(key); err != nil {
		return fmt.Errorf("simulator: locations key: %w", err)
	}
	b.clock.Raise(b.offset)
	if offset := b.clock.Offset(); offset > b.offset {
		return b.write(&record{Clock: &clockRecord{offset}})
	}
	return nil
}

func (b *books) newWorld() *worldRecord {
	w := &worldRecord{Version: worldVersion, Locations: b.draw(aes.BlockSize), Tokens: b.draw(tokenKeyLen)}
	for _, name := range acquirerNames {
		// Their Pix keys are random UUIDs, as banks give them.
		w.Acquirers = append(w.Acquirers, identityRecord{
			ClientID: "Client_Id_" + name + "_" + b.draw(8), ClientSecret: "Client_Secret_" + name + "_" + b.draw(16), Key: b.drawUUID(),
		})
	}
	return w
}

// draw returns n random bytes in hexadecimal.
func (b *books) draw(n int) string {
	buffer := make([]byte, n)
	b.fill(buffer)
	return hex.EncodeToString(buffer)
}

// fill fills the buffer with random bytes. The caller holds mu, or is alone.
func (b *books) fill(buffer []byte) {
	if _, err := io.ReadFull(b.random, buffer); err != nil {
		panic("simulator: no randomness: " + err.Error())
	}
}

// lockAndFill is fill for everybody else.
func (b *books) lockAndFill(buffer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(buffer)
}

// now returns business time in milliseconds, never less than what the books know. The caller holds mu.
func (b *books) now() int64 { return max(b.latest, b.clock.Now().UnixMilli()) }

// write writes a record down and does what it says. The caller holds mu, or is alone.
func (b *books) write(r *record) error {
	where, err := b.journal.append(r)
	if err != nil {
		return err
	}
	return b.apply(where, r)
}

var errUnknownRecord = errors.New("not a record that this version knows")

// apply does what a record says. It is the only door into the books, for what happens now and for what is replayed.
func (b *books) apply(where extent, r *record) error {
	if b.world == nil && r.World == nil {
		return errors.New("not the books of a simulator")
	}
	switch {
	case r.World != nil:
		if r.World.Version != worldVersion || len(r.World.Acquirers) != len(acquirerNames) {
			return fmt.Errorf("version %d with %d acquirers, want %d with %d",
				r.World.Version, len(r.World.Acquirers), worldVersion, len(acquirerNames))
		}
		b.world = r.World
		return nil
	case r.Clock != nil:
		b.offset = max(b.offset, r.Clock.Offset)
		return nil
	case r.Crypto != nil:
		return b.chain.Apply(r.Crypto)
	}
	acquirer, at := r.subject()
	if acquirer < 0 || acquirer >= len(b.book) {
		return fmt.Errorf("no acquirer has number %d", acquirer)
	}
	b.latest = max(b.latest, at)
	return b.book[acquirer].apply(where, r)
}

// subject returns whose book a record changes, and when it happened; 0 if that does not count.
func (r *record) subject() (acquirer int, at int64) {
	switch {
	case r.Port != nil:
		return r.Port.Acquirer, 0
	case r.Webhook != nil:
		return r.Webhook.Acquirer, 0
	case r.Charge != nil:
		return r.Charge.Acquirer, r.Charge.Created
	case r.Payment != nil:
		return r.Payment.Acquirer, r.Payment.At
	case r.Refund != nil:
		return r.Refund.Acquirer, r.Refund.At
	case r.Payout != nil:
		return r.Payout.Acquirer, r.Payout.At
	case r.PayoutEnd != nil:
		return r.PayoutEnd.Acquirer, r.PayoutEnd.At
	case r.PayoutReturn != nil:
		return r.PayoutReturn.Acquirer, r.PayoutReturn.At
	case r.Infraction != nil:
		return r.Infraction.Acquirer, r.Infraction.At
	case r.Defense != nil:
		return r.Defense.Acquirer, r.Defense.At
	case r.Verdict != nil:
		return r.Verdict.Acquirer, r.Verdict.At
	}
	return 0, 0
}

// apply does what a record says to the acquirer whose book it is.
func (k *book) apply(where extent, r *record) error {
	switch {
	case r.Port != nil:
		k.port = r.Port.Port
		return nil
	case r.Webhook != nil:
		k.setWebhook(r.Webhook)
		return nil
	case r.Charge != nil:
		return k.setCharge(where, r.Charge)
	case r.Payment != nil:
		return k.addPayment(where, r.Payment)
	case r.Refund != nil:
		return k.addRefund(r.Refund)
	case r.Payout != nil:
		return k.addPayout(where, r.Payout)
	case r.PayoutEnd != nil:
		return k.endPayout(r.PayoutEnd)
	case r.PayoutReturn != nil:
		return k.returnPayout(r.PayoutReturn)
	case r.Infraction != nil:
		return k.addInfraction(r.Infraction)
	case r.Defense != nil:
		return k.addDefense(r.Defense)
	case r.Verdict != nil:
		return k.addVerdict(r.Verdict)
	}
	return errUnknownRecord
}

// setPort writes down an acquirer's port.
func (b *books) setPort(acquirer, port int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.book[acquirer].port == port {
		return nil
	}
	return b.write(&record{Port: &portRecord{acquirer, port}})
}

// setOffset writes down how far the clock was moved.
func (b *books) setOffset(offset time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(&record{Clock: &clockRecord{offset}})
}

func (b *books) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal.close()
}

// locationMagic tells a charge's place from what somebody made up.
var locationMagic = [8]byte{'l', 'o', 'c', 'a', 't', 'i', 'o', 'n'}

// token hides the place of a charge in 32 characters that tell nothing, so that no index of them is needed.
func (b *books) token(acquirer int, place uint32) string {
	text := b.hide(acquirer, place)
	return string(text[:])
}

// hide reckons a token. It is an array, so that a location takes no memory but its own.
func (b *books) hide(acquirer int, place uint32) (text [2 * aes.BlockSize]byte) {
	var block [aes.BlockSize]byte
	copy(block[:], locationMagic[:])
	binary.BigEndian.PutUint32(block[8:], uint32(acquirer))
	binary.BigEndian.PutUint32(block[12:], place)
	b.locations.Encrypt(block[:], block[:])
	hex.Encode(text[:], block[:])
	return text
}

// placeOf returns the place of the charge that a token hides.
func (b *books) placeOf(token string) (acquirer int, place uint32, ok bool) {
	var block [aes.BlockSize]byte
	if len(token) != hex.EncodedLen(len(block)) {
		return 0, 0, false
	}
	if _, err := hex.Decode(block[:], []byte(token)); err != nil {
		return 0, 0, false
	}
	b.locations.Decrypt(block[:], block[:])
	if [8]byte(block[:8]) != locationMagic {
		return 0, 0, false
	}
	return int(binary.BigEndian.Uint32(block[8:])), binary.BigEndian.Uint32(block[12:]), true
}
