package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// infraction is an infraction as callers see it.
type infraction struct {
	ID                 string      `json:"id"`
	ExternalID         *string     `json:"external_id"`
	EndToEndID         string      `json:"end_to_end_id"`
	Reason             *string     `json:"reason"`
	ReasonCode         *string     `json:"reason_code"`
	Amount             json.Number `json:"amount"`
	Status             string      `json:"status"`
	OpenedAt           time.Time   `json:"opened_at"`
	DeadlineAt         time.Time   `json:"deadline_at"`
	ResolvedAt         *time.Time  `json:"resolved_at"`
	DefenseSubmittedAt *time.Time  `json:"defense_submitted_at"`
	DefenseText        *string     `json:"defense_text"`
	DefenseEvidenceURL *string     `json:"defense_evidence_url"`
}

// dispute opens an infraction on a payment and returns the bank's name for it, once the service knows it.
func dispute(t *testing.T, s *testkit.Service, endToEndID, amount string) string {
	t.Helper()
	var opened struct {
		ID string `json:"id"`
	}
	s.World().Do(t, http.MethodPost, "/sim/med", fmt.Sprintf(`{"end_to_end_id": %q, "amount": %q, "reason": "não recebi"}`, endToEndID, amount), &opened)
	passMinute(t, s)
	return opened.ID
}

// passMinute lets a minute pass, after which everything that was due is done.
func passMinute(t *testing.T, s *testkit.Service) {
	t.Helper()
	s.Advance(t, time.Minute)
	s.Step(t)
}

// paidCharge makes a charge, has it paid and returns the payment.
func paidCharge(t *testing.T, s *testkit.Service, key, name, amount string) (charge, string) {
	t.Helper()
	made := makeCharge(t, s, key, "key-"+name, fmt.Sprintf(`{"amount": %s, "external_id": %q}`, amount, name))
	e2e := s.World().Pay(t, testkit.Payment{CopyPaste: made.Pix.CopyPaste})
	s.Deliver(t)
	return made, e2e
}

func listInfractions(t *testing.T, s *testkit.Service, key, query string) (list []infraction, next string) {
	t.Helper()
	var page struct {
		Data []infraction `json:"data"`
		More bool         `json:"has_more"`
		Next *string      `json:"next_starting_after"`
	}
	s.Get(t, key, "/v1/med"+query).Want(t, http.StatusOK).Decode(t, &page).Lacks(t, "defense_text")
	if page.More != (page.Next != nil) {
		t.Errorf("has_more %v, next %v", page.More, page.Next)
	}
	if page.Next != nil {
		next = *page.Next
	}
	return page.Data, next
}

func defense(key, name, body string) testkit.Request {
	return testkit.Request{Method: http.MethodPost, Path: "/v1/med/" + name, Key: key, Body: body}
}

func wantBalances(t *testing.T, s *testkit.Service, key, available, pending, blocked string) {
	t.Helper()
	var b struct {
		Available json.Number `json:"available_balance"`
		Pending   json.Number `json:"pending_balance"`
		Blocked   json.Number `json:"blocked_balance"`
	}
	s.Get(t, key, "/v1/balance").Want(t, http.StatusOK).Decode(t, &b)
	if b.Available.String() != available || b.Pending.String() != pending || b.Blocked.String() != blocked {
		t.Errorf("available %s, pending %s, blocked %s; want %s, %s, %s", b.Available, b.Pending, b.Blocked, available, pending, blocked)
	}
}

