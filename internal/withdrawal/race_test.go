package withdrawal_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// pair returns two servers on one database.
func pair(t *testing.T, url string) (*node, *node) {
	t.Helper()
	w := newWorld(t)
	one, other := sqltest.OpenForTwo(t, url)
	return w.node(one), w.node(other)
}

// TestCrowd withdraws 60 times at once on money for 30: exactly 30 are accepted, by two servers.
func TestCrowd(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		const many, enough = 60, 30
		n, other := pair(t, url)
		nodes := []*node{n, other}
		a := n.holder(enough * 101_000000)
		var all sync.WaitGroup
		var accepted, refused atomic.Int64
		for i := range many {
			all.Go(func() {
				x, outcome, err := nodes[i%2].Create(t.Context(), request(a, strconv.Itoa(i), 100_000000))
				switch f := fault.As(err); {
				case err == nil && outcome == idempotency.Created && x.Status == withdrawal.Processing:
					accepted.Add(1)
				case err != nil && f.Code == "insufficient_balance":
					refused.Add(1)
				default:
					t.Errorf("%d: %s", i, told(x, outcome, err))
				}
			})
		}
		all.Wait()
		if accepted.Load() != enough || refused.Load() != many-enough {
			t.Errorf("%d accepted, %d refused", accepted.Load(), refused.Load())
		}
		if b := n.balance(a.ID); b != (ledger.Balance{InTransit: enough * 101_000000}) {
			t.Errorf("%+v", b)
		}
		// Both servers verify, and are told that they are sent, at the same time.
		both := func() {
			t.Helper()
			for _, one := range nodes {
				all.Go(func() {
					if _, err := one.CheckDue(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		both()
		for _, x := range n.all(a.ID) {
			n.order(x, "finish")
		}
		n.advance(time.Minute)
		both()
		for _, x := range n.all(a.ID) {
			if x.Status != withdrawal.Completed || n.made(x) != "FINISHED 1" {
				t.Errorf("%s is %s, %s", x.ExternalID, x.Status, n.made(x))
			}
		}
		if b := n.balance(a.ID); b != (ledger.Balance{}) {
			t.Errorf("%+v", b)
		}
		n.audit()
	})
}

// TestRacers lets equal requests race on two servers: one withdrawal is made, once.
func TestRacers(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		n, other := pair(t, url)
		nodes := []*node{n, other}
		a := n.holder(1000_000000)
		r := request(a, "order 42", 100_000000)
		r.Key = "a key of theirs"
		var all sync.WaitGroup
		var created atomic.Int64
		for i := range 16 {
			all.Go(func() {
				for {
					x, outcome, err := nodes[i%2].Create(t.Context(), r)
					if code := fault.As(err).Code; err != nil && (code == "idempotency_key_in_progress" || code == "external_id_in_progress") {
						_ = clocktest.Real.Wait(t.Context(), time.Millisecond) // the one that is under way needs the processor
						continue
					}
					if err != nil {
						t.Error(told(x, outcome, err))
					}
					if outcome == idempotency.Created {
						created.Add(1)
					}
					return
				}
			})
		}
		all.Wait()
		if created.Load() != 1 || len(n.all(a.ID)) != 1 || n.made(n.stored(a.ID, "order 42")) != "WAITING 0" || n.balance(a.ID) != waiting {
			t.Errorf("%d created, %d stored, %+v", created.Load(), len(n.all(a.ID)), n.balance(a.ID))
		}
		n.audit()
	})
}

// lens sees a provider and does something around what it is asked. What is nil is only passed on.
type lens struct {
	chain.Payer
	create func(create func() (chain.Payout, error)) (chain.Payout, error)
	find   func(find func() (chain.Payout, error)) (chain.Payout, error)
	verify func(verify func() error) error
}

func (l *lens) CreatePayout(ctx context.Context, n chain.NewPayout) (chain.Payout, error) {
	create := func() (chain.Payout, error) { return l.Payer.CreatePayout(ctx, n) }
	if l.create == nil {
		return create()
	}
	return l.create(create)
}

func (l *lens) FindPayout(ctx context.Context, s chain.Search) (chain.Payout, error) {
	find := func() (chain.Payout, error) { return l.Payer.FindPayout(ctx, s) }
	if l.find == nil {
		return find()
	}
	return l.find(find)
}

func (l *lens) VerifyPayout(ctx context.Context, id string) error {
	verify := func() error { return l.Payer.VerifyPayout(ctx, id) }
	if l.verify == nil {
		return verify()
	}
	return l.verify(verify)
}

func through(l lens) func(chain.Payer) chain.Payer {
	return func(at chain.Payer) chain.Payer {
		seen := l
		seen.Payer = at
		return &seen
	}
}

// dies runs something that ends in the middle, as a crash would.
func dies(t *testing.T, f func()) {
	t.Helper()
	died := make(chan struct{})
	go func() {
		defer close(died)
		f()
		t.Error("it lives")
	}()
	<-died
}

// TestCrash ends a server before and after it has a withdrawal made and verified: what it left is found, made if it was
// not, verified if it was not, and its coins leave once.
func TestCrash(t *testing.T) {
	t.Parallel()
	exit := func() { runtime.Goexit() }
	for name, l := range map[string]lens{
		"before it is made": {create: func(func() (chain.Payout, error)) (chain.Payout, error) { exit(); return chain.Payout{}, nil }},
		"after it is made": {create: func(create func() (chain.Payout, error)) (chain.Payout, error) {
			_, _ = create()
			exit()
			return chain.Payout{}, nil
		}},
		"before it is verified": {verify: func(func() error) error { exit(); return nil }},
		"after it is verified":  {verify: func(verify func() error) error { _ = verify(); exit(); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqltest.EachURL(t, func(t *testing.T, url string) {
				t.Helper()
				w := newWorld(t)
				db := sqltest.Open(t, url)
				dying, n := w.node(db, through(l)), w.node(db)
				a := n.holder(1000_000000)
				dies(t, func() {
					_, _, err := dying.Create(context.Background(), request(a, "order 42", 100_000000))
					if err != nil {
						t.Error(err)
					}
					x := n.stored(a.ID, "order 42")
					dying.Verify(context.Background(), &x)
				})
				if b := n.balance(a.ID); b != waiting {
					t.Errorf("%+v", b)
				}
				if got := told(n.Create(t.Context(), request(a, "order 42", 100_000000))); got != "existing processing" {
					t.Error(got)
				}
				for range 3 {
					n.advance(6 * time.Minute)
					n.step(n.CheckDue)
				}
				x := n.stored(a.ID, "order 42")
				n.order(x, "finish")
				n.advance(10 * time.Minute)
				n.step(n.CheckDue)
				if x = n.stored(a.ID, "order 42"); x.Status != withdrawal.Completed || n.made(x) != "FINISHED 1" {
					t.Errorf("%s, %s", x.Status, n.made(x))
				}
				if doubt, err := withdrawal.CountDoubts(t.Context(), db); err != nil || doubt != (withdrawal.Doubt{}) {
					t.Errorf("%+v in doubt, %v", doubt, err)
				}
				n.audit()
			})
		})
	}
}

var errLost = &chain.Error{Provider: "crypto", Operation: "payout.create", Outcome: chain.Unknown, Class: chain.Timeout}

// TestMadeTwice loses the answer to a creation and has the provider's list be blind to it, so that a second payout is made:
// one of the two is verified and sent, and the other never is.
func TestMadeTwice(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		w := newWorld(t)
		db := sqltest.Open(t, url)
		blind := func(func() (chain.Payout, error)) (chain.Payout, error) {
			return chain.Payout{}, &chain.Error{Provider: "crypto", Operation: "payout.find", Outcome: chain.Refused, Class: chain.Business, Cause: chain.ErrNotFound}
		}
		first := w.node(db, through(lens{
			find: blind, create: func(create func() (chain.Payout, error)) (chain.Payout, error) {
				_, _ = create()
				return chain.Payout{}, errLost
			},
		}))
		n, seeing := w.node(db, through(lens{find: blind})), w.node(db)
		a := n.holder(1000_000000)
		if got := told(first.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
			t.Error(got)
		}
		n.advance(6 * time.Minute)
		n.step(n.CheckDue)
		x := n.stored(a.ID, "order 42")
		books := n.books(x)
		if len(books) != 2 || x.ProviderID != books[1].ID || x.Sends != 2 {
			t.Fatalf("%+v of %+v", x, books)
		}
		// The other one turns up, is told about, and stays as it is.
		for range 3 {
			seeing.Hint(w.name, books[0].ID)
			seeing.Hint(w.name, books[1].ID)
			seeing.step(seeing.FollowHints)
			n.advance(time.Minute)
			seeing.step(seeing.CheckDue)
		}
		n.order(x, "finish")
		n.advance(2 * time.Hour)
		seeing.step(seeing.CheckDue)
		if x = n.stored(a.ID, "order 42"); x.Status != withdrawal.Completed || n.made(x) != "REJECTED 0, FINISHED 1" {
			t.Errorf("%s, %s", x.Status, n.made(x))
		}
		n.audit()
	})
}

