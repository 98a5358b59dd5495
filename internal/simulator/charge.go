package simulator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// chargeStatus is what an acquirer says about a charge. There is none for expired: who asks has to reckon.
type chargeStatus uint8

const (
	chargeActive        chargeStatus = iota // waits for its payment
	chargeDone                              // paid
	chargeRemovedByUser                     // taken back by the receiver
	chargeRemovedByBank                     // taken back by the acquirer
)

var chargeStatusNames = [...]string{
	chargeActive:        "ATIVA",
	chargeDone:          "CONCLUIDA",
	chargeRemovedByUser: "REMOVIDA_PELO_USUARIO_RECEBEDOR",
	chargeRemovedByBank: "REMOVIDA_PELO_PSP",
}

func (s chargeStatus) String() string { return chargeStatusNames[s] }

// isRemoved reports whether nobody can pay the charge any more.
func (s chargeStatus) isRemoved() bool { return s == chargeRemovedByUser || s == chargeRemovedByBank }

// txID is a charge's txid, zeros behind it. The zero one is nobody's.
type txID [35]byte

func toTxID(s string) (t txID) {
	if len(s) <= len(t) {
		copy(t[:], s)
	}
	return t
}

func (t txID) String() string {
	n := len(t)
	for n > 0 && t[n-1] == 0 {
		n--
	}
	return string(t[:n])
}

// charge is what is kept in memory of a charge, which is what searches need; the rest is in its record. It has no
// pointers, and no room is lost between its fields.
type charge struct {
	txID     txID
	status   chargeStatus
	expires  int32 // seconds after created
	amount   money.BRL
	created  int64  // in milliseconds
	at       int64  // of its latest record
	size     int32  // of its latest record
	revision uint16 // changes so far
	flexible bool   // the payer may change the amount
	first    uint32 // its first payment's place + 1; 0 for none
	last     uint32 // its last payment's place + 1; 0 for none
}

func (c *charge) record() extent { return extent{c.at, c.size} }

// chargeRecord is the whole of a charge after it was created or changed.
type chargeRecord struct {
	Acquirer int          `json:"acquirer"`
	TxID     string       `json:"txid"`
	Revision uint16       `json:"revision,omitempty"`
	Status   chargeStatus `json:"status,omitempty"`
	Centavos int64        `json:"centavos"`
	Flexible bool         `json:"flexible,omitempty"`
	Created  int64        `json:"created"` // in milliseconds
	Expires  int32        `json:"expires"` // seconds after Created
	Debtor   *debtor      `json:"debtor,omitempty"`
	Request  string       `json:"request,omitempty"` // what the payer is asked
	Info     []infoItem   `json:"info,omitempty"`
	Before   *extentJSON  `json:"before,omitempty"` // the record that this one replaces
}

// AppendJSON writes the record as encoding/json would.
func (r *chargeRecord) AppendJSON(to []byte) []byte {
	to = plainjson.AppendNumber(to, `{"acquirer":`, r.Acquirer)
	to = plainjson.AppendMember(to, `,"txid":`, r.TxID)
	if r.Revision != 0 {
		to = plainjson.AppendNumber(to, `,"revision":`, r.Revision)
	}
	if r.Status != 0 {
		to = plainjson.AppendNumber(to, `,"status":`, int(r.Status))
	}
	to = plainjson.AppendNumber(to, `,"centavos":`, r.Centavos)
	if r.Flexible {
		to = append(to, `,"flexible":true`...)
	}
	to = plainjson.AppendNumber(to, `,"created":`, r.Created)
	to = plainjson.AppendNumber(to, `,"expires":`, r.Expires)
	if r.Debtor != nil {
		to = r.Debtor.AppendJSON(append(to, `,"debtor":`...))
	}
	to = plainjson.AppendOptional(to, `,"request":`, r.Request)
	to = plainjson.AppendList(to, `,"info":`, r.Info, (*infoItem).AppendJSON)
	if r.Before != nil {
		to = plainjson.AppendNumber(to, `,"before":{"at":`, r.Before.At)
		to = append(plainjson.AppendNumber(to, `,"size":`, r.Before.Size), '}')
	}
	return append(to, '}')
}

func (r *chargeRecord) amount() money.BRL { return money.BRL(r.Centavos) }

// extentJSON is an extent as it is written down.
type extentJSON struct {
	At   int64 `json:"at"`
	Size int32 `json:"size"`
}

// debtor is who is billed, not who pays.
type debtor struct {
	CPF  string `json:"cpf,omitempty"`
	CNPJ string `json:"cnpj,omitempty"`
	Name string `json:"nome"`
}

func (d *debtor) AppendJSON(to []byte) []byte {
	to = append(to, '{')
	if d.CPF != "" {
		to = append(plainjson.AppendMember(to, `"cpf":`, d.CPF), ',')
	}
	if d.CNPJ != "" {
		to = append(plainjson.AppendMember(to, `"cnpj":`, d.CNPJ), ',')
	}
	return append(plainjson.AppendMember(to, `"nome":`, d.Name), '}')
}

// infoItem is one of a charge's further facts for the payer.
type infoItem struct {
	Name  string `json:"nome"`
	Value string `json:"valor"`
}

func (i *infoItem) AppendJSON(to []byte) []byte {
	to = plainjson.AppendMember(to, `{"nome":`, i.Name)
	return append(plainjson.AppendMember(to, `,"valor":`, i.Value), '}')
}

