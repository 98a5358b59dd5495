package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// build builds the binary, once, and returns where it is.
var build func() (string, error)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "ponte-binary")
	if err != nil {
		panic(err)
	}
	build = sync.OnceValues(func() (string, error) {
		path := filepath.Join(folder, "ponte")
		return path, buildInto(path)
	})
	status := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(status)
}

// buildInto builds the binary as users have it, with flags of go build. The tests of the packages look for races, with all
// that runs here; under the race detector the kills, loads and clocks of these tests would only wait for it.
func buildInto(path string, flags ...string) error {
	c := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", path}, flags...)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, output)
	}
	return nil
}

// installation is a database, or none yet, with the binary that works on it.
type installation struct {
	binary   string
	where    []string // the flags that name the database
	database string   // its address
}

// each runs test on an installation without tables, of each kind.
func each(t *testing.T, test func(t *testing.T, in *installation)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, onSQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, onPostgres(t))
	})
}

func install(t *testing.T, database string, where ...string) *installation {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return &installation{path, where, database}
}

func onSQLite(t *testing.T) *installation {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	return install(t, "sqlite:"+filepath.Join(data, "ponte.db"), "--data", data)
}

func onPostgres(t *testing.T) *installation {
	t.Helper()
	url := sqltest.EmptyPostgres(t)
	return install(t, url, "--data", filepath.Join(t.TempDir(), "data"), "--database", url)
}

func (in *installation) command(args ...string) *exec.Cmd {
	c := exec.Command(in.binary, append(slices.Clip(in.where), args...)...) // so that args can say otherwise
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PONTE_") {
			c.Env = append(c.Env, pair)
		}
	}
	return c
}

// result is how a command ended.
type result struct {
	status         int
	stdout, stderr string
}

// run runs a command to its end.
func (in *installation) run(t *testing.T, args ...string) result {
	t.Helper()
	c := in.command(args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.Contains(r.stderr, "goroutine") {
		t.Fatalf("ponte %s: %s", strings.Join(args, " "), r.stderr)
	}
	return r
}

// call runs a command like run, but inside the test: for the many whose process would tell nothing more.
func (in *installation) call(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), append(slices.Clip(args), in.where...), &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// must runs a command that works, and returns what it prints.
func (in *installation) must(t *testing.T, args ...string) string {
	t.Helper()
	r := in.run(t, args...)
	if r.status != 0 || r.stderr != "" {
		t.Fatalf("ponte %s: status %d: %s", strings.Join(args, " "), r.status, r.stderr)
	}
	return r.stdout
}

// json runs a command that works with --json, and reads the one value that it prints.
func (in *installation) json(t *testing.T, v any, args ...string) {
	t.Helper()
	decodeOne(t, in.must(t, append(args, "--json")...), v)
}

// decodeOne reads text, which is one JSON value and nothing else.
func decodeOne(t *testing.T, text string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more than one value: %s", text)
	}
}

// account makes an account.
func (in *installation) account(t *testing.T, name string) (account, key string) {
	t.Helper()
	var made struct {
		Account string `json:"account_id"`
		Key     string `json:"api_key"`
	}
	in.json(t, &made, "account", "create", "--name", name)
	return made.Account, made.Key
}

// process is a server that runs.
type process struct {
	url            string // of the API, without /v1
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{} // closed when it has ended
}

// output keeps what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts ponte serve. It is killed after the test, if it still runs.
func (in *installation) start(t *testing.T, args ...string) *process {
	t.Helper()
	return in.launch(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--simulator-listen", "127.0.0.1:0"}, args...)...)
}

// launch starts a command that runs on. It is killed after the test, if it still runs.
func (in *installation) launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{ended: make(chan struct{})}
	p.cmd = in.command(args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the status is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if log := p.stderr.String(); strings.Contains(log, "goroutine") {
			t.Errorf("the server: %s", log)
		}
	})
	return p
}

var running = regexp.MustCompile(`Ponte is running at (https?://127\.0\.0\.1:\d+)/v1\n`)

// serve starts ponte serve and returns when it is ready.
func (in *installation) serve(t *testing.T, args ...string) *process {
	t.Helper()
	p := in.start(t, args...)
	p.ready(t, running)
	return p
}

// ready returns when the process has said where it is, and notes that.
func (p *process) ready(t *testing.T, greeting *regexp.Regexp) {
	t.Helper()
	testkit.Wait(t, "the server to start", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the server ended: %s", p.stderr.String())
		default:
		}
		return greeting.MatchString(p.stdout.String())
	})
	p.url = greeting.FindStringSubmatch(p.stdout.String())[1]
}

// wait returns the exit status of a process that ends.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	testkit.Wait(t, "the server to end", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stop ends a server as an operator does.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if status := p.wait(t); status != 0 {
		t.Fatalf("status %d: %s", status, p.stderr.String())
	}
}

// get sends a GET and returns its status and code.
func (p *process) get(t *testing.T, key, path string) string {
	t.Helper()
	got := testkit.Do(t, p.url, testkit.Request{Path: path, Key: key})
	return strings.TrimSpace(fmt.Sprint(got.Status, " ", got.Error().Code))
}
