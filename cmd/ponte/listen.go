package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/webhook"
)

type listenCommand struct {
	Account   string `help:"acc_..." required:""`
	ForwardTo string `help:"URL that gets the events, such as http://127.0.0.1:3000/hook." required:"" placeholder:"URL"`
}

// Help says what is special about it.
func (*listenCommand) Help() string {
	return `Each event is signed as a real delivery is, with a secret of this listener's own, which is printed at the start. The
secret and how far the listener came are kept in a file under --data, for each account and URL: started again, it goes on
where it stopped. The first start begins with the next event. An event that nobody answers is tried again until somebody
does; any answer counts.`
}

func (c *listenCommand) Run(e *env) error {
	if u, err := url.Parse(c.ForwardTo); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("--forward-to: want a URL such as http://127.0.0.1:3000/hook")
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		return app.Listen(e.ctx, core, e.store, a.ID, c.ForwardTo, app.Listening{
			Ready: func(secret string) {
				fmt.Fprintf(e.stdout, "Forwarding the events of %s to %s\nThey are signed with %s\n", a.ID, c.ForwardTo, secret)
			},
			Told: func(f webhook.Forwarded) {
				if f.Gap {
					fmt.Fprintln(e.stderr, "ponte: events are missing here: they were older than events are kept")
				}
				answer := strconv.Itoa(f.Status)
				if f.Err != nil {
					answer = "no answer, will be tried again: " + oneLine(f.Err)
				}
				fmt.Fprintf(e.stdout, "%s  %s  %s  %s\n", timestamp(f.Event.CreatedAt()), event.Prefix.Format(f.Event.ID), f.Event.Type, answer)
			},
			Failed: func(err error) { complain(e.stderr, err) },
		})
	})
}
