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
		pages := cmp.Or(strings.TrimSuffix(c.PublicURL, "/"), strings.TrimSuffix(base, "/v1"))
		g := greeting{API: base, Dashboard: pages + "/", Bank: bank.Page(c.Serve)}
		g.add(first)
		_ = e.greet(g) // nobody is reading; the service runs all the same
		log.LogAttrs(e.ctx, slog.LevelInfo, "serving", slog.String("url", base), slog.Any("database", e.store))
	})
}

// greeting is what a newcomer has to know, and what --json prints. What there is none of is left out.
type greeting struct {
	API        string `json:"api_url"`
	Dashboard  string `json:"dashboard_url"`
	Bank       string `json:"simulator_url,omitempty"`  // of simulated banks
	Invitation string `json:"invitation_url,omitempty"` // of the first operator
	Account    string `json:"account_id,omitempty"`     // made for a new database
	Name       string `json:"account_name,omitempty"`
	Key        string `json:"api_key,omitempty"`
}

func (g *greeting) add(first app.First) {
	if first.Invitation != "" {
		g.Invitation = invitationURL(g.Dashboard, first.Invitation)
	}
	if first.Key != "" {
		g.Account, g.Name, g.Key = first.Account.ID.String(), first.Account.Name, first.Key
	}
}

// greet tells a newcomer what to do next. The key and the link are shown this once.
func (e *env) greet(g greeting) error {
	lines := []string{"Ponte is running at " + g.API}
	if g.Bank != "" {
		lines = append(lines, "The banks are simulated, and no money is real. Pay as a customer would at "+g.Bank)
	}
	lines = append(lines, "The dashboard is at "+g.Dashboard)
	if g.Invitation != "" {
		lines = append(lines, "", "There is no operator yet. Whoever opens this link first becomes one; it works once, for three days:", "", "  "+g.Invitation, "")
	}
	if g.Key != "" {
		lines = append(lines, "", "This is a new database, so here is an account to try it with. Its key is shown only now:", "",
			fmt.Sprintf("  account  %s (%s)", g.Account, g.Name), "  key      "+g.Key, "", "Create a charge:", "",
			fmt.Sprintf("  curl -s %s/charges -H 'Authorization: Bearer %s' -H 'Idempotency-Key: my-first-charge' -d '{\"amount\": 25.50, \"external_id\": \"order-1\"}'", g.API, g.Key), "")
	}
	return e.print(g, strings.Join(lines, "\n"))
}

func newLog(w io.Writer, c config.Serve) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
