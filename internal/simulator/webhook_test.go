package simulator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
)

func TestWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	path, foreign := "/v2/webhook/"+alpha.account.Key, "/v2/webhook/"+w.acquirer("beta").account.Key
	wantProblem(t, alpha.do("GET", path, ""), http.StatusNotFound, "WebhookNaoEncontrado", "")
	wantProblem(t, alpha.do("DELETE", path, ""), http.StatusNotFound, "WebhookNaoEncontrado", "")

	alpha.do("PUT", path, `{"webhookUrl":"http://a.example/first"}`).want(t, http.StatusCreated, `{"webhookUrl":"http://a.example/first"}`)
	w.clock.Raise(time.Second)
	alpha.do("PUT", path, `{"webhookUrl":"https://a.example/hook?hmac=x&ignorar="}`).want(t, http.StatusCreated)
	told := alpha.do("GET", path, "")
	want := fmt.Sprintf(`{"webhookUrl":"https://a.example/hook?hmac=x&ignorar=","chave":"%s","criacao":"2026-11-15T12:00:01.000Z"}`, alpha.account.Key)
	if diff := cmp.Diff(want, strings.TrimSpace(told.body)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	alpha.do("GET", "/v2/webhook"+window(0, time.Hour, ""), "").want(t, http.StatusOK, `"webhooks":[`+want+`]`, `"quantidadeTotalDeItens":1`)
	alpha.do("GET", "/v2/webhook"+window(0, time.Millisecond, ""), "").want(t, http.StatusOK, `"webhooks":[]`, `"quantidadeTotalDeItens":0`)

	for _, bad := range []string{
		`{}`, `{"webhookUrl":null}`, `{"webhookUrl":""}`, `{"webhookUrl":"a.example"}`, `{"webhookUrl":"ftp://a.example"}`,
		`{"webhookUrl":"http://"}`, `{"webhookUrl":"http://a.example/#x"}`, `{"webhookUrl":"http://a.example/ x"}`, `{"webhookUrl":7}`,
		`{"webhookUrl":"http://a.example/` + strings.Repeat("x", 2000) + `"}`,
	} {
		wantProblem(t, alpha.do("PUT", path, bad), http.StatusBadRequest, "WebhookOperacaoInvalida", "webhook.webhookUrl")
	}
	wantProblem(t, alpha.do("PUT", foreign, `{"webhookUrl":"http://a.example"}`), http.StatusBadRequest, "WebhookOperacaoInvalida", "webhook.chave")
	wantProblem(t, alpha.do("GET", foreign, ""), http.StatusNotFound, "WebhookNaoEncontrado", "webhook.chave")
	wantProblem(t, alpha.do("DELETE", foreign, ""), http.StatusNotFound, "WebhookNaoEncontrado", "webhook.chave")

	if got := alpha.do("DELETE", path, ""); got.status != http.StatusNoContent || got.body != "" {
		t.Errorf("DELETE: %d %q", got.status, got.body)
	}
	wantProblem(t, alpha.do("GET", path, ""), http.StatusNotFound, "WebhookNaoEncontrado", "")
}

