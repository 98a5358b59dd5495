package chain

import (
	"context"
	"fmt"
)

// searchPagesMax bounds one search. At five hundred payments on a page it reaches farther than any sensible window.
const searchPagesMax = 20

// FindPayments returns the payments under a reference, the repeated deposits of one included, in the order of the
// provider's list. It is how a payment is found whose creation had an unknown outcome: none proves nothing while the
// creation may still be on the way, and two are possible when it was asked for twice.
//
// It fails when the list was too long to be read to its end, or held payments that make no sense.
func FindPayments(ctx context.Context, p Provider, s Search) ([]Payment, error) {
	var found []Payment
	known := map[string]bool{}
	w := Window{From: s.From, To: s.To}
	for range searchPagesMax {
		page, err := p.ListPayments(ctx, w)
		if err != nil {
			return nil, err
		}
		if page.Unreadable > 0 {
			return nil, unfinished(p, fmt.Sprintf("%d payments of the list make no sense", page.Unreadable))
		}
		for _, one := range page.Payments {
			if one.Reference == s.Reference && !known[one.ID] {
				known[one.ID] = true
				found = append(found, one)
			}
		}
		if page.Next == "" {
			return found, nil
		}
		w.Cursor = page.Next
	}
	return nil, unfinished(p, fmt.Sprintf("the list has more than %d pages", searchPagesMax))
}

func unfinished(p Provider, message string) error {
	return &Error{Provider: p.Name(), Operation: "payment.find", Outcome: Unknown, Class: Protocol, Message: message}
}