func TestInfraction(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		made, e2e := paidCharge(t, s, a.Key, "order-1", "30")
		began := s.Core.Clock.Now()
		name := dispute(t, s, e2e, "30.00")
		wantBalances(t, s, a.Key, "0.00", "0.00", "30.00")

		list, _ := listInfractions(t, s, a.Key, "")
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		got := list[0]
		if got.Status != "open" || *got.ExternalID != "order-1" || got.EndToEndID != e2e || got.Amount != "30.00" || *got.Reason != "não recebi" ||
			*got.ReasonCode != "golpe" || got.OpenedAt.Before(began.Truncate(time.Second)) || !got.DeadlineAt.Equal(got.OpenedAt.Add(7*24*time.Hour)) ||
			got.ResolvedAt != nil || got.DefenseSubmittedAt != nil {
			t.Errorf("%+v", got)
		}
		s.Get(t, other.Key, "/v1/med/"+got.ID).WantError(t, http.StatusNotFound, "NOT_FOUND")
		s.Do(t, defense(other.Key, got.ID, `{"defense_text": "x"}`)).WantError(t, http.StatusNotFound, "NOT_FOUND")
		if theirs, _ := listInfractions(t, s, other.Key, ""); len(theirs) != 0 {
			t.Errorf("%+v", theirs)
		}
		s.Get(t, a.Key, "/v1/med/"+got.ID).Want(t, http.StatusOK).Decode(t, &got)
		if got.DefenseText != nil || got.DefenseEvidenceURL != nil {
			t.Errorf("%+v", got)
		}

		answer := s.Do(t, defense(a.Key, got.ID, `{"defenseText": "Entregue em 12/11.", "defense_evidence_url": "https://shop.example.org/1.pdf"}`)).Want(t, http.StatusOK)
		var defended infraction
		answer.Decode(t, &defended)
		if defended.Status != "under_review" || *defended.DefenseText != "Entregue em 12/11." || *defended.DefenseEvidenceURL != "https://shop.example.org/1.pdf" ||
			defended.DefenseSubmittedAt == nil {
			t.Errorf("%s", answer.Body)
		}
		if again := s.Get(t, a.Key, "/v1/med/"+got.ID).Want(t, http.StatusOK); string(again.Body) != string(answer.Body) {
			t.Errorf("%s, then %s", answer.Body, again.Body)
		}
		// Not open is told first, whatever is sent.
		for _, body := range []string{`{"defense_text": "de novo"}`, `{}`, `{`} {
			r := defense(a.Key, got.ID, body)
			r.Invalid = true
			s.Do(t, r).WantError(t, http.StatusConflict, "infraction_not_open")
		}
		wantBalances(t, s, a.Key, "0.00", "0.00", "30.00")
		s.Step(t)

		s.World().Do(t, http.MethodPost, "/sim/med/"+name+"/accept", `{}`, nil)
		passMinute(t, s)
		s.Deliver(t)
		s.Get(t, a.Key, "/v1/med/"+got.ID).Want(t, http.StatusOK).Decode(t, &got)
		if got.Status != "accepted" || got.ResolvedAt == nil || *got.DefenseText != "Entregue em 12/11." {
			t.Errorf("%+v", got)
		}
		if c := getCharge(t, s, a.Key, made.ID); c.Status != "refunded" {
			t.Errorf("the charge is %s", c.Status)
		}
		wantBalances(t, s, a.Key, "0.00", "0.00", "0.00")
		// Infractions are told by no event, and neither is what becomes of their charge.
		wantHappenings(t, s, a.ID, "charge.created", "charge.paid")
		references := map[string]int{}
		now := s.Core.Clock.Now()
		period := report.Period{Account: a.ID, Currency: money.CurrencyBRL, From: now.Add(-time.Hour), To: now.Add(time.Hour)}
		err := report.Statement(t.Context(), s.Core.DB, period, func(l report.Line) error {
			references[report.Reference(&l.Transfer)]++
			return nil
		})
		if diff := cmp.Diff(map[string]int{made.ID: 1, got.ID: 2}, references); err != nil || diff != "" {
			t.Errorf("references (-want +got): %v\n%s", err, diff)
		}
		wantAudit(t, s)
	})
}

func TestInfractionBelowZero(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "cash_out_fee=0")
		made, e2e := paidCharge(t, s, a.Key, "order-1", "30")
		makePayout(t, s, a.Key, "out-1")
		conclude(t, s)
		name := dispute(t, s, e2e, "25.00")
		wantBalances(t, s, a.Key, "-5.00", "0.00", "25.00")
		refused := postPayout(t, s, a.Key, "", `{"amount": 2, "pix_key": "maria@example.org", "external_id": "out-2"}`)
		refused.WantError(t, http.StatusPaymentRequired, "insufficient_balance_for_fees")
		s.World().Do(t, http.MethodPost, "/sim/med/"+name+"/accept", `{}`, nil)
		s.Deliver(t) // the return is told before the list is read
		wantBalances(t, s, a.Key, "-5.00", "0.00", "25.00")
		passMinute(t, s)
		wantBalances(t, s, a.Key, "-5.00", "0.00", "0.00")
		if c := getCharge(t, s, a.Key, made.ID); c.Status != "paid" {
			t.Errorf("a part was taken, and the charge is %s", c.Status)
		}
		wantAudit(t, s)
	})
}

