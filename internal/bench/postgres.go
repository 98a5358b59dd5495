package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

// postgres compares credits with what pgbench gets updating one row.
func (r *run) postgres(ctx context.Context) error {
	url, pgbench := r.Postgres, ""
	if url == "" {
		server, err := startPostgres(ctx, r.path("postgres"))
		if errors.Is(err, errNoPostgres) {
			r.report.Skipped = append(r.report.Skipped, "everything on PostgreSQL: "+err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		defer server.stop()
		url, pgbench = server.url, filepath.Join(server.bin, "pgbench")
	}
	r.Progress("credits on PostgreSQL, %d at once", creditors)
	rate, err := r.credits(ctx, url, creditors)
	if err != nil {
		return err
	}
	path, err := findPgbench(pgbench)
	if err != nil {
		r.plain("PostgreSQL: credits to one account", rate)
		r.report.Skipped = append(r.report.Skipped, "the comparison with pgbench: "+err.Error())
		return nil
	}
	r.Progress("pgbench, one row, %d clients", creditors)
	hot, err := r.hotRow(ctx, path, url)
	if err != nil {
		return err
	}
	r.plain("pgbench: updates of one row", hot)
	r.compare("PostgreSQL: credits to one account", rate, "pgbench on one row", hot, creditsRatioMin)
	if r.Postgres != "" {
		return nil // charges want a database of their own
	}
	r.Progress("pgbench TPC-B")
	mix, err := r.tpcb(ctx, path, url)
	if err != nil {
		return err
	}
	r.plain("pgbench: TPC-B, scale 10, 32 clients", mix)
	return r.moving(ctx, psqlBeside(path), url, mix)
}

// moving measures charges and payouts over HTTP, each on a database of its own, against what pgbench gets.
func (r *run) moving(ctx context.Context, psql, url string, mix float64) error {
	charges, err := createDatabase(ctx, psql, url, "charges")
	if err != nil {
		return err
	}
	payouts, err := createDatabase(ctx, psql, url, "payouts")
	if err != nil {
		return err
	}
	history, err := createDatabase(ctx, psql, url, "history")
	if err != nil {
		return err
	}
	for _, measure := range []func() error{
		func() error { return r.creations(ctx, "PostgreSQL", charges, mix, chargesPostgresMin) },
		func() error { return r.creations(ctx, "SQLite", "", mix, chargesSQLiteMin) },
		func() error { return r.payouts(ctx, "PostgreSQL", payouts, mix, payoutsRatioMin) },
		func() error { return r.payouts(ctx, "SQLite", "sqlite:"+r.path("payouts.db"), mix, payoutsSQLiteMin) },
		func() error { return r.transactions(ctx, psql, history) },
	} {
		if err := measure(); err != nil {
			return err
		}
	}
	return nil
}

// replaceDatabase returns the address of another database of the same server.
func replaceDatabase(url, name string) string {
	return strings.Replace(url, "/postgres?", "/"+name+"?", 1)
}

func findPgbench(beside string) (string, error) {
	if beside != "" {
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath("pgbench")
}

// hotRow measures updates a second of one row by as many clients as there are creditors.
func (r *run) hotRow(ctx context.Context, pgbench, url string) (float64, error) {
	setup := r.path("setup.sql")
	update := r.path("update.sql")
	if err := errors.Join(
		os.WriteFile(setup, []byte("DROP TABLE IF EXISTS bench_hot;\nCREATE TABLE bench_hot (id int PRIMARY KEY, n bigint);\nINSERT INTO bench_hot VALUES (1, 0);\n"), 0o600),
		os.WriteFile(update, []byte("UPDATE bench_hot SET n = n + 1 WHERE id = 1;\n"), 0o600),
	); err != nil {
		return 0, err
	}
	if _, err := command(ctx, pgbench, "-n", "-c", "1", "-t", "1", "-f", setup, url); err != nil {
		return 0, err
	}
	out, err := command(ctx, pgbench, "-n", "-M", "prepared", "-c", strconv.Itoa(creditors), "-j", "2",
		"-T", strconv.Itoa(r.Seconds), "-f", update, url)
	if err != nil {
		return 0, err
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("bench: pgbench told no rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(out))
	}
	return out, nil
}

var errNoPostgres = errors.New("no PostgreSQL is installed (on Debian: apt-get install postgresql)")

// postgresServer is a server of our own that keeps commits durable and is gone afterwards.
type postgresServer struct {
	bin    string
	url    string
	folder string
	cmd    *exec.Cmd
}

const postgresStartMax = 30 * time.Second

func startPostgres(ctx context.Context, folder string) (*postgresServer, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s := &postgresServer{bin: bin, folder: folder}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if owner != nil { // it must be able to walk down to its folder
		if err := errors.Join(os.Chown(folder, int(owner.Uid), int(owner.Gid)), os.Chmod(filepath.Dir(folder), 0o711)); err != nil { //nolint:gosec // a temporary folder whose files are ours
			return nil, err
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(folder, "data"), "-U", "ponte", "-A", "trust", "-E", "UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = folder, attributes(owner)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bench: initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	s.cmd = exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "-D", filepath.Join(folder, "data"), "-k", folder, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "shared_buffers=256MB")
	s.cmd.Dir, s.cmd.SysProcAttr = folder, attributes(owner)
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGINT) } // fast shutdown
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.url = fmt.Sprintf("postgres://ponte@127.0.0.1:%d/postgres?sslmode=disable", port)
	answers := func() bool { // it listens before it is ready
		db, err := sqldb.Open(ctx, s.url)
		if err == nil {
			db.Close()
		}
		return err == nil
	}
	if err := poll(ctx, postgresStartMax, answers, "PostgreSQL does not answer"); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *postgresServer) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	_ = s.cmd.Wait()
}

// findPostgres returns the folder of the newest server that is installed.
func findPostgres() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/postgres", "/opt/homebrew/opt/postgresql@*/bin/postgres", "/usr/pgsql-*/bin/postgres"} {
		found, err := filepath.Glob(pattern)
		if err == nil && len(found) > 0 {
			return filepath.Dir(found[len(found)-1]), nil
		}
	}
	return "", errNoPostgres
}

// unprivileged returns whom the server runs as when we are root, because it refuses to be; nil means ourselves.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // ourselves
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("bench: PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}

func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}

func freePort(ctx context.Context) (int, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("bench: no TCP port")
	}
	return tcp.Port, nil
}
