package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

func newTestRun(t *testing.T, length time.Duration) *run {
	t.Helper()
	return &run{Options: Options{Length: length, Progress: func(Step) {}}, clock: clock.New(nil), processors: func() processors { return processors{} }, folder: t.TempDir()}
}

func TestHammerCountsAnswers(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || string(body) != `{"n":1}` || r.Header.Get("Authorization") != "Bearer key" || r.Header.Get("Idempotency-Key") != "once" {
			t.Errorf("%s %s %v", r.Method, body, r.Header)
		}
		asked.Add(1)
		_, _ = io.WriteString(w, `{"id":"chg_1","txid":"abc"}`)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	const requests = 50
	var left, seen atomic.Int64
	left.Store(requests)
	c := call{address: address, path: "/v1/charges", key: "key", once: "once", body: `{"n":1}`}
	got, err := newTestRun(t, 0).hammer(t.Context(), time.Minute, &traffic{
		address: address, connections: 4, want: "HTTP/1.1 200",
		next: func(scrap []byte) []byte {
			if left.Add(-1) < 0 {
				return nil
			}
			return c.write(scrap)
		},
		each: func(body []byte) {
			if string(valueOf(body, "txid")) == "abc" && len(valueOf(body, "other")) == 0 {
				seen.Add(1)
			}
		},
	})
	if err != nil || got.answers != requests || asked.Load() != requests || seen.Load() != requests || got.p99 < got.p50 || got.p50 <= 0 {
		t.Errorf("%+v, %d asked, %d seen: %v", got, asked.Load(), seen.Load(), err)
	}
}

// At an even pace a server that stalls is charged for those that had to wait for it.
func TestHammerKeepsItsPace(t *testing.T) {
	t.Parallel()
	const stall = 200 * time.Millisecond
	c := clock.New(nil)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			_ = c.Wait(r.Context(), stall)
		}
		w.Header().Set("Content-Length", "0")
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	got, err := newTestRun(t, 0).hammer(t.Context(), time.Second, &traffic{
		address: address, connections: 1, perSecond: 100, want: "HTTP/1.1 200",
		next: func(scrap []byte) []byte { return (&call{address: address, path: "/"}).write(scrap) },
	})
	// Twenty requests were due while it stalled; without them two in a hundred would be slow at most.
	if err != nil || got.answers > 100 || got.answers < 30 || got.p99 < stall/2 {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestHammerFailsOnARefusal(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too many", http.StatusTooManyRequests) }))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	_, err := newTestRun(t, 0).hammer(t.Context(), time.Minute, &traffic{
		address: address, connections: 2, want: "HTTP/1.1 200",
		next: func(scrap []byte) []byte { return (&call{address: address, path: "/"}).write(scrap) },
	})
	if err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}

// A server that is not available is asked again, with the same request, and the time counts.
func TestHammerComesAgain(t *testing.T) {
	t.Parallel()
	var asked, sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 4 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	got, err := newTestRun(t, 0).hammer(t.Context(), time.Minute, &traffic{
		address: address, connections: 1, want: "HTTP/1.1 200",
		next: func(scrap []byte) []byte {
			if sent.Add(1) > 1 {
				return nil
			}
			return (&call{address: address, path: "/"}).write(scrap)
		},
	})
	if err != nil || got.answers != 1 || asked.Load() != 4 || got.p99 < 3*comeAgainAfter {
		t.Errorf("%+v after %d: %v", got, asked.Load(), err)
	}
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	v, err := newReceiver(t.Context(), func(body []byte) { got <- string(body) })
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"txid":"a"}`, `{"txid":"longer"}`} { // on one connection
		response, err := http.Post("http://"+v.address+"/1", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if seen := <-got; response.StatusCode != http.StatusOK || seen != body {
			t.Errorf("%s: %s %s", body, response.Status, seen)
		}
	}
	v.close()
	if len(v.open) != 0 {
		t.Errorf("%d connections are open", len(v.open))
	}
}

// A baseline stands before and after what is compared with it, and the one after serves the next comparison.
func TestBetween(t *testing.T) {
	t.Parallel()
	r := newTestRun(t, 20*time.Millisecond)
	for round := 1; round <= 2; round++ {
		around, err := r.between(t.Context(), []string{liteCommits}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		samples := r.baseline(liteCommits).samples
		if len(samples) != round+1 || len(around) != 1 || around[0] != (bracket{name: liteCommits, before: samples[round-1], after: samples[round]}) {
			t.Fatalf("round %d: %+v of %v", round, around, samples)
		}
	}
	r.tellBaselines()
	if row := r.report.Rows[0]; row.Low <= 0 || row.Low > row.Value || row.Value > row.High {
		t.Errorf("%+v", row)
	}
}
