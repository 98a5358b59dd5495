package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/webhook"
)

const (
	lifeAccounts  = 16  // each with an endpoint
	lifeTills     = 64  // that make a charge and pay it, again and again
	livesAheadMax = 512 // that may have begun and not ended
	lifeEndMax    = time.Minute

	livesWanted      = 3626 // a second: the record day of Pix, 313.3 million payments, over its 86,400 seconds
	livesSQLiteMin   = 1500
	livesPostgresMin = 1000

	flameLengthMin  = 5 * time.Second
	profileBytesMax = 32 * megabyte
)

// lives are charges from the request that makes them to the webhook that says they are paid.
type lives struct {
	*stage
	run      *run
	receiver *receiver
	room     chan struct{} // one place for each that has begun and not ended
	begun    atomic.Int64
	ended    atomic.Int64
	strange  atomic.Int64 // webhooks of charges that do not wait for one

	mu      sync.Mutex
	waiting map[string]time.Time // when it began, by txid
	took    []time.Duration      // of those that have ended since it was looked at
}

// newLives raises a stage whose accounts are told of their paid charges.
func (r *run) newLives(ctx context.Context, e engine, name string) (l *lives, err error) {
	l = &lives{run: r, room: make(chan struct{}, livesAheadMax), waiting: map[string]time.Time{}}
	if l.receiver, err = newReceiver(ctx, l.receive); err != nil {
		return nil, err
	}
	l.stage, err = r.raise(ctx, e, plan{name: name, accounts: lifeAccounts, before: l.addEndpoints(ctx)})
	if err != nil {
		l.receiver.close()
	}
	return l, err
}

// addEndpoints has each account told of its paid charges, as `ponte endpoint create` does it.
func (l *lives) addEndpoints(ctx context.Context) func(s *stage) error {
	return func(s *stage) error {
		core, err := app.Open(ctx, config.Store{Database: s.url, Data: l.run.folder}, app.Existing)
		if err != nil {
			return err
		}
		defer core.Close()
		hooks, err := core.Webhooks(ctx)
		for i := 0; i < len(s.accounts) && err == nil; i++ {
			url := fmt.Sprintf("http://%s/%d", l.receiver.address, i)
			_, _, err = hooks.Create(ctx, s.accounts[i].id, webhook.Endpoint{URL: url, Events: []event.Type{event.ChargePaid}})
		}
		return err
	}
}

func (l *lives) close() {
	l.stage.close()
	l.receiver.close()
}

// receive ends the life that a webhook tells of.
func (l *lives) receive(body []byte) {
	txid := valueOf(body, "txid")
	l.mu.Lock()
	began, waits := l.waiting[string(txid)]
	if waits {
		delete(l.waiting, string(txid))
		l.took = append(l.took, l.run.clock.RealSince(began))
	}
	l.mu.Unlock()
	if !waits { // told twice
		l.strange.Add(1)
		return
	}
	l.ended.Add(1)
	<-l.room
}

// till makes charges and pays them, until closing is closed or so many have begun; 0 for no such limit.
func (l *lives) till(ctx context.Context, closing <-chan struct{}, most int64) error {
	shop, err := l.run.dial(ctx, l.address)
	if err != nil {
		return err
	}
	defer shop.close()
	bank, err := l.run.dial(ctx, l.bankAt)
	if err != nil {
		return err
	}
	defer bank.close()
	for {
		select {
		case <-closing:
			return nil
		case l.room <- struct{}{}:
		}
		if n := l.begun.Add(1); most > 0 && n > most {
			<-l.room
			return nil
		}
		began := l.run.clock.Real()
		shop.scrap = l.createCharge().write(shop.scrap[:0])
		answer, err := shop.ask(ctx, shop.scrap, "HTTP/1.1 201", true)
		if err != nil {
			return err
		}
		txid := string(valueOf(answer, "txid"))
		l.mu.Lock()
		l.waiting[txid] = began
		l.mu.Unlock()
		bank.scrap = l.payCharge(txid).write(bank.scrap[:0])
		if _, err := bank.ask(ctx, bank.scrap, "HTTP/1.1 200", false); err != nil {
			return err
		}
	}
}

// during lets lives begin until f returns, then waits until all have ended and everything adds up. What f is given ends
// when a till fails.
func (l *lives) during(ctx context.Context, most int64, f func(ctx context.Context) error) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	closing := make(chan struct{})
	failures := make(chan error, lifeTills)
	var tills sync.WaitGroup
	for range lifeTills {
		tills.Go(func() {
			if err := l.till(ctx, closing, most); err != nil {
				failures <- err
				stop()
			}
		})
	}
	err := f(work)
	close(closing)
	tills.Wait()
	select {
	case err := <-failures: // f failed because of it
		return err
	default:
	}
	if err != nil {
		return err
	}
	return l.finish(ctx)
}