func TestNotification(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newReceiver(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	alpha.register(v.url + "/hook/")
	for n := 1; n <= 4; n++ {
		alpha.create(n, "10.00")
	}
	beta.create(5, "10.00")

	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	var told paymentJSON
	alpha.do("GET", "/v2/pix/"+e2e, "").into(t, http.StatusOK, &told)
	w.step()
	if len(v.got) != 1 || !strings.HasPrefix(v.got[0], "/hook/pix {") {
		t.Errorf("notified of %q", v.got)
	}
	if diff := cmp.Diff([]paymentJSON{told}, v.take()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	t.Log("lost, without a webhook, without a txid: nobody is told")
	w.pay(`{"txid":"` + txidOf(2) + `","callback":false}`)
	w.pay(`{"txid":"` + txidOf(5) + `"}`)
	w.pay(`{"copy_paste":"` + staticCode(t, alpha.account.Key, "", 100) + `"}`)
	w.step()
	if got := v.take(); len(got) != 0 {
		t.Errorf("notified of %v", got)
	}

	t.Log("a static code's txid is told")
	w.pay(`{"copy_paste":"` + staticCode(t, alpha.account.Key, "loja7", 100) + `"}`)
	w.step()
	if got := v.take(); len(got) != 1 || got[0].TxID != "loja7" {
		t.Errorf("notified of %v", got)
	}

	t.Log("what happened before a webhook changed goes to the new one")
	other := newReceiver(t)
	w.pay(`{"txid":"` + txidOf(3) + `"}`)
	alpha.register(other.url + "/x?hmac=1&ignorar=")
	w.step()
	if len(v.take()) != 0 || len(other.got) != 1 || !strings.HasPrefix(other.got[0], "/x?hmac=1&ignorar=/pix {") {
		t.Errorf("notified of %q", other.got)
	}

	t.Log("each notification tells what was true when it was made")
	other.take()
	e2e = w.pay(`{"txid":"` + txidOf(4) + `"}`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`","amount":"1.00"}`).want(t, http.StatusOK)
	alpha.do("PUT", "/v2/pix/"+e2e+"/devolucao/d2", `{"valor":"2.00"}`).want(t, http.StatusCreated)
	w.step()
	var refunds []string
	for _, p := range other.take() {
		values := []string{}
		for _, r := range p.Refunds {
			values = append(values, r.Value)
		}
		refunds = append(refunds, p.EndToEndID+" "+strings.Join(values, "+"))
	}
	if diff := cmp.Diff([]string{e2e + " ", e2e + " 1.00", e2e + " 1.00+2.00"}, refunds); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestNotificationsTogether shows that what waits is told in one notification, each thing once, and that all of it is told
// again when nobody takes it.
func TestNotificationsTogether(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newReceiver(t)
	alpha := w.acquirer("alpha")
	alpha.register(v.url)
	w.fault(`{"target":"alpha","operation":"charge.get","kind":"duplicate_callback","times":1}`)
	for n := range noticeBatch + 2 {
		alpha.create(n, "10.00")
		w.pay(`{"txid":"` + txidOf(n) + `"}`)
	}
	tell := func() (sizes []int) {
		for _, some := range gather(<-w.notices.ready, w.notices.ready) {
			sizes = append(sizes, len(some))
			w.notices.deliver(t.Context(), some)
		}
		return sizes
	}
	v.status.Store(http.StatusInternalServerError)
	for i, want := range [][]int{{noticeBatch - 1, 1}, {3}} { // the first one comes twice
		if diff := cmp.Diff(want, tell()); diff != "" {
			t.Errorf("round %d (-want +got)\n%s", i, diff)
		}
	}
	if posts, told := len(v.got), v.take(); posts != 3 || len(told) != noticeBatch+3 {
		t.Errorf("%d notifications of %d payments", posts, len(told))
	}
	v.status.Store(http.StatusOK)
	w.clock.Raise(w.clock.Offset() + noticeWaits[0])
	w.step()
	if told := v.take(); len(told) != noticeBatch+3 {
		t.Errorf("%d payments are told again", len(told))
	}
}

func TestNotificationIsRepeated(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newReceiver(t)
	alpha := w.acquirer("alpha")
	alpha.register(v.url)
	alpha.create(1, "10.00")
	v.status.Store(http.StatusInternalServerError)
	w.pay(`{"txid":"` + txidOf(1) + `"}`)
	count := func() int { w.step(); w.step(); return len(v.take()) }
	if got := count(); got != 1 {
		t.Fatalf("%d tries at once", got)
	}
	for i, wait := range noticeWaits {
		w.clock.Raise(w.clock.Offset() + wait - time.Millisecond)
		if got := count(); got != 0 {
			t.Errorf("try %d comes early", i+2)
		}
		w.clock.Raise(w.clock.Offset() + time.Millisecond)
		// A redirect is no success either, and is not followed.
		v.status.Store([]int32{http.StatusFound, http.StatusBadRequest}[i%2])
		if got := count(); got != 1 {
			t.Errorf("after %v: %d tries, want 1", wait, got)
		}
	}
	w.clock.Raise(w.clock.Offset() + 24*time.Hour)
	if got := count(); got != 0 {
		t.Errorf("%d tries after the last", got)
	}

	t.Log("success ends it")
	v.status.Store(http.StatusServiceUnavailable)
	w.pay(`{"txid":"` + txidOf(1) + `"}`)
	if got := count(); got != 1 {
		t.Fatalf("%d tries at once", got)
	}
	v.status.Store(http.StatusNoContent)
	w.clock.Raise(w.clock.Offset() + 24*time.Hour)
	if got := count(); got != 1 {
		t.Errorf("%d tries, want 1", got)
	}
	w.clock.Raise(w.clock.Offset() + 24*time.Hour)
	if got := count(); got != 0 {
		t.Errorf("%d tries after success", got)
	}
}

// TestServe has the workers deliver, also after the clock was moved, while a receiver that hangs blocks nobody else.
func TestServe(t *testing.T) {
	t.Parallel()
	w, v := openWorld(t, t.TempDir(), clock.New(nil)), newReceiver(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx) }()
	alpha.register(v.url)
	beta.register("http://127.0.0.1:1") // where nobody listens
	v.status.Store(http.StatusInternalServerError)
	for n := 1; n <= 20; n++ {
		alpha.create(n, "10.00")
		beta.create(n, "10.00")
		w.pay(`{"acquirer":"alpha","txid":"` + txidOf(n) + `"}`)
		w.pay(`{"acquirer":"beta","txid":"` + txidOf(n) + `"}`)
	}
	told := func() (n int) { v.mu.Lock(); defer v.mu.Unlock(); return len(v.pixs) }
	clocktest.Wait(t, "20 notifications", func() bool { return told() >= 20 })
	clocktest.Wait(t, "40 that failed", func() bool {
		w.notices.mu.Lock()
		defer w.notices.mu.Unlock()
		return len(w.notices.later) == 40
	})
	v.take()
	v.status.Store(http.StatusOK)
	w.sim("POST", "/sim/clock", `{"advance_seconds":3600}`).want(t, http.StatusOK)
	clocktest.Within(t, time.Second, "20 repetitions after the move", func() bool { return told() == 20 })
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := alpha.try("GET", "/v2/cob/"+txidOf(1), ""); err == nil {
		t.Error("it answers after Serve ended")
	}
}

func TestNotificationsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	for range noticesMax + 5 {
		w.acquirers[0].notify(paymentView{txid: "x"})
	}
	// The route still answers.
	w.pay(`{"txid":"` + txidOf(1) + `"}`)
	if got := len(w.notices.ready); got != noticesMax {
		t.Errorf("%d wait, want %d", got, noticesMax)
	}
	for len(w.notices.ready) > 0 {
		<-w.notices.ready
	}
}
