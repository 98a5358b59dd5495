package chainworld

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds of notifications.
const (
	noticesMax    = 1 << 16 // that wait
	noticeWorkers = 4
	noticeTimeMax = 5 * time.Second // of one try, in real time
	noticeTries   = 4               // the first one and three more
	noticeWait    = time.Minute     // of business time, between two tries
	noticeReadMax = 4 << 10         // bytes of an answer
	idleTimeMax   = time.Minute
)

// notice is a notification (IPN) on its way. It does not outlive the process: what is lost with it, the receiver finds by
// asking.
type notice struct {
	url   string
	body  []byte
	tries int
	due   time.Time // of the next try, in business time
}

// notices are all on their way.
type notices struct {
	world  *World
	client *http.Client

	mu   sync.Mutex
	list []notice
	lost int // because there were too many; told by the next delivery
}

func newNotices(w *World) *notices {
	transport := w.options.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: noticeWorkers, MaxConnsPerHost: noticeWorkers, IdleConnTimeout: idleTimeMax}
	}
	return &notices{world: w, client: &http.Client{
		Timeout:       noticeTimeMax,
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ofPayment tells a payment as it stands. The caller holds the world's mu.
func (n *notices) ofPayment(p *payment) {
	if p.Silent {
		return
	}
	body := n.world.paymentJSON(p)
	if n.world.quirks[QuirkNonASCII] {
		body["order_description"] = "Depósito — ção <&> \u2028"
	}
	c, _ := findCoin(p.currency())
	body["fee"] = map[string]any{"currency": c.code, "depositFee": json.Number("0.00000012"), "withdrawalFee": 0, "serviceFee": json.Number("0.10")}
	n.push(p.Callback, body, false)
}

// ofPayout tells a payout as it stands. The caller holds the world's mu.
func (n *notices) ofPayout(p *payout) {
	body := payoutJSON(p)
	delete(body, "unique_external_id") // which notifications are not known to have
	n.push(p.Callback, body, true)
}

// push puts a notification into the queue, in no time.
func (n *notices) push(url string, body map[string]any, ofPayout bool) {
	if url == "" {
		return
	}
	written, err := json.Marshal(body)
	if err != nil {
		panic("chainworld: " + err.Error()) // of plain values, which can always be encoded
	}
	one := notice{url: url, body: written, due: n.world.options.Clock.Now()}
	copies := 1
	if n.world.options.Twice(ofPayout) {
		copies = 2
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for range copies {
		if len(n.list) >= noticesMax {
			n.lost++
			return
		}
		if n.world.quirks[QuirkReversed] {
			n.list = slices.Insert(n.list, 0, one)
		} else {
			n.list = append(n.list, one)
		}
	}
}

func (n *notices) lose(ctx context.Context, why error) {
	n.world.options.Log.LogAttrs(ctx, slog.LevelWarn, "notification lost", slog.String("target", TargetCrypto), slog.String("error", why.Error()))
}

// take returns the first notification that is due, if any is, and how many were lost meanwhile.
func (n *notices) take() (one notice, lost int, ok bool) {
	now := n.world.options.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.list, func(one notice) bool { return !one.due.After(now) })
	lost, n.lost = n.lost, 0
	if i < 0 {
		return notice{}, lost, false
	}
	one = n.list[i]
	n.list = slices.Delete(n.list, i, i+1)
	return one, lost, true
}

// deliverNext delivers the first notification that is due. It reports whether there was any.
func (n *notices) deliverNext(ctx context.Context) bool {
	one, lost, ok := n.take()
	if lost > 0 {
		n.lose(ctx, fmt.Errorf("chainworld: %d more than can wait", lost))
	}
	if !ok {
		return false
	}
	err := n.deliver(ctx, one)
	if err == nil {
		return true
	}
	if one.tries++; one.tries >= noticeTries {
		n.lose(ctx, err)
		return true
	}
	one.due = n.world.options.Clock.Now().Add(noticeWait)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, one)
	return true
}

func (n *notices) deliver(ctx context.Context, one notice) error {
	signature, err := n.world.sign(one.body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, one.url, bytes.NewReader(one.body))
	if err != nil {
		return fmt.Errorf("chainworld: notification: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Nowpayments-Sig", signature)
	response, err := n.client.Do(r)
	if err != nil {
		return fmt.Errorf("chainworld: notification: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, noticeReadMax) // so that the connection can be used again
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("chainworld: notification: status %d", response.StatusCode)
	}
	return nil
}

// sign returns the signature of a body: of what JavaScript would make of it, with its keys in order. Numbers go through a
// float64, as they do there; a map is written with its keys in order; and what encoding/json escapes and JavaScript does not
// is put back.
func (w *World) sign(body []byte) (string, error) {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return "", fmt.Errorf("chainworld: notification: %w", err)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("chainworld: notification: %w", err)
	}
	message := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	for _, separator := range []string{"\u2028", "\u2029"} {
		message = bytes.ReplaceAll(message, fmt.Appendf(nil, `\u%04x`, []rune(separator)[0]), []byte(separator))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	mac := hmac.New(sha512.New, []byte(w.identity.IPN))
	mac.Write(message)
	return hex.EncodeToString(mac.Sum(nil)), nil
}
