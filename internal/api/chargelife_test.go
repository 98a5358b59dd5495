package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

func TestChargeReplay(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		const body = `{"amount": 30, "external_id": "o-1", "description": "first"}`
		first := postCharge(t, s, a.Key, "key-00001", body).Want(t, http.StatusCreated)
		made := decodeCharge(t, first)
		wantReplay(t, first, postCharge(t, s, a.Key, "key-00001", `{"description": "first", "externalId": "o-1", "amount": 30.00}`))
		postCharge(t, s, a.Key, "key-00001", `{"amount": 30, "external_id": "o-1"}`).WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT")
		postCharge(t, s, a.Key, "key-00001", `{"amount": 31, "external_id": "o-2"}`).WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT")

		existing := postCharge(t, s, a.Key, "key-00002", `{"amount": 30, "external_id": "o-1", "description": "second"}`).Want(t, http.StatusOK)
		if string(existing.Body) != string(first.Body) || existing.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("the same external_id: %s, replayed %q", existing.Body, existing.Header.Get("Idempotent-Replayed"))
		}
		wantReplay(t, existing, postCharge(t, s, a.Key, "key-00002", `{"amount": 30, "external_id": "o-1", "description": "second"}`))
		postCharge(t, s, a.Key, "key-00003", `{"amount": 30.01, "external_id": "o-1"}`).WantError(t, http.StatusConflict, "EXTERNAL_ID_CONFLICT")

		// What another account does with the same names is its own.
		theirs := makeCharge(t, s, other.Key, "key-00001", `{"amount": 7, "external_id": "o-1"}`)
		if theirs.ID == made.ID || theirs.TxID == made.TxID {
			t.Errorf("two accounts share %+v", theirs)
		}

		s.World().Pay(t, testkit.Payment{CopyPaste: made.Pix.CopyPaste})
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, made.ID); got.Status != "paid" {
			t.Fatalf("%+v", got)
		}
		wantReplay(t, first, postCharge(t, s, a.Key, "key-00001", body)) // the answer of then, although it is paid by now
		now := decodeCharge(t, postCharge(t, s, a.Key, "key-00004", `{"amount": 30, "external_id": "o-1"}`).Want(t, http.StatusOK))
		if now.ID != made.ID || now.Status != "paid" || now.EndToEndID == nil || now.Pix.QRCodeImage != nil {
			t.Errorf("the same external_id after payment: %+v", now)
		}
		wantHappenings(t, s, a.ID, "charge.created", "charge.paid")
		if books := s.World().Books(t); len(books) != 2 {
			t.Errorf("the acquirers have %+v", books)
		}

		// After a week the key is free again, the external_id is not.
		s.Advance(t, 7*24*time.Hour+time.Second)
		postCharge(t, s, a.Key, "key-00001", `{"amount": 8, "external_id": "o-1"}`).WantError(t, http.StatusConflict, "EXTERNAL_ID_CONFLICT")
		if again := makeCharge(t, s, a.Key, "key-00001", `{"amount": 8, "external_id": "o-9"}`); again.ID == made.ID {
			t.Error("a key of last week is remembered")
		}
	})
}

func TestChargeLookup(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		for i, external := range []string{"plain", "order/1042", "a:b", "ext:x", "100% é?#&+", " space ", "..", "chg_1"} {
			made := makeCharge(t, s, a.Key, fmt.Sprintf("key-%05d", i), fmt.Sprintf(`{"amount": 10, "external_id": %q}`, external))
			for _, name := range []string{made.ID, made.TxID, strings.ToUpper(made.TxID), "ext:" + url.PathEscape(external), "ext%3A" + url.QueryEscape(strings.ReplaceAll(external, " ", "\x00"))} {
				name = strings.ReplaceAll(name, "%00", "%20")
				if got := getCharge(t, s, a.Key, name); got.ID != made.ID || got.ExternalID == nil || *got.ExternalID != external {
					t.Errorf("%s: %+v", name, got)
				}
				s.Get(t, other.Key, "/v1/charges/"+name).WantError(t, http.StatusNotFound, "NOT_FOUND").Lacks(t, made.TxID, made.ID)
			}
		}
		made := makeCharge(t, s, a.Key, "key-plain", `{"amount": 10}`)
		for _, name := range []string{
			"x", "chg_", "chg_00000000000000000000000000", "chg_" + made.TxID, made.ID + "0", strings.ToUpper(made.ID), "ext:", "ext:nobody", "ext:" + made.ID,
			"EXT:plain", "pyt_" + made.ID[4:], strings.Repeat("x", 300), "%27%20OR%201=1", made.TxID[1:], "%00", "ext:%00", "%FF", "ext:%FF",
		} {
			s.Get(t, a.Key, "/v1/charges/"+name).WantError(t, http.StatusNotFound, "NOT_FOUND")
		}
	})
}

