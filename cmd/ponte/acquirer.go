package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/app"
)

type acquirerCommands struct {
	List acquirerList `cmd:"" help:"List acquirers, and which are switched off."`
	Off  acquirerOff  `cmd:"" help:"Give an acquirer nothing new, within 2 seconds on every node. What it was given before is followed there."`
	On   acquirerOn   `cmd:"" help:"Let an acquirer be asked again."`
}

// switchJSON is an acquirer as --json prints it.
type switchJSON struct {
	Acquirer string  `json:"acquirer"`
	State    string  `json:"state"`     // on or off
	OffSince *string `json:"off_since"` // null while it is on
	Who      string  `json:"who,omitempty"`
	Reason   string  `json:"reason,omitempty"`
}

type acquirerList struct{}

func (*acquirerList) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	names, err := core.AcquirerNames()
	if err != nil {
		return err
	}
	off, err := core.Switches.List(e.ctx)
	if err != nil {
		return err
	}
	list, rows := []switchJSON{}, [][]string(nil)
	for _, name := range names {
		one := switchJSON{Acquirer: name, State: "on"}
		since := ""
		if o, is := off[name]; is {
			since = timestamp(o.Since)
			one = switchJSON{Acquirer: name, State: "off", OffSince: &since, Who: o.Who, Reason: o.Reason}
		}
		list = append(list, one)
		rows = append(rows, []string{one.Acquirer, one.State, since, one.Who, one.Reason})
	}
	return e.print(list, table("ACQUIRER STATE SINCE WHO REASON", rows))
}

type acquirerOff struct {
	Acquirer string `arg:"" help:"Its name in the settings."`
	Reason   string `help:"Why; it is kept." required:""`
}

func (c *acquirerOff) Run(e *env) error {
	return e.switchAcquirer(c.Acquirer, "off", func(core *app.Core) error { return core.Switches.Off(e.ctx, c.Acquirer, c.Reason) })
}

type acquirerOn struct {
	Acquirer string `arg:"" help:"Its name in the settings."`
}

func (c *acquirerOn) Run(e *env) error {
	return e.switchAcquirer(c.Acquirer, "on", func(core *app.Core) error { return core.Switches.On(e.ctx, c.Acquirer) })
}

func (e *env) switchAcquirer(name, state string, change func(*app.Core) error) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	names, err := core.AcquirerNames()
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) { // a slip would switch nothing and look as if it had
		return fmt.Errorf("no acquirer %q: the settings name %s; give the server's --config", name, strings.Join(names, ", "))
	}
	if err := change(core); err != nil {
		return err
	}
	return e.print(switchJSON{Acquirer: name, State: state}, name+" is "+state)
}