func TestInfractionHolds(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "release_delay=24h")
		_, e2e := paidCharge(t, s, a.Key, "order-1", "30")
		if _, err := s.Core.Ledger.Hold(t.Context(), a.ID, 7_00, "review"); err != nil {
			t.Fatal(err)
		}
		first := dispute(t, s, e2e, "10.00")
		second := dispute(t, s, e2e, "15.00")
		wantBalances(t, s, a.Key, "-7.00", "5.00", "32.00")
		wantAudit(t, s)
		s.World().Do(t, http.MethodPost, "/sim/med/"+first+"/reject", `{}`, nil)
		passMinute(t, s)
		wantBalances(t, s, a.Key, "-7.00", "15.00", "22.00")
		s.Advance(t, 24*time.Hour)
		s.Step(t)
		wantBalances(t, s, a.Key, "8.00", "0.00", "22.00")
		s.World().Do(t, http.MethodPost, "/sim/med/"+second+"/cancel", `{}`, nil)
		passMinute(t, s)
		wantBalances(t, s, a.Key, "23.00", "0.00", "7.00")
		wantAudit(t, s)
	})
}

func TestDefenseFields(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		_, e2e := paidCharge(t, s, a.Key, "order-1", "30")
		dispute(t, s, e2e, "30.00")
		list, _ := listInfractions(t, s, a.Key, "")
		for _, c := range []struct {
			body  string
			paths []string
		}{
			{`{}`, []string{"defense_text"}},
			{`{"defense_text": ""}`, []string{"defense_text"}},
			{`{"defense_text": 7}`, []string{"defense_text"}},
			{`{"defense_text": "` + strings.Repeat("é", 2001) + `"}`, []string{"defense_text"}},
			{`{"defense_text": "x", "defense_evidence_url": "http://shop.example.org"}`, []string{"defense_evidence_url"}},
			{`{"defense_text": "x", "defense_evidence_url": "x"}`, []string{"defense_evidence_url"}},
			{`{"defense_text": "x", "defense_evidence_url": "https://shop.example.org/` + strings.Repeat("x", 500) + `"}`, []string{"defense_evidence_url"}},
			{`{"defenseText": null, "defenseEvidenceUrl": 1}`, []string{"defense_text", "defense_evidence_url"}},
		} {
			r := defense(a.Key, list[0].ID, c.body)
			r.Invalid = true
			if got := s.Do(t, r).WantError(t, http.StatusBadRequest, "VALIDATION_ERROR"); !slices.Equal(got.Paths(), c.paths) {
				t.Errorf("%.80s: %s", c.body, got.Body)
			}
		}
		longest := `{"defense_text": "` + strings.Repeat("é", 2000) + `"}`
		s.Do(t, defense(a.Key, list[0].ID, longest)).Want(t, http.StatusOK)
	})
}

// TestDefenseDeadline moves the clock to the last second of the window, and one second past it.
func TestDefenseDeadline(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		_, first := paidCharge(t, s, a.Key, "order-1", "30")
		_, second := paidCharge(t, s, a.Key, "order-2", "30")
		dispute(t, s, first, "30.00")
		list, _ := listInfractions(t, s, a.Key, "")
		inTime := list[0]
		dispute(t, s, second, "30.00")
		list, _ = listInfractions(t, s, a.Key, "?limit=1")
		late := list[0]

		s.Advance(t, inTime.DeadlineAt.Sub(s.Core.Clock.Now()).Truncate(time.Second))
		s.Do(t, defense(a.Key, inTime.ID, `{"defense_text": "no último segundo"}`)).Want(t, http.StatusOK)
		s.Step(t)
		s.Advance(t, late.DeadlineAt.Sub(s.Core.Clock.Now()).Truncate(time.Second)+2*time.Second)
		s.Do(t, defense(a.Key, late.ID, `{"defense_text": "tarde"}`)).WantError(t, http.StatusUnprocessableEntity, "defense_window_closed")
		s.Do(t, defense(a.Key, inTime.ID, `{"defense_text": "tarde"}`)).WantError(t, http.StatusConflict, "infraction_not_open")
		concern, err := s.Core.CountConcerns(t.Context())
		if err != nil || concern.Waiting > 0 { // on a slow machine the bank gets it after its last second, and refuses it
			t.Errorf("%+v: %v", concern, err)
		}
	})
}

