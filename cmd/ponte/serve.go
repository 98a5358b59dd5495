package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
)

type serveCommand struct {
	config.Serve `embed:""`
}

func (c *serveCommand) Run(e *env) error {
	core, err := app.Open(e.ctx, e.store, app.Serving)
	if err != nil {
		return err
	}
	defer core.Close()
	log := newLog(e.stderr, c.Serve)
	bank, err := app.OpenBank(e.ctx, core, e.store, c.Serve, log)
	if err != nil {
		return err
	}
	defer bank.Close()
	server, err := app.NewServer(core, bank, c.Serve, log)
	if err != nil {
		return err
	}
	if core.SealedInside() {
		log.LogAttrs(e.ctx, slog.LevelWarn, "webhook secrets are sealed with a key that is kept in the same database: set PONTE_SEAL_KEY on every node")
	}
	return server.Run(e.ctx, e.store, func(base string) {
		// A key on a screen is none for real money.
		first, err := app.FirstRun(e.ctx, core, bank.Simulated)
		if err != nil {
			log.LogAttrs(e.ctx, slog.LevelError, "could not make the demo account and the first invitation", slog.String("error", err.Error()))
		}
		greet(e.stdout, greeting{
			base: base, pages: cmp.Or(strings.TrimSuffix(c.PublicURL, "/"), strings.TrimSuffix(base, "/v1")), bank: bank.Page(c.Serve), First: first,
		})
		log.LogAttrs(e.ctx, slog.LevelInfo, "serving", slog.String("url", base), slog.Any("database", e.store))
	})
}

// greeting is what a newcomer has to know.
type greeting struct {
	app.First
	base  string // of the API
	pages string // of the dashboard
	bank  string // the page of the simulated bank; "" when the banks are real
}

// greet tells a newcomer what to do next. The key and the link are shown this once.
func greet(w io.Writer, g greeting) {
	var b strings.Builder
	fmt.Fprintf(&b, "Ponte is running at %s\n", g.base)
	if g.bank != "" {
		fmt.Fprintf(&b, "The banks are simulated, and no money is real. Pay as a customer would at %s\n", g.bank)
	}
	fmt.Fprintf(&b, "The dashboard is at %s/\n", g.pages)
	if g.Invitation != "" {
		fmt.Fprintf(&b, "\nThere is no operator yet. Whoever opens this link first becomes one; it works once, for three days:\n\n  %s\n\n",
			invitationURL(g.pages, g.Invitation))
	}
	if g.Key != "" {
		fmt.Fprintf(&b, "\nThis is a new database, so here is an account to try it with. Its key is shown only now:\n\n"+
			"  account  %s (%s)\n  key      %s\n\nCreate a charge:\n\n"+
			"  curl -s %s/charges -H 'Authorization: Bearer %s' -H 'Idempotency-Key: my-first-charge' -d '{\"amount\": 25.50, \"external_id\": \"order-1\"}'\n\n",
			g.Account.ID, g.Account.Name, g.Key, g.base, g.Key)
	}
	_, _ = io.WriteString(w, b.String()) // nobody is reading; the service runs all the same
}

func newLog(w io.Writer, c config.Serve) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
