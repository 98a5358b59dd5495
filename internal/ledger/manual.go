package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// What operators do by hand.
const (
	KindAdjustment Kind = "adjustment" // a credit or a debit
	KindHold       Kind = "hold"       // money blocked for review
	KindRelease    Kind = "release"    // a hold that ended
)

// KindInflow is money that nothing asked for: a second, an excess or a short payment of a charge.
const KindInflow Kind = "inflow"

// Why a hold cannot be released.
var (
	ErrNoHold   = errors.New("ledger: no such hold in this account")
	ErrReleased = errors.New("ledger: the hold is released already")
)

// ErrAnother is returned where a key has made something else before.
var ErrAnother = errors.New("ledger: the key was used for something else")

// Adjust credits the account's available money, or debits it when amount is negative, also below zero.
func (l *Ledger) Adjust(ctx context.Context, account id.Account, amount money.Amount, reason string) (Transfer, error) {
	return l.AdjustOnce(ctx, l.ids.New().String(), account, amount, reason)
}

// AdjustOnce is Adjust that is done once, however often it is called with the same key. It fails with [ErrAnother] when the
// key has adjusted otherwise.
func (l *Ledger) AdjustOnce(ctx context.Context, key string, account id.Account, amount money.Amount, reason string) (Transfer, error) {
	t := Transfer{
		Account: account, Amount: amount, Source: Adjustment, Target: Available,
		Kind: KindAdjustment, OnceKey: key, Memo: reason,
	}
	if amount.Units < 0 {
		t.Amount.Units = -amount.Units
		t.Source, t.Target, t.Overdraw = Available, Adjustment, true
	}
	return t, l.postOnce(ctx, &t, oplog.Entry{
		Action: oplog.AccountAdjust, After: oplog.Fields{"amount": amount.String(), "currency": string(amount.Currency)}, Reason: reason,
	})
}

// Hold blocks money of the account for review, also when available then goes below zero. The transfer's ID names the hold.
func (l *Ledger) Hold(ctx context.Context, account id.Account, amount money.BRL, reason string) (Transfer, error) {
	return l.HoldOnce(ctx, l.ids.New().String(), account, amount, reason)
}

// HoldOnce is Hold that is done once, however often it is called with the same key. It fails with [ErrAnother] when the key
// has held otherwise.
func (l *Ledger) HoldOnce(ctx context.Context, key string, account id.Account, amount money.BRL, reason string) (Transfer, error) {
	t := Transfer{
		Account: account, Amount: amount.Amount(), Source: Available, Target: Blocked,
		Kind: KindHold, OnceKey: key, Memo: reason, Overdraw: true,
	}
	return t, l.postOnce(ctx, &t, oplog.Entry{Action: oplog.AccountHold, After: oplog.Fields{"amount": t.Amount.String()}, Reason: reason})
}

// Release ends a hold. It fails with [ErrNoHold] or [ErrReleased].
func (l *Ledger) Release(ctx context.Context, account id.Account, hold id.ID) (Transfer, error) {
	h, err := sqldb.One(ctx, l.db, scanTransfer, selectTransfer, int64(account), hold)
	if errors.Is(err, sqldb.ErrNoRows) || (err == nil && h.Kind != KindHold) {
		return Transfer{}, ErrNoHold
	}
	if err != nil {
		return Transfer{}, err
	}
	t := Transfer{
		Account: account, Amount: h.Amount, Source: Blocked, Target: Available,
		Kind: KindRelease, Ref: hold, OnceKey: hold.String(), After: hold, // another node's clock may be ahead
	}
	return t, l.postOnce(ctx, &t, oplog.Entry{
		Action: oplog.AccountRelease, Subject: id.Hold.Format(hold), Before: oplog.Fields{"amount": t.Amount.String(), "reason": h.Memo},
	})
}

// postOnce posts a transfer that has a OnceKey. A COMMIT whose answer is lost is run again and then meets its own key:
// that is success. The entry of the operator log is about the account unless it says otherwise.
func (l *Ledger) postOnce(ctx context.Context, t *Transfer, done oplog.Entry) error {
	done.Account, done.Subject = t.Account, cmp.Or(done.Subject, t.Account.String())
	entry := oplog.Begin(ctx, l.ids, done)
	var tried []id.ID
	err := l.Write(ctx, func(ctx context.Context, tx *Tx) error {
		// A credit touches no balance row, so that it would not notice a missing account.
		if err := requireBooks(ctx, tx.Tx, t); err != nil {
			return err
		}
		entry.Write(ctx, tx.Tx)
		err := tx.Post(ctx, t)
		tried = append(tried, t.ID)
		return err
	})
	if !errors.Is(err, sqldb.ErrConflict) {
		return err
	}
	stored, err := sqldb.One(ctx, l.db, scanTransfer, selectTransferOnce, int64(t.Account), string(t.Kind), t.OnceKey)
	if err != nil {
		return err
	}
	isOwn := slices.Contains(tried, stored.ID)
	isSame := stored.Amount == t.Amount && stored.Source == t.Source && stored.Memo == t.Memo
	switch {
	case !isOwn && t.Kind == KindRelease:
		return ErrReleased // whoever did it
	case !isOwn && !isSame:
		return ErrAnother
	}
	*t = stored
	return nil
}

func requireBooks(ctx context.Context, q sqldb.Querier, t *Transfer) error {
	_, err := Balances(ctx, q, t.Account, t.Amount.Currency)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = fmt.Errorf("ledger: %s has no books", t.Account)
	}
	return err
}

// Holds returns the account's holds that are not released, oldest first.
func Holds(ctx context.Context, q sqldb.Querier, account id.Account) ([]Transfer, error) {
	const page = 500
	var holds []Transfer
	released := map[id.ID]bool{}
	after := id.First(epoch)
	for {
		rows, err := sqldb.All(ctx, q, scanTransfer, selectHolds, int64(account), after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range rows {
			after = t.ID
			if t.Kind == KindHold {
				holds = append(holds, t)
			} else {
				released[t.Ref] = true
			}
		}
		if len(rows) < page {
			return slices.DeleteFunc(holds, func(h Transfer) bool { return released[h.ID] }), nil
		}
	}
}
