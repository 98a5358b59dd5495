package simulator

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ponte-pay/ponte/internal/clock"
)

// BenchmarkPutPayout is PUT /v3/gn/pix/{idEnvio} by itself.
func BenchmarkPutPayout(b *testing.B) {
	w := openWorld(b, b.TempDir(), clock.New(nil))
	alpha := w.acquirer("alpha")
	token, body, handler := alpha.token(), alpha.payoutBody("0.01", "52998224725"), w.AcquirerHandler("alpha")
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := httptest.NewRequest(http.MethodPut, fmt.Sprintf("/v3/gn/pix/1%034d", n.Add(1)), strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+token)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			if answer.Code != http.StatusCreated {
				b.Errorf("status %d: %s", answer.Code, answer.Body)
			}
		}
	})
}

// BenchmarkPutCharge is PUT /v2/cob/{txid}: by itself, and over TCP as a service does it.
func BenchmarkPutCharge(b *testing.B) {
	for _, way := range []string{"handler", "tcp"} {
		b.Run(way, func(b *testing.B) {
			w := openWorld(b, b.TempDir(), clock.New(nil))
			alpha := w.acquirer("alpha")
			token := alpha.token()
			body := `{"calendario":{"expiracao":3600},"devedor":{"cpf":"52998224725","nome":"Maria da Silva"},"valor":{"original":"30.00"},"chave":"` +
				alpha.account.Key + `","solicitacaoPagador":"Pedido 42"}`
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			handler := w.AcquirerHandler("alpha")
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var n atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					url := fmt.Sprintf("%s/v2/cob/1%034d", alpha.account.BaseURL, n.Add(1))
					r, _ := http.NewRequest(http.MethodPut, url, strings.NewReader(body))
					r.Header.Set("Authorization", "Bearer "+token)
					if way == "handler" {
						answer := httptest.NewRecorder()
						answer.Body = &bytes.Buffer{}
						handler.ServeHTTP(answer, r)
						if answer.Code != http.StatusCreated {
							b.Errorf("status %d: %s", answer.Code, answer.Body)
						}
						continue
					}
					answer, err := client.Do(r)
					if err != nil {
						b.Error(err)
						continue
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					if answer.StatusCode != http.StatusCreated {
						b.Errorf("status %d", answer.StatusCode)
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(b.N), "kept-B/charge")
		})
	}
}

// BenchmarkPayCharge is what follows when payers pay, a batch at a time and without the network: POST /sim/pix/pay for each,
// the notifications, and GET /v2/pix for all.
func BenchmarkPayCharge(b *testing.B) {
	s, err := Open(Options{Data: b.TempDir(), Clock: clock.New(nil), Transport: answerer{}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.books.setWebhook(0, "http://receiver.example/hook"); err != nil {
		b.Fatal(err)
	}
	token := s.acquirers[0].newToken()
	ask := func(handler http.Handler, method, path, body string) {
		r, _ := http.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			b.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
	}
	for n := range b.N {
		if _, err := s.books.createCharge(&chargeRecord{TxID: txidOf(n), Centavos: 100, Expires: 60, Request: "Pedido 42"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for begin := 0; begin < b.N; begin += noticeBatch {
		from := timeText(s.clock.Now().UnixMilli())
		for n := begin; n < min(b.N, begin+noticeBatch); n++ {
			ask(s.Handler(), http.MethodPost, "/sim/pix/pay", `{"txid":"`+txidOf(n)+`"}`)
		}
		for _, some := range gather(<-s.notices.ready, s.notices.ready) {
			s.notices.deliver(b.Context(), some)
		}
		ask(s.AcquirerHandler("alpha"), http.MethodGet, "/v2/pix?inicio="+from+"&fim="+timeText(s.clock.Now().UnixMilli()), "")
	}
}

// answerer answers everything at once.
type answerer struct{}

func (answerer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// BenchmarkReplay is the start of a simulator with books of some size.
func BenchmarkReplay(b *testing.B) {
	const charges = 20_000
	folder := b.TempDir()
	s, err := Open(Options{Data: folder, Clock: clock.New(nil)})
	if err != nil {
		b.Fatal(err)
	}
	for n := range charges {
		if _, err := s.books.createCharge(&chargeRecord{TxID: txidOf(n), Centavos: 100, Expires: 60, Request: "Pedido 42"}); err != nil {
			b.Fatal(err)
		}
	}
	s.Close()
	for b.Loop() {
		s, err := Open(Options{Data: folder, Clock: clock.New(nil)})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
	b.ReportMetric(float64(b.N*charges)/b.Elapsed().Seconds(), "charges/s")
}
