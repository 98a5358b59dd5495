package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	serveStartMax = 20 * time.Second
	megabyte      = 1 << 20
	ticksPerCPU   = 100                   // a second, in which Linux counts
	pollEvery     = 20 * time.Millisecond // what is asked while something is measured takes from it
)

// start starts a ponte process on a free port and waits until it answers.
func (r *run) start(ctx context.Context, name, folder string, args ...string) (*exec.Cmd, string, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, "", err
	}
	line := append([]string{name, "--data=" + filepath.Join(folder, name), "--listen=" + address, "--log-level=warn"}, args...)
	ready := "/sim/clock"
	if name == "serve" {
		ready = "/readyz"
	}
	process := r.ponte(ctx, line...)
	if name == "simulator" {
		process.Env = append(process.Env, "GOMAXPROCS=1") // one core is more than it needs; on others it would only look for work
	}
	return process, "http://" + address, await(ctx, process, address, ready)
}

// await starts a process that ends with ctx and waits until it answers. What it says is told when it fails.
func await(ctx context.Context, process *exec.Cmd, address, ready string) error {
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	var said bytes.Buffer
	process.Stderr = &said
	if err := process.Start(); err != nil {
		return err
	}
	if err := waitReady(ctx, address, ready); err != nil {
		stop(process)
		return fmt.Errorf("%w: %.500s", err, said.Bytes())
	}
	return nil
}

// ponte is one of ponte's commands, with nothing of the settings that the caller may have for another installation.
func (r *run) ponte(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.Binary, args...)
	c.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "PONTE_") })
	return c
}

func stop(process *exec.Cmd) {
	_ = process.Process.Signal(syscall.SIGTERM)
	_ = process.Wait()
}

func waitReady(ctx context.Context, address, path string) error {
	return poll(ctx, serveStartMax, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, address+" is not ready")
}

func poll(ctx context.Context, limit time.Duration, done func() bool, complaint string) error {
	c := clock.New(nil)
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !done() {
		if c.Wait(waiting, pollEvery) != nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			return fmt.Errorf("bench: %s after %v", complaint, limit)
		}
	}
	return nil
}

// Memory of a process, by the names that the system gives it.
const (
	memoryNow  = "VmRSS"
	memoryPeak = "VmHWM"
)

// megabytes returns a process's memory where the system tells it.
func megabytes(pid int, which string) (float64, bool) {
	text, found := strings.CutSuffix(procLine(fmt.Sprintf("/proc/%d/status", pid), which), " kB")
	kilobytes, err := strconv.ParseFloat(text, 64)
	return kilobytes / 1024, found && err == nil
}

// procStat returns the fields of a process behind its name, from its state on.
func procStat(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name is in brackets and may hold anything.
	return strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
}

// Where procStat has them.
const (
	statState    = 0
	statParent   = 1
	statUser     = 11 // CPU in ticks; the system's is next, then those of children that have ended
	statCPUEnd   = statUser + 4
	stateZombie  = "Z"
	pidsListable = "/proc/[0-9]*"
)

// childrenOf returns the processes that one has started.
func childrenOf(parent int) (pids []int) {
	found, _ := filepath.Glob(pidsListable)
	for _, path := range found {
		pid, err := strconv.Atoi(filepath.Base(path))
		if fields := procStat(pid); err == nil && len(fields) > statParent && fields[statParent] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isAlive(pid int) bool {
	fields := procStat(pid)
	return len(fields) > 0 && fields[statState] != stateZombie
}

// cpu returns how long a process has worked, and its children that have ended. It is zero where the system does not tell.
func cpu(pid int) (took time.Duration) {
	fields := procStat(pid)
	if len(fields) < statCPUEnd {
		return 0
	}
	for _, text := range fields[statUser:statCPUEnd] {
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			took += time.Duration(ticks) * time.Second / ticksPerCPU
		}
	}
	return took
}

// cpu returns how long a database server has worked, with its children.
func (s *PostgresServer) cpu() (took time.Duration) {
	if s.process == nil {
		return 0
	}
	took = cpu(s.process.Process.Pid)
	for _, pid := range childrenOf(s.process.Process.Pid) {
		took += cpu(pid)
	}
	return took
}
