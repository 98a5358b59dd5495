package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/plainjson"
	"github.com/ponte-pay/ponte/internal/wire"
)

// Bounds of notifications.
const (
	noticesMax      = 1 << 16                // that wait in a queue, and as many that wait for their time
	noticeBatch     = 50                     // told together, of those that wait
	noticeTimeMax   = 5 * time.Second        // of one try, in real time
	noticeLookEvery = 100 * time.Millisecond // for tries that are due
	noticeReadMax   = 4 << 10                // bytes of an answer
	noticeHeaderMax = 64 << 10               // bytes of its header
)

// noticeWaits are the waits of business time between the tries of a notification. After the last one it is lost.
var noticeWaits = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// notice is a Pix that came in or went out, or a return of it, that our client is to be told. It does not outlive the
// process: what is lost with it, the client finds by asking.
type notice struct {
	acquirer *acquirer
	isPayout bool      // it went out
	place    uint32    // of the payment or the payout
	returns  int       // how many of its returns are told; later ones have notices of their own
	tries    int       // so far
	due      time.Time // of the next try, in business time
}

// notices are the notifications of both acquirers on their way.
type notices struct {
	clock  *clock.Clock
	log    *slog.Logger
	client *http.Client
	ready  chan *notice // pointers, because it has room for noticesMax from the start

	mu    sync.Mutex
	later []*notice
}