// TestOvertaken has a withdrawal made again, as if it were long forgotten, while its creation still waits for the first
// answer: what that answer then says decides nothing any more, whatever it is.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{
		"made":    nil,
		"unknown": errLost,
		"down":    &chain.Error{Provider: "crypto", Operation: "payout.create", Outcome: chain.Refused, Class: chain.Down},
		"refused": &chain.Error{Provider: "crypto", Operation: "payout.create", Outcome: chain.Refused, Class: chain.Business, Cause: chain.ErrInvalidAddress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqltest.EachURL(t, func(t *testing.T, url string) {
				t.Helper()
				w := newWorld(t)
				db := sqltest.Open(t, url)
				other := w.node(db)
				n := w.node(db, through(lens{create: func(create func() (chain.Payout, error)) (chain.Payout, error) {
					w.advance(10 * time.Minute)
					other.step(other.CheckDue) // has it made again
					if first == nil {
						return create()
					}
					return chain.Payout{}, first
				}}))
				a := n.holder(1000_000000)
				if got := told(n.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
					t.Errorf("told %s", got)
				}
				for _, one := range []*node{n, other} {
					one.step(one.FollowHints)
				}
				other.advance(time.Minute)
				other.step(other.CheckDue)
				x := n.stored(a.ID, "order 42")
				n.order(x, "finish")
				other.advance(5 * time.Minute)
				other.step(other.CheckDue)
				want := "FINISHED 1"
				if first == nil {
					want = "FINISHED 1, WAITING 0"
				}
				if x = n.stored(a.ID, "order 42"); x.Status != withdrawal.Completed || n.made(x) != want || x.Sends != 2 {
					t.Errorf("%+v, %s", x, n.made(x))
				}
				n.audit()
			})
		})
	}
}

