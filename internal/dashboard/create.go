package dashboard

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/user"
)

// onceChars is the length of what [Dashboard.once] draws, in base64.
const onceChars = 22

// onceKey returns the key of a form that was sent. A form of ours has one.
func (f *form) onceKey() (string, error) {
	key := f.text("once", textRule{required: true})
	if len(key) != onceChars || strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", errForm
	}
	return "dashboard-" + key, nil
}

// hashOf returns the hash of what a form asks for, by meaning.
func hashOf(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

const (
	twinWait    = 200 * time.Millisecond // between looks at the first of two equal forms
	twinWaitMax = 75                     // of these, as long as a creation may last
)

// make makes something once. Whoever clicks twice sends the form twice, and sees the answer to the second; so that waits for
// the first and is answered with the same.
func makeOnce[T any](ctx context.Context, d *Dashboard, create func(context.Context) (T, idempotency.Outcome, error)) (made T, err error) {
	for range twinWaitMax {
		made, _, err = create(ctx)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || (f.Kind != fault.InProgress && f.Code != "external_id_in_progress") {
			return made, err
		}
		if err := d.Clock.Wait(ctx, twinWait); err != nil {
			return made, err
		}
	}
	return made, err
}

// checkCode takes the code of the authenticator app for a form that sends money. Sent twice, the form takes it twice.
func (d *Dashboard) checkCode(v *visit, f *form, key string) error {
	code := f.text("code", textRule{required: true})
	f.values["code"] = ""
	if f.broken() {
		return nil
	}
	err := d.Users.CheckCode(v.Context(), v.who.Person, code, key)
	switch {
	case err == nil:
	case errors.Is(err, user.ErrWrongCode), errors.Is(err, user.ErrTooMany), errors.Is(err, user.ErrNoTOTP):
		f.Errors["code"] = v.explain(err)
	default:
		return err
	}
	return nil
}

// option is a choice of a form.
type option struct{ Value, Text string }