// TestChargePaid pays charges in every way that a payment becomes known, and looks at all that follows from it.
func TestChargePaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		payment testkit.Payment
		learn   func(t *testing.T, s *testkit.Service, key, id string)
	}{
		{"notification", testkit.Payment{}, func(t *testing.T, s *testkit.Service, _, _ string) { s.Deliver(t) }},
		{"GET after a lost notification", testkit.Payment{Callback: testkit.Lost}, func(t *testing.T, s *testkit.Service, key, id string) {
			s.Deliver(t)
			if list, _ := listCharges(t, s, key, ""); list[0].Status != "pending" {
				t.Fatalf("%+v before anybody asked", list[0])
			}
			getCharge(t, s, key, id)
		}},
		{"list of payments after a lost notification", testkit.Payment{Callback: testkit.Lost}, func(t *testing.T, s *testkit.Service, _, _ string) {
			s.Advance(t, time.Minute)
			s.Step(t)
		}},
		{"last question before expiry", testkit.Payment{Callback: testkit.Lost}, func(t *testing.T, s *testkit.Service, _, _ string) {
			s.Advance(t, 2*time.Hour)
			s.Step(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, s *testkit.Service) {
				a := s.Account(t, "shop", "cash_in_fee=0.50+1%")
				first := postCharge(t, s, a.Key, "key-00001", `{"amount": 30, "external_id": "o-1"}`).Want(t, http.StatusCreated)
				made := decodeCharge(t, first)
				payment := c.payment // each database has its own
				payment.CopyPaste = made.Pix.CopyPaste
				paid := s.World().Pay(t, payment)
				c.learn(t, s, a.Key, made.ID)
				list, _ := listCharges(t, s, a.Key, "") // which asks no acquirer
				if len(list) != 1 || list[0].Status != "paid" {
					t.Fatalf("%+v", list)
				}
				shown := s.Get(t, a.Key, "/v1/charges/"+made.ID).Want(t, http.StatusOK)
				want := made
				want.Status, want.EndToEndID, want.PaidAt, want.Pix.QRCodeImage = "paid", &paid, list[0].PaidAt, nil
				if diff := cmp.Diff(want, decodeCharge(t, shown)); diff != "" || want.PaidAt == nil || want.PaidAt.Before(made.CreatedAt.Truncate(time.Millisecond)) {
					t.Errorf("(-want +got):\n%s", diff)
				}
				again := s.Get(t, a.Key, "/v1/charges/"+made.ID).Want(t, http.StatusOK)
				if diff := cmp.Diff(string(shown.Body), string(again.Body)); diff != "" {
					t.Errorf("asked again (-first +second):\n%s", diff)
				}
				wantBalance(t, s, a.Key, "29.20")

				// The same news again change nothing.
				s.Deliver(t)
				getCharge(t, s, a.Key, made.TxID)
				s.Advance(t, time.Minute)
				s.Step(t)
				wantBalance(t, s, a.Key, "29.20")
				happened := wantHappenings(t, s, a.ID, "charge.created", "charge.paid")
				for i, answer := range []*testkit.Answer{first, shown} {
					if diff := cmp.Diff(withoutImage(t, answer), happened[i].Data); diff != "" {
						t.Errorf("%s (-GET +event):\n%s", happened[i].Type, diff)
					}
				}
			})
		})
	}
}

func TestChargeExpiry(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		made := makeCharge(t, s, a.Key, "key-00001", `{"amount": 30, "expires_in": 60}`)
		longer := makeCharge(t, s, a.Key, "key-00002", `{"amount": 30, "expires_in": 120}`)
		s.Advance(t, 50*time.Second)
		s.Step(t)
		if got := getCharge(t, s, a.Key, made.ID); got.Status != "pending" || got.Pix.QRCodeImage == nil {
			t.Errorf("after 50 s: %+v", got)
		}
		s.Advance(t, 11*time.Second)
		s.Step(t)
		if got := getCharge(t, s, a.Key, made.ID); got.Status != "expired" || got.Pix.QRCodeImage != nil || got.PaidAt != nil {
			t.Errorf("after 61 s: %+v", got)
		}
		if got := getCharge(t, s, a.Key, longer.ID); got.Status != "pending" {
			t.Errorf("the longer one after 61 s: %+v", got)
		}
		wantHappenings(t, s, a.ID, "charge.created", "charge.created")
		wantBalance(t, s, a.Key, "0.00")

		// A payment that the acquirer took all the same is never lost.
		paid := s.World().Pay(t, testkit.Payment{CopyPaste: made.Pix.CopyPaste})
		s.Deliver(t)
		shown := s.Get(t, a.Key, "/v1/charges/"+made.ID)
		if got := decodeCharge(t, shown); got.Status != "paid" || got.EndToEndID == nil || *got.EndToEndID != paid || !got.PaidAt.After(got.ExpiresAt) {
			t.Errorf("paid late: %+v", got)
		}
		wantBalance(t, s, a.Key, "30.00")
		happened := wantHappenings(t, s, a.ID, "charge.created", "charge.created", "charge.paid")
		if diff := cmp.Diff(withoutImage(t, shown), happened[2].Data); diff != "" {
			t.Errorf("(-GET +event):\n%s", diff)
		}
	})
}

