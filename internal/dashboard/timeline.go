package dashboard

import (
	"context"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// moment is something that happened to a thing.
type moment struct {
	At         time.Time // zero when nobody wrote it down
	Text       string
	Tone       string // good, wait, bad or ""
	Note       string // "" for none
	Event      string // its public id; "" when it emits none
	Page       string // of the event
	Deliveries []webhook.Delivery
}

// eventTones are how events look.
var eventTones = map[event.Type]string{ //nolint:exhaustive // the others are neither good nor bad
	event.ChargePaid: "good", event.PayoutCompleted: "good", event.PayoutFailed: "bad",
	event.CryptoChargePaid: "good", event.CryptoChargeFailed: "bad", event.CryptoPayoutCompleted: "good", event.CryptoPayoutFailed: "bad",
	event.CryptoChargeConfirming: "wait",
}

// moments are what transfers show, each with its time and amount.
func moments(v *visit, text string, transfers []ledger.Transfer) []moment {
	list := make([]moment, 0, len(transfers))
	for i := range transfers {
		list = append(list, moment{At: transfers[i].ID.Time(), Text: text, Tone: "bad", Note: v.locale.amount(transfers[i].Amount)})
	}
	return list
}

// timeline returns what happened to a thing, oldest first: its events with their deliveries, and what emits none.
func (d *Dashboard) timeline(ctx context.Context, v *visit, ref id.ID, others ...moment) ([]moment, error) {
	events, err := event.Of(ctx, d.DB, v.account.ID, ref)
	if err != nil {
		return nil, err
	}
	var list []moment
	for i := range events {
		e := &events[i]
		deliveries, err := d.Hooks.Deliveries(ctx, v.account.ID, e.ID)
		if err != nil {
			return nil, err
		}
		public := event.Prefix.Format(e.ID)
		list = append(list, moment{
			At: e.CreatedAt(), Text: v.t("event." + string(e.Type)), Tone: eventTones[e.Type], Event: public,
			Page: accountPath(v.account, "events", public), Deliveries: deliveries,
		})
	}
	for _, m := range others {
		if m.Text == "" {
			continue
		}
		// The first event is that it was made. A time that was noted on the way to it is a moment older.
		if len(events) > 0 && !m.At.IsZero() && m.At.Before(events[0].CreatedAt()) {
			m.At = events[0].CreatedAt()
		}
		list = append(list, m)
	}
	slices.SortStableFunc(list, func(a, b moment) int {
		if a.At.IsZero() || b.At.IsZero() { // what has no time came last
			return boolOrder(a.At.IsZero(), b.At.IsZero())
		}
		return a.At.Compare(b.At)
	})
	return list, nil
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
