package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// payAndFind pays a charge and returns it in the books of who was paid: both acquirers may have its txid.
func payAndFind(t *testing.T, s *testkit.Service, c charge) testkit.Book {
	t.Helper()
	paid := s.World().Pay(t, testkit.Payment{CopyPaste: c.Pix.CopyPaste})
	for _, b := range s.World().Books(t) {
		if b.EndToEndID == paid {
			return b
		}
	}
	t.Fatalf("nobody was paid for %+v", c)
	return testkit.Book{}
}

// failover is a fault of alpha, and who takes charges until alpha is not even asked.
type failover struct {
	testkit.Fault
	taker string
}

const failuresMax = 5 // in a row; then beta takes them all

// test makes charges while alpha has its fault: they are taken, in time, once, and can be paid.
func (f failover) test(t *testing.T, s *testkit.Service, count int) {
	t.Helper()
	a := s.Account(t, "shop")
	if f.Operation == "token" {
		s.Advance(t, 24*time.Hour) // so that a new one is needed
	}
	f.Target = "alpha"
	s.World().Break(t, f.Fault)
	for i := range count {
		began := testkit.Real.Real()
		body := fmt.Sprintf(`{"amount": 10, "external_id": "o-%d"}`, i)
		made := makeCharge(t, s, a.Key, fmt.Sprintf("key-%05d", i), body)
		if took := testkit.Real.RealSince(began); took > 15*time.Second {
			t.Errorf("charge %d took %v", i, took)
		}
		taker := f.taker
		if i >= failuresMax {
			taker = "beta"
		}
		if b := payAndFind(t, s, made); b.Acquirer != taker || b.TxID != made.TxID {
			t.Errorf("charge %d is at %+v", i, b)
		}
		s.Deliver(t)
		if got := getCharge(t, s, a.Key, made.ID); got.Status != "paid" {
			t.Errorf("charge %d: %+v", i, got)
		}
		again := decodeCharge(t, postCharge(t, s, a.Key, fmt.Sprintf("key-%05d", i), body).Want(t, http.StatusCreated))
		if again.ID != made.ID {
			t.Errorf("charge %d was made twice", i)
		}
	}
	wantBalance(t, s, a.Key, fmt.Sprintf("%d.00", 10*count))

	// Once alpha works again, it is asked again within half a minute of the clock, and what it may have made is removed.
	s.World().Mend(t)
	s.Advance(t, 31*time.Second)
	for range count {
		s.Step(t)
	}
	for _, b := range s.World().Books(t) {
		if b.Acquirer == "alpha" && b.Status == "ATIVA" {
			t.Errorf("left at alpha: %+v", b)
		}
	}
	made := makeCharge(t, s, a.Key, "key-after", `{"amount": 10}`)
	if b := payAndFind(t, s, made); b.Acquirer != "alpha" {
		t.Errorf("afterwards it is at %+v", b)
	}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	for _, f := range []failover{
		{testkit.Fault{Kind: "refuse"}, "beta"},
		{testkit.Fault{Kind: "garbage"}, "beta"},
		{testkit.Fault{Kind: "http_500"}, "beta"},
		{testkit.Fault{Kind: "http_429"}, "beta"},
		{testkit.Fault{Kind: "http_500", Operation: "token"}, "beta"},
		{testkit.Fault{Kind: "garbage", Operation: "token"}, "beta"},
		{testkit.Fault{Kind: "lost_not_executed", Operation: "charge.create", DelayMS: 1}, "beta"},
		{testkit.Fault{Kind: "lost_executed", DelayMS: 1}, "beta"},
		// It was made, and can be looked up.
		{testkit.Fault{Kind: "garbage", Operation: "charge.create"}, "alpha"},
		{testkit.Fault{Kind: "lost_executed", Operation: "charge.create", DelayMS: 1}, "alpha"},
	} {
		t.Run(f.Kind+" "+f.Operation, func(t *testing.T) {
			t.Parallel()
			const count = failuresMax + 2
			if f.Kind == "refuse" || f.taker == "alpha" {
				testkit.Each(t, func(t *testing.T, s *testkit.Service) { f.test(t, s, count) })
				return
			}
			f.test(t, testkit.Start(t, sqltest.SQLite(t)), count)
		})
	}
}

// TestFailoverSlow has alpha answer everything after the time that one try may take.
func TestFailoverSlow(t *testing.T) {
	t.Parallel()
	slow := failover{testkit.Fault{Kind: "slow", DelayMS: 6000}, "beta"}
	slow.test(t, testkit.Start(t, sqltest.SQLite(t)), 1)
}

// TestRefusedByAcquirer has alpha refuse a charge for its own sake: nobody else is asked, and key and external_id are free.
func TestRefusedByAcquirer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		const body = `{"amount": 10, "external_id": "o-1"}`
		s.World().Break(t, testkit.Fault{Target: "alpha", Operation: "charge.create", Kind: "reject"})
		postCharge(t, s, a.Key, "key-refused", body).WantError(t, http.StatusUnprocessableEntity, "charge_failed")
		if books := s.World().Books(t); len(books) > 0 {
			t.Errorf("the banks have %+v", books)
		}
		s.Get(t, a.Key, "/v1/charges/ext:o-1").WantError(t, http.StatusNotFound, "NOT_FOUND")
		s.World().Mend(t)
		makeCharge(t, s, a.Key, "key-refused", body)
	})
}

// TestNobodyThere has both acquirers away: the caller is told to repeat, and can.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"refuse", "http_500", "garbage"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, s *testkit.Service) {
				a := s.Account(t, "shop")
				for _, name := range []string{"alpha", "beta"} {
					s.World().Break(t, testkit.Fault{Target: name, Kind: kind})
				}
				const body = `{"amount": 10, "external_id": "o-1"}`
				for range 7 {
					got := postCharge(t, s, a.Key, "key-00001", body).WantError(t, http.StatusBadGateway, "PROVIDER_UNAVAILABLE")
					if retryable := got.Lacks(t, "alpha", "beta").Error().Retryable; retryable == nil || !*retryable {
						t.Errorf("%s", got.Body)
					}
				}
				s.Get(t, a.Key, "/v1/charges/ext:o-1").WantError(t, http.StatusNotFound, "NOT_FOUND")
				if list, _ := listCharges(t, s, a.Key, ""); len(list) != 0 {
					t.Errorf("%+v", list)
				}
				wantHappenings(t, s, a.ID)
				s.World().Mend(t)
				made := makeCharge(t, s, a.Key, "key-00001", body)
				payAndFind(t, s, made)
				s.Deliver(t)
				wantBalance(t, s, a.Key, "10.00")
				wantHappenings(t, s, a.ID, "charge.created", "charge.paid")

				// What failed bound nothing: the key is free for another body, too.
				s.World().Break(t, testkit.Fault{Target: "alpha", Kind: kind})
				s.World().Break(t, testkit.Fault{Target: "beta", Kind: kind})
				postCharge(t, s, a.Key, "key-00002", `{"amount": 10, "external_id": "o-2"}`).WantError(t, http.StatusBadGateway, "PROVIDER_UNAVAILABLE")
				s.World().Mend(t)
				makeCharge(t, s, a.Key, "key-00002", `{"amount": 11, "external_id": "o-2"}`)
			})
		})
	}
}
