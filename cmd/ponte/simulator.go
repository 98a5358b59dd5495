package main

import (
	"log/slog"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
)

type simulatorCommand struct {
	Listen      string     `help:"Address of its page and its controls." default:"127.0.0.1:8090" placeholder:"HOST:PORT" env:"PONTE_SIMULATOR_LISTEN"`
	SettleAfter string     `help:"How long after they were sent payouts settle by themselves, or manual." default:"1s" placeholder:"DURATION" env:"PONTE_SIMULATOR_SETTLE_AFTER"`
	LogFormat   string     `help:"text or json." enum:"text,json" default:"text" env:"PONTE_LOG_FORMAT"`
	LogLevel    slog.Level `help:"debug, info, warn or error." default:"info" env:"PONTE_LOG_LEVEL"`
}

// Validate refuses to serve others than this machine.
func (c *simulatorCommand) Validate() error { return config.CheckSimulatorListen("--listen", c.Listen) }

func (c *simulatorCommand) Run(e *env) error {
	log := newLog(e.stderr, config.Serve{LogFormat: c.LogFormat, LogLevel: c.LogLevel})
	return app.RunSimulator(e.ctx, app.SimulatorOptions{Data: e.store.Data, Listen: c.Listen, SettleAfter: c.SettleAfter}, log, func(url string) {
		_ = e.print(struct { // nobody is reading; the simulators run all the same
			URL string `json:"url"`
		}{url}, "The simulators are running at "+url, "", "Use them with", "", "  ponte serve --simulator "+url, "")
	})
}