// TestContradiction has the provider send what it had rejected, and reject what it had sent: nothing moves, and operators
// are told.
func TestContradiction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, c := range []struct {
			first, then chain.PayoutStatus
			status      withdrawal.State
			balance     ledger.Balance
		}{
			{chain.PayoutRejected, chain.PayoutFinished, withdrawal.Failed, whole},
			{chain.PayoutFinished, chain.PayoutRejected, withdrawal.Completed, gone},
		} {
			says := chain.PayoutWaiting
			liar := n.world.node(n.db, func(at chain.Payer) chain.Payer { return &says2{Payer: at, status: &says} })
			a := n.holder(1000_000000)
			if got := told(liar.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
				t.Error(got)
			}
			x := n.stored(a.ID, "order 42")
			for _, says = range []chain.PayoutStatus{c.first, c.then} {
				liar.Hint(n.name, x.ProviderID)
				liar.step(liar.FollowHints)
			}
			if x = n.stored(a.ID, "order 42"); x.Status != c.status || n.balance(a.ID) != c.balance || !strings.Contains(liar.log.String(), "contradicts") {
				t.Errorf("%+v\n%s", x, liar.log)
			}
		}
		n.audit()
	})
}

// says2 is a provider that says of every payout that it stands otherwise.
type says2 struct {
	chain.Payer
	status *chain.PayoutStatus
}

