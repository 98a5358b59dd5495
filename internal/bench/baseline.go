package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // what SQLite does by itself is measured without anything of ours
)

// What Ponte is compared with, by the names that the table shows.
const (
	tpcb         = "pgbench TPC-B"          // scale 10
	oneInsert    = "pgbench one-row insert" // into a table with a key
	hotRow       = "pgbench hot row"        // updates of one row
	liteCommits  = "raw SQLite commits"     // one row each, one after the other
	emptyHandler = "an empty handler"       // see empty.go
)

const (
	creditors    = 32 // pgbench's clients, and as many writers of ours where they are compared with it
	tpcbScale    = 10
	leaveTime    = 300 * time.Millisecond
	freshLengths = 6 // measurements after which a sample is too old to stand before another comparison
)

// baseline is something that Ponte is compared with. It is measured just before and just after what is compared with it,
// because machines are noisy and others use them.
type baseline struct {
	name    string
	samples []float64
	taken   float64   // by the host in the last one, see calmly
	at      time.Time // of the last one
	isUsed  bool      // something was compared with the last one from behind
}

// measureBaseline measures one by its name.
func (r *run) measureBaseline(ctx context.Context, name string) (float64, error) {
	r.say("%s", name)
	switch name {
	case tpcb, oneInsert, hotRow:
		return r.pgbench(ctx, name)
	case liteCommits:
		return r.liteCommits(ctx)
	case emptyHandler:
		return r.emptyHandler(ctx)
	}
	return 0, fmt.Errorf("bench: nobody knows how to measure %s", name)
}

// prepareBaseline makes what one needs, which is no part of what is measured.
func (r *run) prepareBaseline(ctx context.Context, name string) error {
	if _, is := pgbenchScripts[name]; !is {
		return nil
	}
	server, err := r.postgres(ctx)
	if err != nil || server.baseline != "" {
		return err
	}
	url, err := r.createDatabase(ctx, server, "baseline")
	if err != nil {
		return err
	}
	if _, err := command(ctx, server.tool("pgbench"), "-i", "-q", "-s", strconv.Itoa(tpcbScale), url); err != nil {
		return err
	}
	if err := server.psql(ctx, url, pgbenchTables); err != nil {
		return err
	}
	server.baseline = url
	return nil
}

// between measures something with baselines before and after it. Those that need a PostgreSQL that is not there are left
// out.
func (r *run) between(ctx context.Context, names []string, measure func() error) (around []bracket, err error) {
	var used []*baseline
	for _, name := range names {
		b := r.baseline(name)
		err := r.sample(ctx, b)
		if errors.Is(err, errNoPostgres) {
			r.skip("the comparison with pgbench: " + err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		used = append(used, b)
		around = append(around, bracket{name: name, before: b.samples[len(b.samples)-1], taken: b.taken})
	}
	for _, b := range r.baselines {
		b.isUsed = true
	}
	if err := r.rest(ctx); err != nil {
		return nil, err
	}
	if err := measure(); err != nil {
		return nil, err
	}
	for i, b := range used {
		if err := r.sample(ctx, b); err != nil {
			return nil, err
		}
		around[i].after, around[i].taken = b.samples[len(b.samples)-1], max(around[i].taken, b.taken)
	}
	return around, nil
}

// sample measures a baseline, unless the end of the last comparison has just done so.
func (r *run) sample(ctx context.Context, b *baseline) error {
	if !b.isUsed && len(b.samples) > 0 && r.clock.RealSince(b.at) < freshLengths*r.Length {
		return nil
	}
	if err := r.prepareBaseline(ctx, b.name); err != nil {
		return err
	}
	if err := r.rest(ctx); err != nil {
		return err
	}
	rate, taken, err := calmly(r, func() (float64, error) { return r.measureBaseline(ctx, b.name) })
	if err != nil {
		return err
	}
	b.samples, b.taken, b.at, b.isUsed = append(b.samples, rate), taken, r.clock.Real(), false
	return nil
}

// baseline returns the baseline of that name.
func (r *run) baseline(name string) *baseline {
	at := slices.IndexFunc(r.baselines, func(b *baseline) bool { return b.name == name })
	if at < 0 {
		at = len(r.baselines)
		r.baselines = append(r.baselines, &baseline{name: name})
	}
	return r.baselines[at]
}

// tellBaselines adds a row for each, with its spread over the run.
func (r *run) tellBaselines() {
	for _, b := range r.baselines {
		if len(b.samples) == 0 {
			continue
		}
		row := Row{Scenario: "baseline", Name: b.name, Unit: "/s"}
		for _, s := range b.samples {
			row.Value += s / float64(len(b.samples))
		}
		if len(b.samples) > 1 {
			row.Low, row.High = slices.Min(b.samples), slices.Max(b.samples)
		}
		r.add(&row)
	}
}

// pgbenchScripts are what pgbench runs, by the name of the baseline; "" for its own mix.
var pgbenchScripts = map[string]string{
	tpcb:      "",
	oneInsert: "INSERT INTO bench_insert (n) VALUES (1);\n",
	hotRow:    "UPDATE bench_hot SET n = n + 1 WHERE id = 1;\n",
}

// What pgbench leaves behind is not tidied up while something else is measured: pgbench does that itself before each run.
const pgbenchTables = `
CREATE TABLE bench_insert (id BIGSERIAL PRIMARY KEY, n BIGINT) WITH (autovacuum_enabled = off);
CREATE TABLE bench_hot (id INT PRIMARY KEY, n BIGINT) WITH (autovacuum_enabled = off);
INSERT INTO bench_hot VALUES (1, 0);
ALTER TABLE pgbench_accounts SET (autovacuum_enabled = off);
ALTER TABLE pgbench_branches SET (autovacuum_enabled = off);
ALTER TABLE pgbench_tellers SET (autovacuum_enabled = off);
ALTER TABLE pgbench_history SET (autovacuum_enabled = off)`

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbench measures what PostgreSQL does by itself, on a database of its own.
func (r *run) pgbench(ctx context.Context, name string) (float64, error) {
	server, err := r.postgres(ctx)
	if err != nil {
		return 0, err
	}
	args := []string{"-M", "prepared", "-c", strconv.Itoa(creditors), "-j", "2", "-T", strconv.Itoa(max(1, int(r.Length.Seconds())))}
	if script := pgbenchScripts[name]; script != "" {
		path := r.path("pgbench.sql")
		if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
			return 0, err
		}
		args = append(args, "-f", path)
	}
	out, err := command(ctx, server.tool("pgbench"), append(args, server.baseline)...)
	if err != nil {
		return 0, err
	}
	// Its connections end by themselves, and what they have used is counted then.
	if err := r.clock.Wait(ctx, leaveTime); err != nil {
		return 0, err
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("bench: pgbench told no rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// liteCommits measures transactions of one row, as durable as ours, without anything of ours around them.
func (r *run) liteCommits(ctx context.Context) (float64, error) {
	path := r.path("commits.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS bench_insert (id INTEGER PRIMARY KEY, n INTEGER)`); err != nil {
		return 0, err
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO bench_insert (n) VALUES (1)`)
	if err != nil {
		return 0, err
	}
	defer insert.Close()
	commits := 0
	started := r.clock.Real()
	for r.clock.RealSince(started) < r.Length {
		// A statement outside a transaction is one.
		if _, err := insert.ExecContext(ctx); err != nil {
			return 0, err
		}
		commits++
	}
	return float64(commits) / r.clock.RealSince(started).Seconds(), nil
}
