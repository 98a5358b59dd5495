package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
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
	server := app.NewServer(core, c.Serve, log)
	return server.Run(e.ctx, e.store, func(base string) {
		demo, key, err := app.FirstRun(e.ctx, core)
		if err != nil {
			log.LogAttrs(e.ctx, slog.LevelError, "could not make the demo account", slog.String("error", err.Error()))
		}
		greet(e.stdout, base, demo, key)
		log.LogAttrs(e.ctx, slog.LevelInfo, "serving", slog.String("url", base), slog.Any("database", e.store))
	})
}

// greet tells a newcomer what to do next. The key is shown this once.
func greet(w io.Writer, base string, demo account.Account, key string) {
	var b strings.Builder
	fmt.Fprintf(&b, "Ponte is running at %s\n", base)
	if key != "" {
		fmt.Fprintf(&b, "\nThis is a new database, so here is an account to try it with. Its key is shown only now:\n\n"+
			"  account  %s (%s)\n  key      %s\n\nTry it:\n\n  curl -s %s/balance -H 'Authorization: Bearer %s'\n\n",
			demo.ID, demo.Name, key, base, key)
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
