// Command ponte is a payments gateway in one binary: it serves the API and is the operator's tool beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/oplog"
)

// Exit statuses.
const (
	exitFailed = 1 // it was understood and did not work
	exitUsage  = 2 // it was not understood
)

// commands is the whole command line.
type commands struct {
	config.Store
	JSON bool `help:"Print JSON and nothing else."`

	Serve     serveCommand     `cmd:"" help:"Run the service."`
	Simulator simulatorCommand `cmd:"" help:"Run the simulated banks alone, for one or more servers."`
	Migrate   migrateCommand   `cmd:"" help:"Bring the database up to date. serve does so too."`
	Account   accountCommands  `cmd:"" help:"Accounts, their settings and their money."`
	Charge    chargeCommands   `cmd:"" help:"Pix charges."`
	Payout    payoutCommands   `cmd:"" help:"Pix payouts."`

	Infraction infractionCommands `cmd:"" help:"Infractions (MED)."`
	Deposit    depositCommands    `cmd:"" help:"Crypto charges."`
	Acquirer   acquirerCommands   `cmd:"" help:"Acquirers, switched on and off."`

	Key       keyCommands      `cmd:"" help:"API keys."`
	Endpoint  endpointCommands `cmd:"" help:"Where events are sent."`
	Event     eventCommands    `cmd:"" help:"What happened, and who was told."`
	Listen    listenCommand    `cmd:"" help:"Forward an account's events to a local URL, signed."`
	User      userCommands     `cmd:"" help:"People who use the dashboard."`
	IP        ipCommands       `cmd:"" name:"ip" help:"Addresses that are blocked for good."`
	Log       logCommand       `cmd:"" help:"What operators did, the latest first."`
	Audit     auditCommand     `cmd:"" help:"Add both ledgers up again and say what does not fit."`
	Statement statementCommand `cmd:"" help:"Every movement of an account with its running balance."`
	Doctor    doctorCommand    `cmd:"" help:"Check what the service needs to run."`
	Simulate  simulateCommand  `cmd:"" help:"Live whole lives of the service from a seed, with all that can go wrong, under an auditor."`
	Bench     benchCommand     `cmd:"" help:"Measure this machine: rates, and their ratios to what it can do."`
}

// env is what commands work with.
type env struct {
	ctx    context.Context //nolint:containedctx // one process runs one command
	store  config.Store
	json   bool
	stdout io.Writer
	stderr io.Writer
}

// heapGrowth is by how many per cent the heap grows before it is collected, and heapRest is room that is counted with it and
// never used, so that no memory stands behind it. What lives in the heap is 6 MB in a server that only reads and 30 MB under
// load: memory is cheap here, and Go's own 100 would collect it twice to five times as often, for some per cent of all the
// server's time.
const (
	heapGrowth = 150
	heapRest   = 16 << 20
)

// threadsPerCore is how many goroutines run at once for each core. One that writes to a disk or a socket keeps its place
// meanwhile, and another one could use the core.
const threadsPerCore = 2

func main() {
	var rest []byte
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
		if os.Getenv("GOMEMLIMIT") == "" { // which would count the rest as well
			rest = make([]byte, heapRest)
		}
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(threadsPerCore * runtime.GOMAXPROCS(0))
	}
	// The second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	runtime.KeepAlive(rest)
	os.Exit(status)
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	status := -1
	parser, err := kong.New(&c,
		kong.Name("ponte"),
		kong.Description("Ponte is a payments gateway: Pix and crypto, two ledgers, signed webhooks, one binary."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(stdout, stderr),
		kong.WithHyphenPrefixedParameters(true),     // --amount -5
		kong.Exit(func(code int) { status = code }), // --help
		config.Files(),
		config.Networks(),
	)
	if err != nil {
		panic(err) // the struct above is wrong
	}
	if err := config.SecretFiles(); err != nil {
		complain(stderr, err)
		return exitUsage
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if status >= 0 {
		return status
	}
	if err != nil {
		complain(stderr, fmt.Errorf("%w; see ponte --help", err))
		return exitUsage
	}
	ctx = oplog.As(ctx, oplog.Actor{Kind: oplog.Command, Name: osUser()})
	err = command.Run(&env{ctx: ctx, store: c.Store, json: c.JSON, stdout: stdout, stderr: stderr})
	switch {
	case errors.Is(err, errSilent):
		return exitFailed
	case err != nil:
		complain(stderr, err)
		return exitFailed
	}
	return 0
}

// osUser returns who runs the command, for the operator log.
func osUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid()) // a machine without a list of users
}

func complain(w io.Writer, err error) { fmt.Fprintln(w, "ponte: "+oneLine(err)) }

// oneLine returns an error's text in one line, whatever is in it.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// errSilent fails a command that has said all it had to say.
var errSilent = errors.New("failed")

// open opens the database for a command that needs an existing one.
func (e *env) open() (*app.Core, error) { return app.Open(e.ctx, e.store, app.Existing) }

type migrateCommand struct{}

func (*migrateCommand) Run(e *env) error {
	core, err := app.Open(e.ctx, e.store, app.Updating)
	if err != nil {
		return err
	}
	defer core.Close()
	version, err := core.SchemaVersion(e.ctx)
	if err != nil {
		return err
	}
	return e.print(struct {
		Version int64 `json:"version"`
	}{version}, fmt.Sprintf("The database is at version %d.", version))
}