// finish waits until every life has ended, and adds up.
func (l *lives) finish(ctx context.Context) error {
	l.run.say("waiting for the last lives on %s to end", l.engine.name)
	err := poll(ctx, lifeEndMax, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting) == 0
	}, "paid charges were told to nobody")
	if err != nil {
		return err
	}
	got, err := l.credited(ctx)
	if err != nil {
		return err
	}
	if want := money.BRL(l.ended.Load()) * chargeGets; got != want {
		return &unsoundError{fmt.Sprintf("%s were credited for %d charges, not %s", got, l.ended.Load(), want)}
	}
	return l.audit(ctx)
}

// warm waits until as many have ended as may be under way: then they end as fast as others begin.
func (l *lives) warm(ctx context.Context) error {
	if err := l.run.clock.Wait(ctx, min(warmMax, l.run.Length)); err != nil {
		return err
	}
	if err := l.analyse(ctx); err != nil {
		return err
	}
	return poll(ctx, lifeEndMax, func() bool { return l.ended.Load() >= livesAheadMax }, "hardly any life has ended")
}

// take returns how long the lives took that have ended since it was last called.
func (l *lives) take() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := l.took
	l.took = nil
	return took
}

// life measures whole lives a second.
func (r *run) life(ctx context.Context, e engine) error {
	l, err := r.newLives(ctx, e, "life")
	if err != nil {
		return err
	}
	defer l.close()
	var whole outcome
	around, err := r.between(ctx, []string{tpcb}, func() error {
		r.say("whole lives on %s", e.name)
		return l.during(ctx, 0, func(ctx context.Context) (err error) {
			if err := l.warm(ctx); err != nil {
				return err
			}
			if whole, err = r.measure(l.stage, func() (flow, error) { return l.end(ctx) }); err != nil {
				return err
			}
			return r.flame(ctx, l)
		})
	})
	if err != nil {
		return err
	}
	least := float64(livesSQLiteMin)
	if e.isPostgres {
		least = livesPostgresMin
	}
	row := e.rate("life", "whole lives: created, paid by callback, webhook received", whole.rate)
	row.spent(&whole)
	row.against(around, tpcb, 0)
	row.atLeast(least)
	row.atLeast(livesWanted)
	r.add(row)
	row = e.latency("life", fmt.Sprintf("p99 of a whole life, up to %d at once", livesAheadMax), whole.p99)
	row.Taken = whole.taken
	r.add(row)
	return nil
}

// end returns how lives ended for a while, with others beginning.
func (l *lives) end(ctx context.Context) (f flow, err error) {
	l.take()
	ended, started := l.ended.Load(), l.run.clock.Real()
	if err := l.run.clock.Wait(ctx, l.run.Length); err != nil {
		return f, err
	}
	f.answers = l.ended.Load() - ended
	f.rate = float64(f.answers) / l.run.clock.RealSince(started).Seconds()
	f.p50, f.p99 = percentiles(l.take())
	return f, nil
}

// flame makes a picture of where the server's time goes, while the load goes on.
func (r *run) flame(ctx context.Context, l *lives) error {
	if r.Flame == "" {
		return nil
	}
	r.say("profile of whole lives on %s", l.engine.name)
	profile, err := l.profile(ctx, max(r.Length, flameLengthMin))
	if err != nil {
		return err
	}
	picture, err := Flame(profile, "Whole lives on "+l.engine.name+": CPU of ponte serve")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Flame, "flame-"+strings.ToLower(l.engine.name)+".svg"), picture, 0o644) //nolint:gosec // a picture for everybody
}

// profile asks the server for a CPU profile.
func (s *stage) profile(ctx context.Context, length time.Duration) ([]byte, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.admin, int(length.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, profileBytesMax))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("bench: a profile: %s: %.300s", response.Status, content)
	}
	return content, err
}

// work is how long everybody has worked so far.
type work struct{ server, bank, load, database time.Duration }

func (s *stage) work() work {
	w := work{server: cpu(s.server.Process.Pid), bank: cpu(s.bank.Process.Pid), load: cpu(os.Getpid())}
	if s.engine.server != nil {
		w.database = s.engine.server.cpu()
	}
	return w
}

// since returns how long they have worked since before.
func (w work) since(before work) work {
	return work{w.server - before.server, w.bank - before.bank, w.load - before.load, w.database - before.database}
}

// parts returns what each of so many cost whom.
func (w work) parts(count int64) (parts []Part) {
	if w.server == 0 || count == 0 {
		return nil // the system does not tell
	}
	add := func(who string, took time.Duration) {
		if took > 0 {
			parts = append(parts, Part{who, float64(took.Microseconds()) / float64(count)})
		}
	}
	add("server", w.server)
	add("PostgreSQL", w.database)
	add("bank", w.bank)
	add("load and receiver", w.load)
	return parts
}
