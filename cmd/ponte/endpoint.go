package main

import (
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/webhook"
)

type endpointCommands struct {
	Create  endpointCreate  `cmd:"" help:"Register a URL. Its secret is shown only then."`
	List    endpointList    `cmd:"" help:"List an account's endpoints."`
	Disable endpointDisable `cmd:"" help:"Send nothing more. What waits goes out once it is enabled."`
	Enable  endpointEnable  `cmd:"" help:"Send again, also what waited."`
	Delete  endpointDelete  `cmd:"" help:"Take an endpoint away. What waits is cancelled."`
	Rotate  endpointRotate  `cmd:"" help:"Make a new secret. It is shown only then, and signs after a while."`
}

// endpointJSON is an endpoint as --json prints it.
type endpointJSON struct {
	Endpoint     string   `json:"endpoint_id"`
	Account      string   `json:"account_id"`
	URL          string   `json:"url"`
	Events       []string `json:"events"`
	Status       string   `json:"status"`
	Secret       string   `json:"secret,omitempty"` // only when it was just made
	SignsFrom    *string  `json:"next_secret_from"` // when the secret of the last rotation begins to sign
	FailingSince *string  `json:"failing_since"`
	CreatedAt    string   `json:"created_at"`
}

func newEndpointJSON(e *webhook.Endpoint, secret string) endpointJSON {
	out := endpointJSON{
		Endpoint: webhook.Prefix.Format(e.ID), Account: e.Account.String(), URL: e.URL, Events: []string{}, Status: string(e.Status),
		Secret: secret, SignsFrom: optionalTime(e.NextAt), FailingSince: optionalTime(e.FailingSince), CreatedAt: timestamp(e.CreatedAt()),
	}
	for _, t := range e.Events {
		out.Events = append(out.Events, string(t))
	}
	if e.Events == nil {
		out.Events = []string{webhook.All}
	}
	return out
}

// optionalTime shows no time as null.
func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := timestamp(t)
	return &text
}

// withWebhooks opens the database and calls f with the service of webhooks.
func (e *env) withWebhooks(f func(s *webhook.Service) error) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	s, err := core.Webhooks(e.ctx)
	if err != nil {
		return err
	}
	return f(s)
}

type endpointCreate struct {
	Account string `arg:"" help:"acc_..."`
	URL     string `name:"url" help:"Where events are sent: https, and a public address." required:""`
	Events  string `help:"Such as charge.paid,payout.failed, or all." required:"" placeholder:"TYPE,...|all"`
}

func (c *endpointCreate) Run(e *env) error {
	events, err := webhook.ParseEvents(c.Events)
	if err != nil {
		return err
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		s, err := core.Webhooks(e.ctx)
		if err != nil {
			return err
		}
		made, secret, err := s.Create(e.ctx, a.ID, webhook.Endpoint{URL: c.URL, Events: events})
		if err != nil {
			return err
		}
		return e.print(newEndpointJSON(made, secret), "endpoint  "+webhook.Prefix.Format(made.ID), "secret    "+secret, "", "The secret is shown only now.")
	})
}

type endpointList struct {
	Account string `arg:"" help:"acc_..."`
}

func (c *endpointList) Run(e *env) error {
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		s, err := core.Webhooks(e.ctx)
		if err != nil {
			return err
		}
		endpoints, err := s.List(e.ctx, a.ID)
		if err != nil {
			return err
		}
		list, rows := []endpointJSON{}, [][]string(nil)
		for _, one := range endpoints {
			list = append(list, newEndpointJSON(one, ""))
			failing := "-"
			if !one.FailingSince.IsZero() {
				failing = timestamp(one.FailingSince)
			}
			rows = append(rows, []string{webhook.Prefix.Format(one.ID), string(one.Status), failing, one.URL, webhook.FormatEvents(one.Events)})
		}
		return e.print(list, table("ENDPOINT STATUS FAILING_SINCE URL EVENTS", rows))
	})
}

type endpointDisable struct {
	Endpoint string `arg:"" help:"whk_..."`
}

func (c *endpointDisable) Run(e *env) error {
	return e.changeEndpoint(func(s *webhook.Service) (*webhook.Endpoint, error) { return s.Disable(e.ctx, c.Endpoint) })
}

type endpointEnable struct {
	Endpoint string `arg:"" help:"whk_..."`
}

func (c *endpointEnable) Run(e *env) error {
	return e.changeEndpoint(func(s *webhook.Service) (*webhook.Endpoint, error) { return s.Enable(e.ctx, c.Endpoint) })
}

type endpointDelete struct {
	Endpoint string `arg:"" help:"whk_..."`
}

func (c *endpointDelete) Run(e *env) error {
	return e.changeEndpoint(func(s *webhook.Service) (*webhook.Endpoint, error) { return s.Delete(e.ctx, c.Endpoint) })
}

func (e *env) changeEndpoint(change func(*webhook.Service) (*webhook.Endpoint, error)) error {
	return e.withWebhooks(func(s *webhook.Service) error {
		changed, err := change(s)
		if err != nil {
			return err
		}
		return e.print(newEndpointJSON(changed, ""), webhook.Prefix.Format(changed.ID)+" is "+string(changed.Status))
	})
}

type endpointRotate struct {
	Endpoint string        `arg:"" help:"whk_..."`
	After    time.Duration `help:"When the new secret begins to sign; until then the present one does. 0 means now." default:"24h"`
}

func (c *endpointRotate) Run(e *env) error {
	return e.withWebhooks(func(s *webhook.Service) error {
		changed, secret, err := s.Rotate(e.ctx, c.Endpoint, c.After)
		if err != nil {
			return err
		}
		from := "now"
		if !changed.NextAt.IsZero() {
			from = timestamp(changed.NextAt)
		}
		return e.print(newEndpointJSON(changed, secret), "secret      "+secret, "signs from  "+from, "", "The secret is shown only now.")
	})
}
