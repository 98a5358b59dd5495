// Package switchboard lets operators take an acquirer out of service and back, on every node within two seconds, and keeps
// who did so and why.
package switchboard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	switchesMax   = 1000 // far more than there are acquirers
	nameCharsMax  = 100
	insertSwitch  = `INSERT INTO acquirer_switch (acquirer, off_at, who, reason) VALUES ($1, $2, $3, $4) ON CONFLICT (acquirer) DO NOTHING`
	deleteSwitch  = `DELETE FROM acquirer_switch WHERE acquirer = $1`
	listSwitches  = `SELECT acquirer, off_at, who, reason FROM acquirer_switch ORDER BY acquirer LIMIT $1`
	selectSwitch  = `SELECT acquirer, off_at, who, reason FROM acquirer_switch WHERE acquirer = $1`
	offState      = "off"
	onState       = "on"
	fieldState    = "state"
	fieldOffSince = "off_since"
)

// Service switches acquirers.
type Service struct {
	DB    *sqldb.DB
	Clock *clock.Clock
	IDs   *id.Generator
}

// What cannot be switched.
var (
	ErrOff = fault.New(fault.Conflict, "acquirer_is_off", "the acquirer is switched off already")
	ErrOn  = fault.New(fault.Conflict, "acquirer_is_on", "the acquirer is not switched off")
)

// Off gives the acquirer nothing new from now on, and keeps why. It fails with [ErrOff] when it is off already.
func (s *Service) Off(ctx context.Context, name, reason string) error {
	if err := oplog.CheckReason(reason); err != nil {
		return err
	}
	if name == "" || len([]rune(name)) > nameCharsMax {
		return &fault.Error{Kind: fault.Invalid, Public: "acquirer: name one", Issues: []fault.Issue{{Path: "acquirer", Message: "name one"}}}
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.AcquirerOff, Subject: name, Before: oplog.Fields{fieldState: onState}, After: oplog.Fields{fieldState: offState}, Reason: reason,
	})
	now := s.Clock.Now().UnixMicro()
	return settled(ErrOff, s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		entry.Write(ctx, tx)
		tx.Guard(ctx, ErrOff, insertSwitch, name, now, entry.Actor.String(), reason)
		return nil
	}))
}

// settled returns err, unless it says that all is as it was wished after a COMMIT that nobody answered.
func settled(already, err error) error {
	if errors.Is(err, sqldb.ErrCommitUnknown) && errors.Is(err, already) {
		return nil
	}
	return err
}

// On lets the acquirer be asked again. It fails with [ErrOn] when it is not off.
func (s *Service) On(ctx context.Context, name string) error {
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.AcquirerOn, Subject: name, After: oplog.Fields{fieldState: onState},
	})
	return settled(ErrOn, s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		switched, err := sqldb.All(ctx, tx, scanSwitch, selectSwitch, name)
		if err != nil {
			return err
		}
		for _, o := range switched {
			entry.Before = oplog.Fields{fieldState: offState, fieldOffSince: o.Since.Format(time.RFC3339)}
		}
		entry.Write(ctx, tx)
		tx.Guard(ctx, ErrOn, deleteSwitch, name)
		return nil
	}))
}

// List returns the acquirers that are off, by name.
func (s *Service) List(ctx context.Context) (map[string]acquirer.Off, error) {
	list, err := sqldb.All(ctx, s.DB, scanSwitch, listSwitches, switchesMax)
	if err != nil {
		return nil, fmt.Errorf("switchboard: %w", err)
	}
	off := map[string]acquirer.Off{}
	for _, o := range list {
		off[o.name] = o.Off
	}
	return off, nil
}

// Step returns a step that tells a router which acquirers are off. Its caller runs it once before anything is routed, and
// then every second or more often.
func (s *Service) Step(r *acquirer.Router) func(context.Context) (did bool, err error) {
	return func(ctx context.Context) (bool, error) {
		off, err := s.List(ctx)
		if err == nil {
			r.SwitchOff(off)
		}
		return false, err
	}
}

// switched is an acquirer that is off.
type switched struct {
	name string
	acquirer.Off
}

func scanSwitch(r sqldb.Row) (o switched, err error) {
	var since int64
	err = r.Scan(&o.name, &since, &o.Who, &o.Reason)
	o.Since = time.UnixMicro(since).UTC()
	return o, err
}