func newNotices(c *clock.Clock, log *slog.Logger, transport http.RoundTripper) *notices {
	if transport == nil {
		transport = &wire.Transport{
			Dial: (&net.Dialer{Timeout: noticeTimeMax}).DialContext, HandshakeTimeMax: noticeTimeMax,
			ConnsMax: len(acquirerNames), IdleConnsMax: len(acquirerNames), IdleTimeMax: idleTimeMax, HeaderBytesMax: noticeHeaderMax,
		}
	}
	return &notices{
		clock: c, log: log, ready: make(chan *notice, noticesMax),
		client: &http.Client{
			Timeout:       noticeTimeMax,
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// notify tells a payment's receiver about it, in time: it only ever puts it into a queue.
func (a *acquirer) notify(v paymentView) {
	if v.txid == "" {
		return // the standard tells only of what has one
	}
	a.push(&notice{acquirer: a, place: v.place, returns: len(v.refunds)})
}

// notifySent tells the sender of a payout what became of it.
func (a *acquirer) notifySent(v payoutView) {
	a.push(&notice{acquirer: a, isPayout: true, place: v.place, returns: len(v.returns)})
}

// push puts a notice into the queue, twice if a fault wants it so.
func (a *acquirer) push(n *notice) {
	twin := *n // each has its own tries
	a.notices.push(n)
	if a.faults.onCallback(a.name, n.isPayout) {
		a.notices.push(&twin)
	}
}

func (n *notices) push(one *notice) { n.put(one, n.ready) }

// put puts a notice into a queue that has room.
func (n *notices) put(one *notice, queue chan<- *notice) {
	select {
	case queue <- one:
	default:
		n.lose(one, errors.New("too many are waiting"))
	}
}

func (n *notices) lose(one *notice, why error) {
	n.log.Warn("notification lost", slog.String("acquirer", one.acquirer.name), slog.String("error", why.Error()))
}

// run delivers until ctx ends. Each acquirer tells one thing after the other, and together what has come meanwhile, so that
// neither waits for a receiver of the other's.
func (n *notices) run(ctx context.Context) {
	var working sync.WaitGroup
	var queues [len(acquirerNames)]chan *notice
	for i := range queues {
		queue := make(chan *notice, noticesMax)
		queues[i] = queue
		working.Go(func() {
			for {
				select {
				case one := <-queue:
					for _, some := range gather(one, queue) {
						n.deliver(ctx, some)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	working.Go(func() {
		for {
			select {
			case one := <-n.ready:
				n.put(one, queues[one.acquirer.number])
			case <-ctx.Done():
				return
			}
		}
	})
	for n.clock.Wait(ctx, noticeLookEvery) == nil {
		n.wake()
	}
	working.Wait()
	n.client.CloseIdleConnections()
}

// step delivers everything that is due, one after the other. It reports whether there was anything.
func (n *notices) step(ctx context.Context) bool {
	n.wake()
	for did := false; ; did = true {
		select {
		case one := <-n.ready:
			n.deliver(ctx, []*notice{one})
		default:
			return did
		}
	}
}

// wake makes ready what is due.
func (n *notices) wake() {
	now := n.clock.Now()
	n.mu.Lock()
	var due []*notice
	n.later = slices.DeleteFunc(n.later, func(one *notice) bool {
		if one.due.After(now) {
			return false
		}
		due = append(due, one)
		return true
	})
	n.mu.Unlock()
	for _, one := range due {
		n.push(one)
	}
}

// gather returns one with others that wait, as they can be told together. Nothing is told twice at once: what a fault doubles
// comes twice, and a return after its payment.
func gather(one *notice, queue <-chan *notice) (groups [][]*notice) {
	for count := 1; ; count++ {
		at := slices.IndexFunc(groups, func(some []*notice) bool { return !slices.ContainsFunc(some, one.isSame) })
		if at < 0 {
			groups = append(groups, []*notice{one})
		} else {
			groups[at] = append(groups[at], one)
		}
		if count == noticeBatch {
			return groups
		}
		select {
		case one = <-queue:
		default:
			return groups
		}
	}
}

// isSame reports whether two notices of an acquirer tell of the same money.
func (one *notice) isSame(other *notice) bool {
	return one.isPayout == other.isPayout && one.place == other.place
}

// deliver tries once, and puts notifications that failed aside for a while.
func (n *notices) deliver(ctx context.Context, some []*notice) {
	err := n.try(ctx, some)
	if err == nil {
		return
	}
	for _, one := range some {
		n.putAside(one, err)
	}
}

// putAside keeps a notification that failed for its next try, if it has one.
func (n *notices) putAside(one *notice, err error) {
	if one.tries == len(noticeWaits) {
		n.lose(one, err)
		return
	}
	one.due = n.clock.Now().Add(noticeWaits[one.tries])
	one.tries++
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.later) >= noticesMax {
		n.lose(one, err)
		return
	}
	n.later = append(n.later, one)
}

// tell returns what a notification says.
func (one *notice) tell() (any, error) {
	a := one.acquirer
	if one.isPayout {
		a.books.mu.Lock()
		v := a.books.viewPayout(a.number, one.place)
		a.books.mu.Unlock()
		v.returns = v.returns[:one.returns]
		return a.sentNotice(v), nil
	}
	a.books.mu.Lock()
	v := a.books.viewPayment(a.number, one.place)
	a.books.mu.Unlock()
	v.refunds = v.refunds[:one.returns]
	return a.paymentJSON(v)
}

// try sends notifications of one acquirer. Without a webhook there is nobody to tell.
func (n *notices) try(ctx context.Context, some []*notice) error {
	a := some[0].acquirer
	a.books.mu.Lock()
	target := a.books.book[a.number].webhook.url
	a.books.mu.Unlock()
	if target == "" {
		return nil
	}
	told := make([]any, len(some))
	for i := range some {
		var err error
		if told[i], err = some[i].tell(); err != nil {
			return err
		}
	}
	body, err := plainjson.AppendItems([]byte(`{"pix":`), told)
	if err != nil {
		return fmt.Errorf("simulator: encode notification: %w", err)
	}
	body = append(body, '}')
	// Put behind the text of the URL, a query included: there are receivers who rely on it.
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(target, "/")+"/pix", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("simulator: notification: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := n.client.Do(r)
	if err != nil {
		return fmt.Errorf("simulator: notification: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, noticeReadMax) // so that the connection can be used again
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("simulator: notification: status %d", response.StatusCode)
	}
	return nil
}
