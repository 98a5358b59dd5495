package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

// PostgresServer is a server to make databases on: one of our own that keeps commits durable and is gone afterwards, or
// somebody's.
type PostgresServer struct {
	URL string // of its database postgres, or of the one that was given

	bin      string    // folder of its programs; "" means those of PATH
	folder   string    // of its files
	port     int       // that it listens on
	baseline string    // address of the database that pgbench works on; "" before
	process  *exec.Cmd // nil when it is not ours
}

const (
	postgresStartMax    = 30 * time.Second
	postgresStopMax     = 30 * time.Second
	postgresConnections = 200
)

var errNoPostgres = errors.New("no PostgreSQL is installed (on Debian: apt-get install postgresql)")

// postgres returns the server, and starts it the first time.
func (r *run) postgres(ctx context.Context) (*PostgresServer, error) {
	if r.server != nil || r.noServer != nil {
		return r.server, r.noServer
	}
	r.server, r.noServer = r.findServer(ctx)
	if r.noServer == nil {
		version, err := command(ctx, r.server.tool("psql"), "-At", "-c", "SHOW server_version", r.server.URL)
		if err != nil {
			return nil, err
		}
		r.report.Machine = append(r.report.Machine, "PostgreSQL "+string(bytes.TrimSpace(version)))
	}
	return r.server, r.noServer
}

// findServer starts a server, or looks for the tools to use somebody's.
func (r *run) findServer(ctx context.Context) (*PostgresServer, error) {
	if r.Postgres == "" {
		return StartPostgres(ctx, r.path("postgres"))
	}
	server := &PostgresServer{URL: r.Postgres}
	server.bin, _ = findPostgres() // without one, the tools may still be in PATH
	for _, name := range []string{"psql", "pgbench"} {
		if _, err := exec.LookPath(server.tool(name)); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoPostgres, err)
		}
	}
	return server, nil
}

// createDatabase makes a database under a name that nobody else uses, also on somebody's server, and returns its address.
func (r *run) createDatabase(ctx context.Context, server *PostgresServer, what string) (string, error) {
	u, err := url.Parse(server.URL)
	if err != nil {
		return "", errors.New("bench: the postgres:// address cannot be read") // err would show the password
	}
	name := fmt.Sprintf("bench_%s_%d_%d", what, os.Getpid(), r.step.Number)
	u.Path = "/" + name
	r.databases = append(r.databases, name)
	return u.String(), server.psql(ctx, server.URL, "CREATE DATABASE "+name)
}

// stopPostgres leaves nothing behind.
func (r *run) stopPostgres(ctx context.Context) {
	switch {
	case r.server == nil:
	case r.server.process != nil:
		_ = r.server.Stop()
	default:
		for _, name := range r.databases {
			_ = r.server.psql(ctx, r.server.URL, "DROP DATABASE IF EXISTS "+name)
		}
	}
}

// rest has all that was written before brought to the disk. What the one before has left to be written would slow down the
// next: a COMMIT of PostgreSQL then waits for a tenth of a second now and then. Somebody else's server is left alone.
func (r *run) rest(ctx context.Context) error {
	if r.server != nil && r.server.process != nil {
		if err := r.server.psql(ctx, r.server.URL, "CHECKPOINT"); err != nil {
			return err
		}
	}
	syscall.Sync()
	return nil
}

// StartPostgres starts a server whose files are in folder, with the settings of a fresh installation where durability is
// concerned: fsync and synchronous commits are on.
func StartPostgres(ctx context.Context, folder string) (*PostgresServer, error) {
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
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if owner != nil { // it must be able to walk down to its folder
		if err := errors.Join(os.Chown(folder, int(owner.Uid), int(owner.Gid)), os.Chmod(filepath.Dir(folder), 0o711)); err != nil { //nolint:gosec // a temporary folder whose files are ours
			return nil, err
		}
	}
	s := &PostgresServer{bin: bin, folder: folder, port: port}
	s.URL = fmt.Sprintf("postgres://ponte@127.0.0.1:%d/postgres?sslmode=disable", port)
	initdb := exec.CommandContext(ctx, s.tool("initdb"), "-D", s.data(), "-U", "ponte", "-A", "trust", "-E", "UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = folder, attributes(owner)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bench: initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return s, s.Start(ctx)
}

func (s *PostgresServer) data() string { return filepath.Join(s.folder, "data") }

// Start starts a server that was stopped or killed, on the port that it had, and waits until it answers. More settings go
// behind it as NAME=VALUE.
func (s *PostgresServer) Start(ctx context.Context, settings ...string) error {
	owner, err := unprivileged()
	if err != nil {
		return err
	}
	args := []string{
		"-D", s.data(), "-k", s.folder, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=" + strconv.Itoa(postgresConnections), "-c", "shared_buffers=256MB",
	}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.process = exec.CommandContext(ctx, s.tool("postgres"), args...)
	s.process.Dir, s.process.SysProcAttr = s.folder, attributes(owner)
	s.process.Cancel = func() error { return s.process.Process.Signal(syscall.SIGINT) } // fast shutdown
	s.process.WaitDelay = postgresStopMax
	if err := s.process.Start(); err != nil {
		return err
	}
	answers := func() bool { // it listens before it is ready
		db, err := sqldb.Open(ctx, s.URL)
		if err == nil {
			db.Close()
		}
		return err == nil
	}
	if err := poll(ctx, postgresStartMax, answers, "PostgreSQL does not answer"); err != nil {
		return errors.Join(err, s.Stop())
	}
	return nil
}

// Stop ends the server in order.
func (s *PostgresServer) Stop() error {
	_ = s.process.Process.Signal(syscall.SIGINT)
	return s.process.Wait()
}

// Kill ends the server as a machine that loses its power does, as far as a process can: it and all that it started are
// killed while it cannot tell them, and what only their memory held is gone.
func (s *PostgresServer) Kill() error {
	server := s.process.Process
	// Stopped, it starts nobody new while its children are listed.
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	children := childrenOf(server.Pid)
	err := server.Kill()
	for _, pid := range children {
		if killErr := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, killErr)
		}
	}
	_ = s.process.Wait() // it was killed
	// Its memory is shared: a new server refuses to start while one of them still has it.
	return errors.Join(err, poll(context.Background(), postgresStopMax, func() bool {
		return !slices.ContainsFunc(children, isAlive)
	}, "a killed PostgreSQL still runs"))
}

// tool returns the path of one of PostgreSQL's programs.
func (s *PostgresServer) tool(name string) string {
	if path := filepath.Join(s.bin, name); s.bin != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return name
}

// psql runs statements outside a transaction.
func (s *PostgresServer) psql(ctx context.Context, database string, statements ...string) error {
	args := []string{"-q", "-v", "ON_ERROR_STOP=1"}
	for _, one := range statements {
		args = append(args, "-c", one)
	}
	_, err := command(ctx, s.tool("psql"), append(args, database)...)
	return err
}

func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(out))
	}
	return out, nil
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

// freeAddress returns one on which a process of this machine can listen.
func freeAddress(ctx context.Context) (string, error) {
	port, err := freePort(ctx)
	return "127.0.0.1:" + strconv.Itoa(port), err
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
