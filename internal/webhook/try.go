package webhook

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// testData is what a test event tells. It has nothing that a resource has, neither an id nor an amount nor a status, so
// that a receiver that looks at no type finds nothing to credit.
type testData struct {
	Object   string `json:"object"`
	Endpoint string `json:"endpoint_id"`
	Message  string `json:"message"`
}

// only tells one endpoint and nobody else.
type only struct {
	*Service
	to *Endpoint
}

func (o only) Fan(ctx context.Context, tx *sqldb.Tx, e *event.Event) error {
	o.fan(ctx, tx, e, []*Endpoint{o.to})
	return nil
}

// Try sends an event of the type [event.Test] to an active endpoint of an account, whatever it subscribes to, and to no
// other. It is delivered like every event: signed, retried, logged. once names the form that asked for it, which makes one
// event however often it is sent.
func (s *Service) Try(ctx context.Context, owner id.Account, public string, once id.ID) (event.Event, error) {
	to, err := s.GetOf(ctx, owner, public)
	if err == nil && to.Status != Active {
		err = errNotActive
	}
	if err != nil {
		return event.Event{}, err
	}
	data, err := json.Marshal(testData{
		"webhook_test", Prefix.Format(to.ID), "This is a test that somebody sent by hand. Nothing happened, and no money moved.",
	})
	if err != nil {
		return event.Event{}, err
	}
	var e event.Event
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		e = event.Event{Account: owner, ID: s.IDs.New(), Type: event.Test, Ref: once, Data: data}
		return event.NewLog(only{s, to}).Write(ctx, tx, e)
	})
	if errors.Is(err, sqldb.ErrConflict) { // the form was sent before, or a COMMIT was answered by nobody
		made, err := event.Of(ctx, s.DB, owner, once)
		if err != nil || len(made) == 0 {
			return event.Event{}, errors.Join(sqldb.ErrConflict, err)
		}
		return made[0], nil
	}
	return e, err
}