// TestChargeExpirySilent lets an acquirer be silent when a charge is due: it is not given up before a while.
func TestChargeExpirySilent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		made := makeCharge(t, s, a.Key, "key-00001", `{"amount": 30, "expires_in": 60}`)
		paid := makeCharge(t, s, a.Key, "key-00002", `{"amount": 7, "expires_in": 60}`)
		s.World().Pay(t, testkit.Payment{CopyPaste: paid.Pix.CopyPaste, Callback: testkit.Lost})
		s.World().Break(t, testkit.Fault{Target: "alpha", Kind: "refuse"})
		if got := getCharge(t, s, a.Key, made.ID); got.Status != "pending" { // what is stored counts
			t.Errorf("with a silent acquirer: %+v", got)
		}
		s.Advance(t, 2*time.Minute)
		s.Step(t)
		list, _ := listCharges(t, s, a.Key, "")
		for _, c := range list {
			if c.Status != "pending" {
				t.Errorf("expired unasked: %+v", c)
			}
		}
		s.World().Mend(t)
		s.Step(t)
		if got := getCharge(t, s, a.Key, made.ID); got.Status != "expired" {
			t.Errorf("%+v", got)
		}
		if got := getCharge(t, s, a.Key, paid.ID); got.Status != "paid" {
			t.Errorf("%+v", got)
		}
		wantBalance(t, s, a.Key, "7.00")
	})
}

// TestChargeOddPayments pays too little, too much, twice, and gives money back: all of it is in the balance, and the
// events stay one for each transition.
func TestChargeOddPayments(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		w := s.World()
		short := makeCharge(t, s, a.Key, "key-short", `{"amount": 10}`)
		w.Pay(t, testkit.Payment{CopyPaste: short.Pix.CopyPaste, Amount: "3.00"})
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, short.ID); got.Status != "pending" || got.EndToEndID != nil {
			t.Errorf("a short payment: %+v", got)
		}
		wantBalance(t, s, a.Key, "3.00")
		wantHappenings(t, s, a.ID, "charge.created")
		w.Pay(t, testkit.Payment{CopyPaste: short.Pix.CopyPaste, Amount: "10.00"})
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, short.ID); got.Status != "paid" {
			t.Errorf("the whole amount after a short payment: %+v", got)
		}
		wantBalance(t, s, a.Key, "13.00")

		excess := makeCharge(t, s, a.Key, "key-excess", `{"amount": 10}`)
		w.Pay(t, testkit.Payment{CopyPaste: excess.Pix.CopyPaste, Amount: "12.50"})
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, excess.ID); got.Status != "paid" || got.Amount != "10.00" {
			t.Errorf("an excess payment: %+v", got)
		}
		wantBalance(t, s, a.Key, "25.50")

		twice := makeCharge(t, s, a.Key, "key-twice", `{"amount": 10}`)
		first := w.Pay(t, testkit.Payment{CopyPaste: twice.Pix.CopyPaste})
		s.Deliver(t)
		w.Pay(t, testkit.Payment{CopyPaste: twice.Pix.CopyPaste})
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, twice.ID); got.Status != "paid" || *got.EndToEndID != first {
			t.Errorf("a second payment: %+v", got)
		}
		wantBalance(t, s, a.Key, "45.50")

		w.Do(t, http.MethodPost, "/sim/pix/refund", fmt.Sprintf(`{"end_to_end_id": %q, "amount": "4.00"}`, first), nil)
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, twice.ID); got.Status != "paid" {
			t.Errorf("a partial return: %+v", got)
		}
		wantBalance(t, s, a.Key, "41.50")
		w.Do(t, http.MethodPost, "/sim/pix/refund", fmt.Sprintf(`{"end_to_end_id": %q}`, first), nil)
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, twice.ID); got.Status != "refunded" || got.EndToEndID == nil || got.PaidAt == nil {
			t.Errorf("all given back: %+v", got)
		}
		wantBalance(t, s, a.Key, "35.50")

		removed := makeCharge(t, s, a.Key, "key-removed", `{"amount": 10}`)
		w.Do(t, http.MethodPost, "/sim/pix/remove", fmt.Sprintf(`{"txid": %q}`, removed.TxID), nil)
		if got := getCharge(t, s, a.Key, removed.ID); got.Status != "cancelled" || got.Pix.QRCodeImage != nil {
			t.Errorf("removed by its acquirer: %+v", got)
		}
		s.Advance(t, time.Minute)
		s.Step(t)
		wantBalance(t, s, a.Key, "35.50")
		wantHappenings(t, s, a.ID, "charge.created", "charge.paid", "charge.created", "charge.paid", "charge.created", "charge.paid", "charge.created")
	})
}