// setCharge creates a charge or takes over its change.
func (k *book) setCharge(where extent, r *chargeRecord) error {
	key := toTxID(r.TxID)
	if len(r.TxID) > len(key) || strings.HasSuffix(r.TxID, "\x00") || int(r.Status) >= len(chargeStatusNames) {
		return fmt.Errorf("charge %q, status %d: not a charge", r.TxID, r.Status)
	}
	place, found := k.byTxID[key]
	if !found {
		place = k.charges.add(charge{txID: key, created: r.Created})
		k.byTxID[key] = place
	}
	c := k.charges.at(place)
	c.status, c.expires, c.amount, c.revision, c.flexible = r.Status, r.Expires, r.amount(), r.Revision, r.Flexible
	c.at, c.size = where.at, where.size
	return nil
}

// Why a charge is not created or changed.
var (
	errChargeExists  = errors.New("simulator: there is a charge with this txid")
	errNoCharge      = errors.New("simulator: no such charge")
	errNotActive     = errors.New("simulator: the charge is not active any more")
	errRevisionLimit = errors.New("simulator: the charge was changed too often")
)

// chargeView is a charge as it stood at one moment.
type chargeView struct {
	charge
	acquirer int
	place    uint32
	payments []paymentView
}

// expiresAt returns when the charge stops being payable. Its status does not change then.
func (v *chargeView) expiresAt() time.Time {
	return time.UnixMilli(v.created).UTC().Add(time.Duration(v.expires) * time.Second)
}

// view returns the charge at a place with its payments. The caller holds the books' lock.
func (b *books) view(acquirer int, place uint32) chargeView {
	k := b.book[acquirer]
	v := chargeView{charge: *k.charges.at(place), acquirer: acquirer, place: place}
	for next := v.first; next != 0; next = k.payments.at(next - 1).next {
		v.payments = append(v.payments, b.viewPayment(acquirer, next-1))
	}
	return v
}

// createCharge stores a charge that waits for its payment. An empty txid means that the acquirer chooses one. It fails
// with errChargeExists.
func (b *books) createCharge(r *chargeRecord) (chargeView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[r.Acquirer]
	if r.TxID == "" {
		r.TxID = b.draw(16)
	}
	if _, found := k.byTxID[toTxID(r.TxID)]; found {
		return chargeView{}, errChargeExists
	}
	r.Created = b.now()
	if err := b.write(&record{Charge: r}); err != nil {
		return chargeView{}, err
	}
	return b.view(r.Acquirer, k.charges.count-1), nil
}

// findCharge returns a charge with its latest record.
func (b *books) findCharge(acquirer int, txid string) (chargeView, *chargeRecord, error) {
	v, err := b.chargeByTxID(acquirer, txid)
	if err != nil {
		return chargeView{}, nil, err
	}
	r, err := b.readCharge(v.record())
	return v, r, err
}

func (b *books) chargeByTxID(acquirer int, txid string) (chargeView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[acquirer].byTxID[toTxID(txid)]
	if !found {
		return chargeView{}, errNoCharge
	}
	return b.view(acquirer, place), nil
}

// chargeByToken returns the charge that a location names.
func (b *books) chargeByToken(token string) (chargeView, error) {
	acquirer, place, ok := b.placeOf(token)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok || acquirer >= len(b.book) || place >= b.book[acquirer].charges.count {
		return chargeView{}, errNoCharge
	}
	return b.view(acquirer, place), nil
}

// readCharge reads a charge's record.
func (b *books) readCharge(where extent) (*chargeRecord, error) {
	r, err := b.journal.read(where)
	switch {
	case err != nil:
		return nil, err
	case r.Charge == nil:
		return nil, fmt.Errorf("simulator: no charge at byte %d", where.at)
	}
	return r.Charge, nil
}

// readRevision returns the record that a charge had as its n-th revision. It fails with errNoCharge.
func (b *books) readRevision(latest *chargeRecord, n int) (*chargeRecord, error) {
	for int(latest.Revision) > n && latest.Before != nil {
		before, err := b.readCharge(extent{latest.Before.At, latest.Before.Size})
		if err != nil {
			return nil, err
		}
		latest = before
	}
	if int(latest.Revision) != n {
		return nil, errNoCharge
	}
	return latest, nil
}

// changeCharge changes an active charge by edit, which may refuse. It fails with errNoCharge, errNotActive,
// errRevisionLimit, or with what edit returns.
func (b *books) changeCharge(acquirer int, txid string, edit func(v *chargeView, r *chargeRecord) (revise bool, err error)) (chargeView, *chargeRecord, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[acquirer].byTxID[toTxID(txid)]
	if !found {
		return chargeView{}, nil, errNoCharge
	}
	v := b.view(acquirer, place)
	if v.status != chargeActive {
		return chargeView{}, nil, errNotActive
	}
	r, err := b.readCharge(v.record())
	if err != nil {
		return chargeView{}, nil, err
	}
	revise, err := edit(&v, r)
	if err != nil {
		return chargeView{}, nil, err
	}
	if revise {
		if r.Revision++; r.Revision == 0 {
			return chargeView{}, nil, errRevisionLimit
		}
	}
	r.Before = &extentJSON{v.at, v.size}
	if err := b.write(&record{Charge: r}); err != nil {
		return chargeView{}, nil, err
	}
	return b.view(acquirer, place), r, nil
}
