// Package event keeps what happened, in the transaction in which it happened: an event exists exactly when its transition
// does.
package event

import (
	"context"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Type names what happened.
type Type string

const (
	ChargeCreated Type = "charge.created" // a Pix charge exists
	ChargePaid    Type = "charge.paid"    // its payment is confirmed

	PayoutCreated   Type = "payout.created"   // a Pix payout is accepted and its money held
	PayoutCompleted Type = "payout.completed" // the recipient has it
	PayoutFailed    Type = "payout.failed"    // it was not sent, and its money is back

	CryptoPayoutProcessing Type = "crypto.payout.processing" // a crypto payout is accepted and its money held
	CryptoPayoutCompleted  Type = "crypto.payout.completed"  // its coins were sent
	CryptoPayoutFailed     Type = "crypto.payout.failed"     // they were not and never will be, and its money is back
	CryptoChargeCreated    Type = "crypto.charge.created"    // a crypto charge has its address
	CryptoChargeConfirming Type = "crypto.charge.confirming" // coins were seen on the chain
	CryptoChargePaid       Type = "crypto.charge.paid"       // its money is confirmed and posted
	CryptoChargeFailed     Type = "crypto.charge.failed"     // it went wrong
	CryptoChargeExpired    Type = "crypto.charge.expired"    // nothing came in time
)

// Event is one thing that happened.
type Event struct {
	Account id.Account
	ID      id.ID // tells when
	Type    Type
	Data    []byte // the resource as the API showed it then, JSON; kept and sent byte for byte
}

// Write stores an event in the transition's own transaction.
func Write(ctx context.Context, tx *sqldb.Tx, e Event) {
	tx.Queue(ctx, insertEvent, int64(e.Account), e.ID, string(e.Type), e.Data)
}

const insertEvent = `INSERT INTO event (account_id, id, type, data) VALUES ($1, $2, $3, $4)`
