package bench

import (
	"context"
	"os"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	binaryMegabyteMax = 40
	idleMegabyteMax   = 60
	readySecondsMax   = 1
)

// startUp measures what a newcomer feels: how large it is, how soon it is there, and how much memory it takes. The simulators
// run inside, as they do for a newcomer.
func (r *run) startUp(ctx context.Context, e engine) error {
	if r.step.Number == 1 {
		info, err := os.Stat(r.Binary)
		if err != nil {
			return err
		}
		row := &Row{Scenario: "start", Name: "size of the binary", Value: float64(info.Size()) / megabyte, Unit: "MB"}
		row.under(binaryMegabyteMax)
		r.add(row)
	}
	r.say("start of ponte serve on %s", e.name)
	url, err := e.fresh(ctx, "start")
	if err != nil {
		return err
	}
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return err
	}
	_, err = newPayers(ctx, db, 1)
	db.Close()
	if err != nil {
		return err
	}
	started := r.clock.Real()
	server, _, err := r.start(ctx, "serve", r.path("start"), "--database="+url, "--simulator-listen=127.0.0.1:0", "--admin-listen=off")
	if err != nil {
		return err
	}
	defer stop(server)
	row := &Row{Scenario: "start", Database: e.name, Name: "start to ready", Value: r.clock.RealSince(started).Seconds(), Unit: "s"}
	row.under(readySecondsMax)
	r.add(row)
	if idle, ok := megabytes(server.Process.Pid, memoryNow); ok {
		row := &Row{Scenario: "start", Database: e.name, Name: "memory when idle", Value: idle, Unit: "MB"}
		row.under(idleMegabyteMax)
		r.add(row)
	}
	return nil
}
