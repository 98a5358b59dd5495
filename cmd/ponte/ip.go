package main

import (
	"net/netip"

	"github.com/ponte-pay/ponte/internal/app"
)

type ipCommands struct {
	Block   ipBlock   `cmd:"" help:"Refuse every request from a network, within 2 seconds on every node."`
	Unblock ipUnblock `cmd:"" help:"Let a network in again, also one that was blocked for wrong keys."`
	List    ipList    `cmd:"" help:"List the networks that are blocked for good."`
}

type networkJSON struct {
	Network   string `json:"network"`
	CreatedAt string `json:"created_at,omitempty"`
}

type ipBlock struct {
	Network string `arg:"" name:"cidr" help:"Such as 203.0.113.0/24, or one address."`
}

func (c *ipBlock) Run(e *env) error {
	return e.changeNetwork("blocked", func(core *app.Core) (netip.Prefix, error) { return core.Accounts.Block(e.ctx, c.Network) })
}

type ipUnblock struct {
	Network string `arg:"" name:"cidr" help:"As it was blocked."`
}

func (c *ipUnblock) Run(e *env) error {
	return e.changeNetwork("unblocked", func(core *app.Core) (netip.Prefix, error) { return core.Accounts.Unblock(e.ctx, c.Network) })
}

func (e *env) changeNetwork(did string, change func(*app.Core) (netip.Prefix, error)) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	network, err := change(core)
	if err != nil {
		return err
	}
	return e.print(networkJSON{Network: network.String()}, did+" "+network.String())
}

type ipList struct{}

func (*ipList) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	blocks, err := core.Accounts.ListBlocks(e.ctx)
	if err != nil {
		return err
	}
	list, rows := []networkJSON{}, [][]string(nil)
	for _, b := range blocks {
		n := networkJSON{b.Network.String(), timestamp(b.CreatedAt)}
		list = append(list, n)
		rows = append(rows, []string{n.Network, n.CreatedAt})
	}
	return e.print(list, table("NETWORK SINCE", rows))
}