func (s *says2) GetPayout(ctx context.Context, id string) (chain.Payout, error) {
	p, err := s.Payer.GetPayout(ctx, id)
	p.Status = *s.status
	return p, err
}

// TestShowsSomethingElse has the provider show another amount, address, coin or reference: nothing moves.
func TestShowsSomethingElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for name, change := range map[string]func(*chain.Payout){
			"amount":    func(p *chain.Payout) { p.Amount = p.Amount.Add(p.Amount) },
			"address":   func(p *chain.Payout) { p.Address = "0x1EBAeF7Bee7B3a7B2EEfC72e86593Bf15ED37522" },
			"coin":      func(p *chain.Payout) { p.Currency = "usdterc20" },
			"reference": func(p *chain.Payout) { p.Reference = "somebody else's" },
		} {
			w := newWorld(t)
			sane := w.node(n.db)
			odd := w.node(n.db, func(at chain.Payer) chain.Payer { return &shows{Payer: at, change: change} })
			a := sane.holder(1000_000000)
			if got := told(sane.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
				t.Error(got)
			}
			sane.step(sane.FollowHints)
			x := sane.stored(a.ID, "order 42")
			sane.order(x, "finish")
			sane.advance(time.Minute)
			if _, err := odd.CheckDue(t.Context()); err == nil || !strings.Contains(err.Error(), "shows") {
				t.Errorf("%s: %v", name, err)
			}
			if x = sane.stored(a.ID, "order 42"); x.Status != withdrawal.Processing || sane.balance(a.ID) != waiting || x.DoubtAt.IsZero() || !strings.Contains(x.Reason, "shows") {
				t.Errorf("%s: %+v", name, x)
			}
			sane.advance(time.Minute)
			sane.step(sane.CheckDue)
			if x = sane.stored(a.ID, "order 42"); x.Status != withdrawal.Completed || !x.DoubtAt.IsZero() {
				t.Errorf("%s: %+v", name, x)
			}
			sane.audit()
		}
	})
}

// TestFindsSomethingElse has a server die after it had a withdrawal made, and the provider's list show another amount for it:
// it is not verified, and an operator is told.
func TestFindsSomethingElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		dead := n.world.node(n.db, through(lens{create: func(create func() (chain.Payout, error)) (chain.Payout, error) {
			_, _ = create()
			runtime.Goexit()
			return chain.Payout{}, nil
		}}))
		odd := n.world.node(n.db, through(lens{find: func(find func() (chain.Payout, error)) (chain.Payout, error) {
			p, err := find()
			p.Amount = p.Amount.Add(p.Amount)
			return p, err
		}}))
		a := n.holder(1000_000000)
		dies(t, func() { _, _, _ = dead.Create(t.Context(), request(a, "order 42", 100_000000)) })
		n.advance(time.Minute)
		if _, err := odd.CheckDue(t.Context()); err == nil || !strings.Contains(err.Error(), "shows") {
			t.Error(err)
		}
		if x := n.stored(a.ID, "order 42"); x.ProviderID != "" || x.DoubtAt.IsZero() || !strings.Contains(x.Reason, "shows") || n.made(x) != "WAITING 0" {
			t.Errorf("%s: %+v", n.made(x), x)
		}
		n.audit()
	})
}

type shows struct {
	chain.Payer
	change func(*chain.Payout)
}

func (s *shows) GetPayout(ctx context.Context, id string) (chain.Payout, error) {
	p, err := s.Payer.GetPayout(ctx, id)
	s.change(&p)
	return p, err
}

// TestCodesOnce has several withdrawals wait for their turn with a second factor whose codes are for one use.
func TestCodesOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		n.quirk("codes_once")
		a := n.holder(1000_000000)
		for i := range 3 {
			if got := told(n.Create(t.Context(), request(a, strconv.Itoa(i), 100_000000))); got != created {
				t.Error(got)
			}
		}
		n.step(n.FollowHints)
		n.advance(time.Minute)
		n.step(n.CheckDue)
		verified := 0
		for _, x := range n.all(a.ID) {
			if !x.VerifiedAt.IsZero() {
				verified++
			}
			if x.Status != withdrawal.Processing || !x.DoubtAt.IsZero() {
				t.Errorf("%+v", x)
			}
		}
		if verified == 0 || verified == 3 { // half a minute of real time may just have begun
			t.Errorf("%d are verified", verified)
		}
		n.audit()
	})
}

