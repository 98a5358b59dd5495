package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/webhook"
)

type doctorCommand struct {
	Serve unchecked `embed:""`
}

// unchecked is the configuration without its Validate, which the command line would call before Run: what it gets wrong
// is one of the findings.
type unchecked config.Serve

// failingEndpoints names the endpoints that have failed for days. They are not switched off: that is the operator's to decide.
func failingEndpoints(e *env, core *app.Core) error {
	hooks, err := core.Webhooks(e.ctx)
	if err != nil {
		return err
	}
	failing, err := hooks.FailingLong(e.ctx)
	if err != nil || len(failing) == 0 {
		return err
	}
	var names []string
	for _, f := range failing[:min(len(failing), failingShown)] {
		names = append(names, webhook.Prefix.Format(f.ID)+" since "+timestamp(f.FailingSince))
	}
	return fmt.Errorf("%d endpoints have failed for three days: %s", len(failing), strings.Join(names, ", "))
}

const failingShown = 10

type findingJSON struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func (c *doctorCommand) Run(e *env) error {
	findings := []findingJSON{}
	add := func(check string, detail string, err error) {
		if err != nil {
			detail = oneLine(err)
		}
		findings = append(findings, findingJSON{check, err == nil, detail})
	}
	serve := config.Serve(c.Serve)
	add("configuration", "listens on "+serve.Listen, serve.Validate())
	if serve.TLSCert != "" {
		left, err := app.CertificateLife(serve.TLSCert)
		add("certificate", fmt.Sprintf("valid for %d days", int(left/(24*time.Hour))), err)
	}
	core, err := e.open()
	add("database", e.store.Redacted(), err)
	if err == nil {
		defer core.Close()
		version, err := core.SchemaVersion(e.ctx)
		add("schema", fmt.Sprintf("version %d", version), err)
		skew, err := core.ClockSkew(e.ctx)
		add("clock", fmt.Sprintf("%v off the database's; business time is %v ahead", skew.Round(time.Millisecond), core.Clock.Offset()), err)
		health, err := app.CheckAcquirers(e.ctx, core, e.store, serve)
		if errors.Is(err, app.ErrNoSimulator) && serve.Simulator == "" { // it is inside the server, which need not run
			add("acquirers", "not asked: "+oneLine(err), nil)
		} else if err != nil {
			add("acquirers", "", err)
		}
		off, err := core.Switches.List(e.ctx)
		if err != nil {
			add("switches", "", err)
		}
		for _, h := range health {
			answers := "answers"
			if h.Holds != "" {
				answers += ", and " + h.Holds + " BRL could be paid out"
			}
			if o, is := off[h.Name]; is {
				answers += fmt.Sprintf("; switched off since %s by %s: %s", timestamp(o.Since), o.Who, o.Reason)
			}
			add("acquirer "+h.Name, answers, h.Err)
		}
		if len(health) > 0 && !slices.ContainsFunc(health, func(h app.Health) bool { _, is := off[h.Name]; return !is }) {
			add("switches", "", errors.New("every acquirer is switched off: see ponte acquirer on"))
		}
		for _, h := range app.CheckCrypto(e.ctx, core, e.store, serve) {
			add(h.Name, "answers", h.Err)
		}
		unmatched, err := core.CountUnmatched(e.ctx)
		if err == nil && unmatched > 0 {
			err = fmt.Errorf("%d payments belong to no charge: see ponte charge unmatched", unmatched)
		}
		add("payments", "all belong to a charge", err)
		doubt, err := core.CountDoubts(e.ctx)
		if err == nil && doubt.Payouts > 0 {
			err = fmt.Errorf("%d payouts of %s BRL are in doubt, the oldest since %s: see ponte payout doubt", doubt.Payouts, doubt.Sum, timestamp(doubt.Since))
		}
		add("payouts", "no money is in doubt", err)
		checkInfractions(e, core, add)
		crypto, err := core.CountCryptoDoubts(e.ctx)
		if err == nil && crypto.Withdrawals > 0 {
			err = fmt.Errorf("%d crypto payouts of %s USDT are in doubt, the oldest since %s: see ponte payout doubt", crypto.Withdrawals, crypto.Sum, timestamp(crypto.Since))
		}
		add("crypto payouts", "no money is in doubt", err)
		unmatchedCoins, err := core.CountUnmatchedDeposits(e.ctx)
		if err == nil && unmatchedCoins > 0 {
			err = fmt.Errorf("%d payments belong to no crypto charge: see ponte deposit unmatched", unmatchedCoins)
		}
		add("crypto payments", "all belong to a crypto charge", err)
		stuck, err := core.CountStuckDeposits(e.ctx)
		if err == nil && stuck > 0 {
			err = fmt.Errorf("%d have coins that the provider has not settled: see column review of table deposit", stuck)
		}
		add("crypto charges", "the provider has settled all coins that came", err)
		late, refunded, err := lateDeposits(e, core)
		add("late crypto money", late, err)
		add("refunds of paid crypto charges", refunded, err)
		add("webhooks", "every endpoint has answered within three days", failingEndpoints(e, core))
	}
	var rows [][]string
	failed := false
	for _, f := range findings {
		mark := "ok"
		if !f.OK {
			mark, failed = "FAILED", true
		}
		rows = append(rows, []string{mark, f.Check, f.Detail})
	}
	if err := e.print(findings, table("RESULT CHECK DETAIL", rows)); err != nil {
		return err
	}
	if failed {
		return errSilent
	}
	return nil
}

// checkInfractions tells of infractions that are about no payment of ours, and of defenses that did not arrive.
func checkInfractions(e *env, core *app.Core, add func(check, detail string, err error)) {
	concern, err := core.CountConcerns(e.ctx)
	if err == nil && concern.Unmatched > 0 {
		err = fmt.Errorf("%d are about no payment of a charge: see ponte infraction unmatched", concern.Unmatched)
	}
	add("infractions", "all are about payments of charges", err)
	if err != nil && concern.Unmatched == 0 {
		return
	}
	err = nil
	if concern.Waiting+concern.Refused > 0 {
		err = fmt.Errorf("%d wait for their acquirer, %d were refused as late or already there: see handing and hand_error in table infraction",
			concern.Waiting, concern.Refused)
	}
	add("defenses", "all have reached their acquirers", err)
}

// listedMax are the crypto charges that a line names; the table has all.
const listedMax = 10

// lateDeposits says which crypto charges got money after their end, or lost it after they were paid. Both are credited
// and debited already: it is for the operator to know.
func lateDeposits(e *env, core *app.Core) (late, refunded string, err error) {
	reviews, err := core.ListDepositReviews(e.ctx)
	if err != nil {
		return "", "", err
	}
	names := map[string][]string{}
	for i := range reviews {
		why := string(reviews[i].Review)
		names[why] = append(names[why], id.CryptoCharge.Format(reviews[i].ID))
	}
	line := func(whys ...string) string {
		var list []string
		for _, why := range whys {
			list = append(list, names[why]...)
		}
		if len(list) == 0 {
			return "none in a week"
		}
		return fmt.Sprintf("%d in a week: %s", len(list), strings.Join(list[:min(len(list), listedMax)], ", "))
	}
	return line("late", "more", "coin"), line("refund"), nil
}
