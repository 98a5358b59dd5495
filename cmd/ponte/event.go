package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/webhook"
)

type eventCommands struct {
	List      eventList      `cmd:"" help:"List an account's events in the order of its feed, oldest first."`
	Show      eventShow      `cmd:"" help:"Show an event with every attempt to deliver it."`
	Redeliver eventRedeliver `cmd:"" help:"Have an event sent again, or those of a time."`
}

// eventJSON is an event as --json prints it.
type eventJSON struct {
	ID         string          `json:"id"`
	Account    string          `json:"account_id"`
	Type       string          `json:"type"`
	CreatedAt  string          `json:"created_at"`
	Data       json.RawMessage `json:"data"`
	Deliveries []deliveryJSON  `json:"deliveries"`
}

type deliveryJSON struct {
	Endpoint string        `json:"endpoint_id"`
	URL      string        `json:"url"`
	State    string        `json:"state"`
	NextAt   *string       `json:"next_attempt_at"` // null unless it waits
	Attempts []attemptJSON `json:"attempts"`
}

type attemptJSON struct {
	Number   int64   `json:"attempt"`
	At       string  `json:"at"`
	Millis   int64   `json:"took_ms"`
	Status   *int    `json:"status"` // null for no answer
	Error    *string `json:"error"`
	Response *string `json:"response"` // its first 16 KiB
}

func newEventJSON(e *event.Event, deliveries []webhook.Delivery) eventJSON {
	out := eventJSON{
		ID: event.Prefix.Format(e.ID), Account: e.Account.String(), Type: string(e.Type), CreatedAt: timestamp(e.CreatedAt()),
		Data: e.Data, Deliveries: []deliveryJSON{},
	}
	for _, d := range deliveries {
		one := deliveryJSON{Endpoint: webhook.Prefix.Format(d.Endpoint), URL: d.URL, State: string(d.State), Attempts: []attemptJSON{}}
		if d.State == webhook.Waiting {
			one.NextAt = optionalTime(d.DueAt)
		}
		for _, a := range d.Attempts {
			line := attemptJSON{Number: a.Number, At: timestamp(a.At), Millis: a.Took.Milliseconds()}
			if a.Status != 0 {
				text := string(a.Response)
				line.Status, line.Response = &a.Status, &text
			}
			if a.Error != "" {
				line.Error = &a.Error
			}
			one.Attempts = append(one.Attempts, line)
		}
		out.Deliveries = append(out.Deliveries, one)
	}
	return out
}

type eventList struct {
	Account string `arg:"" help:"acc_..."`
	After   string `help:"Only those behind this one: evt_..."`
}

func (c *eventList) Run(e *env) error {
	var after id.ID
	if c.After != "" {
		var err error
		if after, err = event.Prefix.Parse(c.After); err != nil {
			return fmt.Errorf("--after %q: want evt_ and 26 characters", c.After)
		}
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		s, err := core.Webhooks(e.ctx)
		if err != nil {
			return err
		}
		out := newEventWriter(e)
		for {
			page, err := core.Feed.After(e.ctx, a.ID, after, event.PageMax)
			if errors.Is(err, event.ErrUnknown) {
				return fmt.Errorf("--after %s: the account has no such event, or has it no longer", c.After)
			}
			if err != nil {
				return err
			}
			for i := range page {
				deliveries, err := s.Deliveries(e.ctx, a.ID, page[i].ID)
				if err != nil {
					return err
				}
				if err := out.write(&page[i], deliveries); err != nil {
					return err
				}
				after = page[i].ID
			}
			if len(page) < event.PageMax {
				return out.end()
			}
		}
	})
}

// eventWriter prints events as they are read: an account may have very many.
type eventWriter struct {
	out   io.Writer
	json  bool
	count int
}

func newEventWriter(e *env) *eventWriter { return &eventWriter{out: e.stdout, json: e.json} }

