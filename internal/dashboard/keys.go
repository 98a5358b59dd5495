package dashboard

import (
	"cmp"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
)

// keysData is what an account's keys are.
type keysData struct {
	Form    *form
	Once    string
	Working []account.Key
	Revoked few[account.Key]
	Max     int
}

// Whole reports whether a key may do everything.
func (keysData) Whole(k account.Key) bool { return k.Scopes == account.AllScopes }

func (d *Dashboard) keysData(v *visit, f *form) (keysData, error) {
	data := keysData{Form: f, Once: cmp.Or(f.Value("once"), d.once()), Max: account.KeysMax}
	keys, err := d.Accounts.ListKeys(v.Context(), v.account.ID)
	working, revoked := split(keys)
	data.Working, data.Revoked = working, newFew(revoked)
	return data, err
}

// split returns the keys that work and those that were revoked, each in the order that they had.
func split(keys []account.Key) (working, revoked []account.Key) {
	for _, k := range keys {
		if k.RevokedAt.IsZero() {
			working = append(working, k)
		} else {
			revoked = append(revoked, k)
		}
	}
	return working, revoked
}

func (d *Dashboard) listKeys(v *visit) (reply, error) {
	data, err := d.keysData(v, newForm(v))
	if err != nil {
		return reply{}, err
	}
	return page("keys", data)
}

// newKeyData shows a key, once.
type newKeyData struct {
	Key  account.Key
	Text string
}

// createKey makes a key with full access: who may choose less is the operator.
func (d *Dashboard) createKey(v *visit) (reply, error) {
	f := newForm(v)
	if err := d.prove(v, f); err != nil {
		return reply{}, err
	}
	if !f.broken() {
		k, text, err := d.Accounts.CreateKeyOnce(v.Context(), v.account.ID, account.AllScopes, f.Value("once"))
		if err == nil {
			return reply{page: "key_new", data: newKeyData{k, text}, secret: true}, nil
		}
		if !f.refuse(err) {
			return reply{}, err
		}
		f.set("once", "") // what comes next is another wish
	}
	data, err := d.keysData(v, f)
	if err != nil {
		return reply{}, err
	}
	return again("keys", data)
}

// prove makes a visitor prove once more who they are, in the field proof. What is wrong with that is in the form then. It
// comes after all else that can be wrong with a form, because a code is good for one form.
func (d *Dashboard) prove(v *visit, f *form) error {
	key, err := f.onceKey()
	if err != nil {
		return err
	}
	proof := f.password("proof")
	if f.broken() {
		return nil
	}
	err = d.Users.Prove(v.Context(), v.who.Person, proof, key)
	if kind := fault.As(err).Kind; kind == fault.Unauthenticated || kind == fault.Invalid || kind == fault.RateLimited {
		f.Errors["proof"] = v.explain(err)
		return nil
	}
	return err
}

func (d *Dashboard) revokeKey(v *visit) (reply, error) {
	if err := d.Accounts.RevokeKeyOf(v.Context(), v.account.ID, v.PathValue("key")); err != nil {
		return reply{}, err
	}
	v.flash("keys.revoked_done")
	return goTo(accountPath(v.account, "keys"))
}
