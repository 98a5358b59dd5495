package sqldb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Some failures take a process with them, or must come from another one. For those the test program runs itself, with
// the name of one of these in its environment.
var children = map[string]func(path string) error{
	"claim":  childClaim,
	"commit": childCommit,
	"kill":   childKill,
}

const childVariable, pathVariable = "PONTE_SQLDB_CHILD", "PONTE_SQLDB_PATH"

func TestMain(m *testing.M) {
	child := children[os.Getenv(childVariable)]
	if child == nil {
		os.Exit(m.Run())
	}
	if err := child(os.Getenv(pathVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Child returns the command that runs one of the children on a SQLite file. The external tests use it too.
func Child(name, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// childClaim says whether it could claim the file and holds it until its input ends.
func childClaim(path string) error {
	db, err := Open(context.Background(), "sqlite:"+path)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Claim()
	switch {
	case errors.Is(err, ErrInUse):
		fmt.Println("in use")
		return nil
	case err != nil:
		return err
	}
	fmt.Println("claimed")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

// childKill writes for ever and says each number once Write told that it is durable.
func childKill(path string) error {
	db, err := Open(context.Background(), "sqlite:"+path)
	if err != nil {
		return err
	}
	numbers := make(chan int)
	for range 8 {
		go func() {
			for n := range numbers {
				if write(db, strconv.Itoa(n)) == nil {
					fmt.Println(n)
				}
			}
		}()
	}
	for n := 1; ; n++ {
		numbers <- n
	}
}

// childCommit makes COMMIT fail for a group of three and says what each of them and a later one was told.
func childCommit(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	db, err := Open(ctx, "sqlite:"+path)
	if err != nil {
		return err
	}
	if err := write(db, "before"); err != nil {
		return err
	}
	ended, end := context.WithCancel(ctx)
	end()
	fmt.Println("not broken", meaning(db.Broken(ended)))
	log, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	// Nothing can be written behind what the log holds now.
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(log.Size()), Max: uint64(log.Size())}); err != nil {
		return err
	}
	w := db.d.(*liteDriver).writer
	w.ageMax = forever
	began := time.Now()
	told := map[string]<-chan error{}
	begin := func(f func(context.Context, *Tx) error) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- db.Write(ctx, f) }()
		return answer
	}
	told["leader"] = begin(inTurn(func(ctx context.Context, tx *Tx) error {
		for w.inLine() < 2 {
			runtime.Gosched()
		}
		return insert(ctx, tx, "leader")
	}))
	for !w.isBusy() {
		runtime.Gosched()
	}
	told["a"] = begin(func(ctx context.Context, tx *Tx) error { return insert(ctx, tx, "a") })
	told["b"] = begin(func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, "b"); return nil })
	for _, name := range []string{"leader", "a", "b"} {
		fmt.Println(name, meaning(<-told[name]))
	}
	fmt.Println("broken", meaning(db.Broken(ctx)))
	fmt.Println("later", meaning(write(db, "later")))
	fmt.Println("ping", meaning(db.Ping(ctx)))
	_, err = One(ctx, db, Scalar[string], `SELECT who FROM note WHERE who = $1`, "before")
	fmt.Println("read", meaning(err))
	fmt.Println("at once", time.Since(began) < writeTimeMax/2)
	db.Close()
	return nil
}

// meaning names what a caller may conclude.
func meaning(err error) string {
	unknown, unavailable := errors.Is(err, ErrCommitUnknown), errors.Is(err, ErrUnavailable)
	switch {
	case err == nil:
		return "well"
	case unknown && unavailable:
		return "contradiction"
	case unknown:
		return "unknown"
	case unavailable:
		return "unavailable"
	}
	return err.Error()
}
