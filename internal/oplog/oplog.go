// Package oplog keeps who changed what, and why: each entry is written with the change itself, and none is ever changed.
//
// Who acts travels in the context, because every edge knows it in one place and every use case would only hand it on. What
// somebody else has to do, such as an acquirer, is written before it is asked for: it may happen although nobody answers.
package oplog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Kind is by which way something was done.
type Kind string

const (
	Person  Kind = "person" // somebody who is signed in
	Command Kind = "cli"    // the command line
	System  Kind = "system" // the service itself; also what nobody is named for
)

// Actor is who does something.
type Actor struct {
	Kind Kind
	Name string // a person's address, or the user of the command line; "" for the service
}

// String returns the actor as people read it: ana@example.com, cli:root, system.
func (a Actor) String() string {
	switch {
	case a.Kind == Person:
		return a.Name
	case a.Name == "":
		return string(a.Kind)
	}
	return string(a.Kind) + ":" + a.Name
}

type actorKey struct{}

// As returns a context in which everything is done by a.
func As(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

// Who returns who acts in ctx; that is the service itself when nobody was named.
func Who(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Kind: System}
}

// Action is what was done.
type Action string

const (
	AccountCreate     Action = "account.create"     // an account with its first key
	AccountSet        Action = "account.set"        // settings, status and limits included
	AccountAdjust     Action = "account.adjust"     // a credit or a debit by hand
	AccountHold       Action = "account.hold"       // money blocked for review
	AccountRelease    Action = "account.release"    // a hold that ended
	KeyCreate         Action = "key.create"         // an API key
	KeyRevoke         Action = "key.revoke"         // the end of one
	IPBlock           Action = "ip.block"           // a network that is refused for good
	IPUnblock         Action = "ip.unblock"         // the end of such a block
	EndpointCreate    Action = "endpoint.create"    // where events are sent
	EndpointDisable   Action = "endpoint.disable"   // nothing more is sent
	EndpointEnable    Action = "endpoint.enable"    // it is again
	EndpointDelete    Action = "endpoint.delete"    // it is taken away
	EndpointRotate    Action = "endpoint.rotate"    // a new secret
	EndpointSubscribe Action = "endpoint.subscribe" // other types of events
	EventRedeliver    Action = "event.redeliver"    // an event, or those of a time, sent again
	ChargeCancel      Action = "charge.cancel"      // a charge that its acquirer is asked to remove
	PayoutSend        Action = "payout.send"        // money sent by hand
	WithdrawalSend    Action = "withdrawal.send"    // coins sent by hand
	ChargeDismiss     Action = "charge.dismiss"     // a payment that belongs to no charge, and needs nothing more
	InfractionDismiss Action = "infraction.dismiss" // an infraction of such a payment, likewise
	DepositDismiss    Action = "deposit.dismiss"    // a payment at the crypto provider, likewise
	AcquirerOff       Action = "acquirer.off"       // it is given nothing new
	AcquirerOn        Action = "acquirer.on"        // it is again
	AuditRun          Action = "audit.run"          // the ledgers added up on demand

	PersonInvite       Action = "person.invite"       // a one-time link for somebody to come in
	PersonJoin         Action = "person.join"         // somebody came in by such a link
	PersonReset        Action = "person.reset"        // a one-time link for a new password
	PersonRemove       Action = "person.remove"       // out of every account
	PersonRole         Action = "person.role"         // what somebody is in an account
	PersonExpel        Action = "person.expel"        // out of one account
	InvitationWithdraw Action = "invitation.withdraw" // a link that no longer works
)

// Actions are all of them.
var Actions = []Action{
	AccountCreate, AccountSet, AccountAdjust, AccountHold, AccountRelease, KeyCreate, KeyRevoke, IPBlock, IPUnblock,
	EndpointCreate, EndpointDisable, EndpointEnable, EndpointDelete, EndpointRotate, EndpointSubscribe, EventRedeliver,
	ChargeCancel, PayoutSend, WithdrawalSend, ChargeDismiss, InfractionDismiss, DepositDismiss, AcquirerOff, AcquirerOn, AuditRun,
	PersonInvite, PersonJoin, PersonReset, PersonRemove, PersonRole, PersonExpel, InvitationWithdraw,
}

// Fields say what something is, in texts that people read. Secrets are never among them.
type Fields map[string]string

// Entry is one thing that was done.
type Entry struct {
	ID      id.ID // tells when
	Actor   Actor
	Action  Action
	Account id.Account // whose it is about; 0 for nobody's
	Subject string     // on what, by its public name
	Before  Fields     // what it was; nil for nothing
	After   Fields     // what it became, or was asked to become; nil for nothing
	Reason  string     // in the actor's words; "" when not told
}

// Begin returns e with its identifier and who acts in ctx. It comes before the transaction, so that a second run after a
// lost COMMIT writes the same entry and not another.
func Begin(ctx context.Context, ids *id.Generator, e Entry) *Entry {
	e.ID, e.Actor = ids.New(), Who(ctx)
	return &e
}

// Write stores the entry in the transaction of what it tells of.
func (e *Entry) Write(ctx context.Context, tx *sqldb.Tx) {
	var account, reason any
	if e.Account != 0 {
		account = int64(e.Account)
	}
	if e.Reason != "" {
		reason = e.Reason
	}
	tx.Queue(ctx, insertEntry, e.ID, string(e.Actor.Kind), e.Actor.Name, string(e.Action), account, e.Subject,
		e.Before.text(), e.After.text(), reason)
}

// Dismiss runs a statement by which something need not be looked at again, with its entry. It fails with otherwise when
// there is no such thing, or not any more; its reason is the entry's.
func Dismiss(ctx context.Context, db *sqldb.DB, e *Entry, otherwise error, sql string, args ...any) error {
	if err := CheckReason(e.Reason); err != nil {
		return err
	}
	e.After = Fields{"state": "dismissed"}
	return db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		e.Write(ctx, tx)
		tx.Guard(ctx, otherwise, sql, args...)
		return nil
	})
}

// text returns the fields as they are stored.
func (f Fields) text() string {
	if f == nil {
		f = Fields{}
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic("oplog: " + err.Error()) // texts always can be written
	}
	return string(b)
}

// ReasonCharsMax bounds what operators write.
const ReasonCharsMax = 500

// CheckReason refuses a reason that says nothing, or does not fit into one line.
func CheckReason(reason string) error {
	if strings.TrimSpace(reason) == "" || !utf8.ValidString(reason) || utf8.RuneCountInString(reason) > ReasonCharsMax ||
		strings.ContainsFunc(reason, unicode.IsControl) {
		message := fmt.Sprintf("say why, in one line of at most %d characters", ReasonCharsMax)
		return &fault.Error{Kind: fault.Invalid, Public: "reason: " + message, Issues: []fault.Issue{{Path: "reason", Message: message}}}
	}
	return nil
}