func TestInfractionPages(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		_, e2e := paidCharge(t, s, a.Key, "order-1", "30")
		var names []string
		for i := range 3 {
			names = append(names, dispute(t, s, e2e, fmt.Sprintf("%d.00", i+1)))
		}
		s.World().Do(t, http.MethodPost, "/sim/med/"+names[1]+"/cancel", `{}`, nil)
		passMinute(t, s)
		all, next := listInfractions(t, s, a.Key, "")
		if len(all) != 3 || next != "" || all[0].Amount != "3.00" || all[2].Amount != "1.00" {
			t.Fatalf("%+v", all)
		}
		page, next := listInfractions(t, s, a.Key, "?limit=2")
		if len(page) != 2 || next != all[1].ID {
			t.Errorf("%+v %s", page, next)
		}
		if page, next = listInfractions(t, s, a.Key, "?limit=2&starting_after="+next); len(page) != 1 || next != "" || page[0].ID != all[2].ID {
			t.Errorf("%+v %s", page, next)
		}
		if page, _ = listInfractions(t, s, a.Key, "?status=cancelled"); len(page) != 1 || page[0].ID != all[1].ID {
			t.Errorf("%+v", page)
		}
		if page, _ = listInfractions(t, s, a.Key, "?status=open&limit=1"); len(page) != 1 || page[0].ID != all[0].ID {
			t.Errorf("%+v", page)
		}
		if page, _ = listInfractions(t, s, a.Key, "?starting_after=2020-01-01"); len(page) != 0 {
			t.Errorf("%+v", page)
		}
		later := s.Core.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		if page, _ = listInfractions(t, s, a.Key, "?starting_after="+later); len(page) != 3 {
			t.Errorf("%+v", page)
		}
		for query, path := range map[string]string{
			"?status=closed": "status", "?limit=0": "limit", "?limit=101": "limit", "?limit=x": "limit",
			"?starting_after=inf_" + strings.Repeat("0", 26): "starting_after", "?starting_after=" + strings.Replace(all[0].ID, "inf_", "chg_", 1): "starting_after",
		} {
			got := s.Do(t, testkit.Request{Path: "/v1/med" + query, Key: a.Key, Invalid: true}).WantError(t, http.StatusBadRequest, "VALIDATION_ERROR")
			if !slices.Equal(got.Paths(), []string{path}) {
				t.Errorf("%s: %s", query, got.Body)
			}
		}
		s.Get(t, a.Key, "/v1/med?limit=100").Want(t, http.StatusOK)
	})
}

func TestInfractionScopes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		_, e2e := paidCharge(t, s, a.Key, "order-1", "30")
		dispute(t, s, e2e, "30.00")
		list, _ := listInfractions(t, s, a.Key, "")
		reader, writer := s.Key(t, a.ID, "med:read"), s.Key(t, a.ID, "med:write")
		s.Get(t, writer, "/v1/med").WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Get(t, writer, "/v1/med/"+list[0].ID).WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Do(t, defense(reader, list[0].ID, `{"defense_text": "x"}`)).WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Get(t, reader, "/v1/med/"+list[0].ID).Want(t, http.StatusOK)
		s.Do(t, defense(writer, list[0].ID, `{"defense_text": "x"}`)).Want(t, http.StatusOK)

		none := s.Account(t, "none", "disabled_resources=med")
		s.Get(t, none.Key, "/v1/med").WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Get(t, none.Key, "/v1/med/"+list[0].ID).WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Do(t, defense(none.Key, list[0].ID, `{"defense_text": "x"}`)).WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Get(t, none.Key, "/v1/balance").Want(t, http.StatusOK)
	})
}