func (w *eventWriter) write(e *event.Event, deliveries []webhook.Delivery) error {
	w.count++
	if w.json {
		begin := ",\n"
		if w.count == 1 {
			begin = "[\n"
		}
		text, err := json.Marshal(newEventJSON(e, deliveries))
		if err == nil {
			_, err = fmt.Fprintf(w.out, "%s%s", begin, text)
		}
		return err
	}
	var told strings.Builder
	for _, d := range deliveries {
		fmt.Fprintf(&told, "  %s %s (%d)", webhook.Prefix.Format(d.Endpoint), d.State, len(d.Attempts))
	}
	_, err := fmt.Fprintf(w.out, "%s  %s  %s%s\n", timestamp(e.CreatedAt()), event.Prefix.Format(e.ID), e.Type, told.String())
	return err
}

func (w *eventWriter) end() error {
	text := ""
	switch {
	case w.json && w.count == 0:
		text = "[]\n"
	case w.json:
		text = "\n]\n"
	}
	_, err := io.WriteString(w.out, text)
	return err
}

type eventShow struct {
	Event string `arg:"" help:"evt_..."`
}

func (c *eventShow) Run(e *env) error {
	return e.withWebhooks(func(s *webhook.Service) error {
		found, err := s.GetEvent(e.ctx, c.Event)
		if err != nil {
			return err
		}
		deliveries, err := s.Deliveries(e.ctx, found.Account, found.ID)
		if err != nil {
			return err
		}
		lines := []string{string(found.Body()), ""}
		var rows [][]string
		for _, d := range deliveries {
			for _, a := range d.Attempts {
				answer := a.Error
				if a.Status != 0 {
					answer = strconv.Itoa(a.Status)
				}
				rows = append(rows, []string{webhook.Prefix.Format(d.Endpoint), strconv.FormatInt(a.Number, 10), timestamp(a.At), a.Took.Round(time.Millisecond).String(), answer})
			}
			next := ""
			if d.State == webhook.Waiting {
				next = timestamp(d.DueAt)
			}
			rows = append(rows, []string{webhook.Prefix.Format(d.Endpoint), string(d.State), next, "", d.URL})
		}
		return e.print(newEventJSON(&found, deliveries), append(lines, table("ENDPOINT ATTEMPT AT TOOK ANSWER", rows))...)
	})
}

type eventRedeliver struct {
	Event    string `arg:"" optional:"" help:"evt_... , or none with --account."`
	Endpoint string `help:"Only to this one, also if it was not told before: whk_..."`
	Account  string `help:"Those of this account in a time: acc_..."`
	Since    string `help:"Day, YYYY-MM-DD in UTC, or moment in RFC 3339, from which on."`
	Until    string `help:"Last day, included, or moment, excluded."`
	Failed   bool   `help:"Only deliveries whose last attempt failed."`
}

// Validate refuses what names neither an event nor a time.
func (c *eventRedeliver) Validate() error {
	isRange := c.Account != "" || c.Since != "" || c.Until != "" || c.Failed
	switch {
	case c.Event == "" && (c.Account == "" || c.Since == "" || c.Until == ""):
		return errors.New("name an event, or --account, --since and --until")
	case c.Event != "" && isRange:
		return errors.New("an event and --account, --since, --until, --failed exclude each other")
	case c.Event == "" && c.Endpoint != "":
		return errors.New("--endpoint goes with an event")
	}
	return nil
}

func (c *eventRedeliver) Run(e *env) error {
	return e.withWebhooks(func(s *webhook.Service) error {
		count, err := c.redeliver(e, s)
		if err != nil {
			return err
		}
		return e.print(struct {
			Deliveries int `json:"deliveries"`
		}{count}, fmt.Sprintf("%d deliveries are to be made again", count))
	})
}

func (c *eventRedeliver) redeliver(e *env, s *webhook.Service) (int, error) {
	if c.Event != "" {
		found, err := s.GetEvent(e.ctx, c.Event)
		if err != nil {
			return 0, err
		}
		return s.Redeliver(e.ctx, found, c.Endpoint)
	}
	owner, err := id.ParseAccount(c.Account)
	if err != nil {
		return 0, err
	}
	since, err := parseMoment("--since", c.Since, 0)
	if err != nil {
		return 0, err
	}
	until, err := parseMoment("--until", c.Until, day)
	if err != nil {
		return 0, err
	}
	done, err := s.RedeliverRange(e.ctx, owner, webhook.Range{Since: since, Until: until, Failed: c.Failed})
	return done.Deliveries, err
}