// TestVerifiedAgain has a provider forget a verification that it had answered: it is done again, and not at once, because
// codes are few.
func TestVerifiedAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		verifications := 0
		forgetful := n.world.node(n.db, through(lens{verify: func(verify func() error) error {
			if verifications++; verifications == 1 {
				return nil
			}
			return verify()
		}}))
		a := n.holder(1000_000000)
		if got := told(forgetful.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
			t.Error(got)
		}
		for _, c := range []struct {
			after         time.Duration
			verifications int
			made          string
		}{{time.Second, 1, "WAITING 0"}, {2 * time.Minute, 1, "WAITING 0"}, {4 * time.Minute, 2, "PROCESSING 0"}, {10 * time.Minute, 2, "PROCESSING 0"}} {
			n.advance(c.after)
			forgetful.step(forgetful.CheckDue)
			if made := n.made(n.stored(a.ID, "order 42")); made != c.made || verifications != c.verifications {
				t.Errorf("%v later: %s, verified %d times", c.after, made, verifications)
			}
		}
		n.audit()
	})
}

// TestCodeNotTaken has a provider take no code: there are few tries, so that none is wasted on a code that was refused
// before, however often the payout is heard of.
func TestCodeNotTaken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		verifications := 0
		strict := n.world.node(n.db, through(lens{verify: func(func() error) error {
			verifications++
			return &chain.Error{Outcome: chain.Refused, Class: chain.Credentials, Message: "wrong verification code"}
		}}))
		a := n.holder(1000_000000)
		if got := told(strict.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
			t.Error(got)
		}
		for _, after := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
			n.advance(after)
			strict.step(strict.FollowHints)
			strict.step(strict.CheckDue)
		}
		if verifications != 1 {
			t.Errorf("verified %d times within half a minute", verifications)
		}
		n.advance(10 * time.Second)
		strict.step(strict.CheckDue)
		if x := n.stored(a.ID, "order 42"); verifications != 2 || x.Status != withdrawal.Processing || !strings.Contains(x.Reason, "wrong verification code") {
			t.Errorf("verified %d times: %+v", verifications, x)
		}
		n.audit()
	})
}

// TestSearchIsBounded has the provider not know a withdrawal for days: it is looked for where it could be, not in all that
// was made since.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		var last chain.Search
		away := n.world.node(n.db, func(p chain.Payer) chain.Payer { return &searches{p, &last} })
		a := n.holder(1000_000000)
		n.fault("payout.send", "lost_not_executed", 1)
		if got := told(away.Create(t.Context(), request(a, "order 42", 100_000000))); got != created {
			t.Error(got)
		}
		n.advance(72 * time.Hour)
		away.step(away.CheckDue)
		if span := last.To.Sub(last.From); span > 25*time.Hour {
			t.Errorf("looked through %v", span)
		}
	})
}

// searches is a provider that cannot read its list, and notes what it was asked for.
type searches struct {
	chain.Payer
	last *chain.Search
}

func (s *searches) FindPayout(_ context.Context, asked chain.Search) (chain.Payout, error) {
	*s.last = asked
	return chain.Payout{}, &chain.Error{Class: chain.Protocol, Message: "the list was too long to be read to its end"}
}

// Whoever lacks the money is told so, also while the provider cannot be asked for its minimum.
func TestShortWhileAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.holder(100_000000)
		n.fault("minimum", "http_500", 2)
		if got := told(n.Create(t.Context(), request(a, "too much", 2000_000000))); !strings.HasPrefix(got, "insufficient_balance") {
			t.Error(got)
		}
		if got := told(n.Create(t.Context(), request(a, "enough", 50_000000))); !strings.HasPrefix(got, "minimum_unavailable") {
			t.Error(got)
		}
	})
}