func TestChargeRelease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "release_delay=24h", "cash_in_fee=1.00")
		made := makeCharge(t, s, a.Key, "key-00001", `{"amount": 30}`)
		s.World().Pay(t, testkit.Payment{CopyPaste: made.Pix.CopyPaste})
		s.Deliver(t)
		pending := string(s.Get(t, a.Key, "/v1/balance").Body)
		if !strings.Contains(pending, `"pending_balance":29.00`) || !strings.Contains(pending, `"available_balance":0.00`) {
			t.Errorf("paid: %s", pending)
		}
		s.Advance(t, 24*time.Hour-time.Minute)
		s.Step(t)
		wantBalance(t, s, a.Key, "0.00")
		s.Advance(t, 2*time.Minute)
		s.Step(t)
		wantBalance(t, s, a.Key, "29.00")
		s.Step(t)
		wantBalance(t, s, a.Key, "29.00")
	})
}

func TestChargePages(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		if list, next := listCharges(t, s, a.Key, ""); len(list) != 0 || next != "" {
			t.Errorf("nothing yet: %v, %s", list, next)
		}
		theirs := makeCharge(t, s, other.Key, "key-00001", `{"amount": 10}`)
		const count = 7
		var made []charge // newest first
		for i := range count {
			made = slices.Insert(made, 0, makeCharge(t, s, a.Key, fmt.Sprintf("key-%05d", i), fmt.Sprintf(`{"amount": %d, "external_id": "o-%d"}`, 10+i, i)))
			s.Advance(t, time.Second)
		}
		for _, limit := range []int{1, 3, count, count + 1, 200} {
			var got []charge
			query := fmt.Sprintf("?limit=%d", limit)
			for next := ""; ; {
				page, after := listCharges(t, s, a.Key, query+next)
				got = append(got, page...)
				if len(page) > limit || len(got) > count {
					t.Fatalf("limit %d: %d charges", limit, len(page))
				}
				if after == "" {
					break
				}
				if after != page[len(page)-1].ID {
					t.Errorf("next_starting_after is %s, the last one %s", after, page[len(page)-1].ID)
				}
				next = "&starting_after=" + after
			}
			if diff := cmp.Diff(made, got); diff != "" {
				t.Errorf("limit %d (-want +got):\n%s", limit, diff)
			}
		}
		for cursor, want := range map[string][]charge{
			made[2].CreatedAt.Format("2006-01-02T15:04:05.000000Z"):                                         made[3:],
			made[2].CreatedAt.Add(time.Microsecond).Format("2006-01-02T15:04:05.000000Z"):                   made[2:],
			made[2].CreatedAt.In(time.FixedZone("BRT", -3*3600)).Format("2006-01-02T15:04:05.000000Z07:00"): made[3:],
			made[0].CreatedAt.AddDate(0, 0, 2).Format(time.DateOnly):                                        made,
			made[0].CreatedAt.AddDate(0, 0, -2).Format(time.DateOnly):                                       nil,
			made[count-1].ID: nil,
		} {
			got, _ := listCharges(t, s, a.Key, "?starting_after="+url.QueryEscape(cursor))
			if diff := cmp.Diff(slices.Clone(want), append([]charge(nil), got...)); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", cursor, diff)
			}
		}
		for query, paths := range map[string][]string{
			"limit=0": {"limit"}, "limit=201": {"limit"}, "limit=x": {"limit"}, "limit=": {"limit"}, "starting_after=": {"starting_after"},
			"starting_after=nobody": {"starting_after"}, "starting_after=" + theirs.ID: {"starting_after"}, "starting_after=2026-13-01": {"starting_after"},
			"starting_after=" + made[0].TxID: {"starting_after"}, "starting_after=ext:o-1": {"starting_after"}, "limit=0&starting_after=x": {"limit", "starting_after"},
		} {
			got := s.Do(t, testkit.Request{Path: "/v1/charges?" + query, Key: a.Key, Invalid: true})
			if got.Status != http.StatusBadRequest || !slices.Equal(got.Paths(), paths) {
				t.Errorf("%s: %d %s", query, got.Status, got.Body)
			}
		}
	})
}

// race sends one request many times at once, to each server in turn, until each racer has an answer that is no "wait".
// It returns the answers.
func race(t *testing.T, services []*testkit.Service, request func(racer int) testkit.Request) []*testkit.Answer {
	t.Helper()
	const racers = 16
	answers := make([]*testkit.Answer, racers)
	gun := make(chan struct{})
	var running sync.WaitGroup
	for i := range racers {
		running.Go(func() {
			<-gun
			for range 1000 {
				got, err := testkit.Try(t.Context(), services[i%len(services)].URL, request(i))
				if err != nil {
					t.Error(err)
					return
				}
				answers[i] = got
				if code := got.Error().Code; !strings.HasSuffix(code, "_in_progress") && code != "SERVICE_UNAVAILABLE" {
					return
				}
				_ = testkit.Real.Wait(t.Context(), time.Millisecond) // the one that is under way needs the processor
			}
			t.Error("in progress for ever")
		})
	}
	close(gun)
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return answers
}

// wantOne fails the test unless the answers are about one charge that one of them made.
func wantOne(t *testing.T, answers []*testkit.Answer, others int) charge {
	t.Helper()
	made := 0
	var body string
	for _, got := range answers {
		switch {
		case got.Status == http.StatusCreated && got.Header.Get("Idempotent-Replayed") == "":
			made++
		case got.Status != others:
			t.Fatalf("got %d %s", got.Status, got.Body)
		}
		if body == "" {
			body = string(got.Body)
		}
		if string(got.Body) != body {
			t.Errorf("two charges: %s and %s", got.Body, body)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	return decodeCharge(t, answers[0])
}

func testRace(t *testing.T, w *testkit.World, services ...*testkit.Service) {
	t.Helper()
	a := services[0].Account(t, "shop", "rate_limit=1000000") // they knock often
	var charges []charge
	const rounds = 3
	for round := range rounds {
		key, body := fmt.Sprintf("key-race-%d", round), fmt.Sprintf(`{"amount": 30, "external_id": "race-%d"}`, round)
		same := race(t, services, func(int) testkit.Request { return chargeRequest(a.Key, key, body) })
		charges = append(charges, wantOne(t, same, http.StatusCreated))
		// One external_id under as many keys.
		body = fmt.Sprintf(`{"amount": 30, "external_id": "keys-%d"}`, round)
		several := race(t, services, func(i int) testkit.Request { return chargeRequest(a.Key, fmt.Sprintf("%s-%d", key, i), body) })
		charges = append(charges, wantOne(t, several, http.StatusOK))
	}
	if books := w.Books(t); len(books) != 2*rounds {
		t.Errorf("the acquirers have %d charges", len(books))
	}
	if list, _ := listCharges(t, services[0], a.Key, ""); len(list) != 2*rounds {
		t.Errorf("%d charges", len(list))
	}
	wantHappenings(t, services[0], a.ID, slices.Repeat([]string{"charge.created"}, 2*rounds)...)

	// And all ask for a charge that was paid.
	for _, c := range charges {
		w.Pay(t, testkit.Payment{CopyPaste: c.Pix.CopyPaste})
		for _, got := range race(t, services, func(int) testkit.Request { return testkit.Request{Path: "/v1/charges/" + c.ID, Key: a.Key} }) {
			if decodeCharge(t, got.Want(t, http.StatusOK)).Status != "paid" {
				t.Errorf("%s", got.Body)
			}
		}
	}
	wantBalance(t, services[0], a.Key, "180.00")
	if got := happenings(t, services[0], a.ID); len(got) != 4*rounds {
		t.Errorf("%d events", len(got))
	}
}

// TestChargeRacers sends one creation many times at once: it makes one charge.
func TestChargeRacers(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		s := testkit.Run(t, url)
		testRace(t, s.World(), s)
	})
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		w, url := testkit.NewWorld(t), sqltest.Postgres(t)
		testRace(t, w, testkit.Run(t, url, testkit.Simulator(w)), testkit.Run(t, url, testkit.Simulator(w)))
	})
}
