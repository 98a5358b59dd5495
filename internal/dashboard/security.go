package dashboard

import (
	"errors"
	"net/url"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/totp"
	"github.com/ponte-pay/ponte/internal/user"
)

func queryEscape(s string) string { return url.QueryEscape(s) }

// securityData is what one's own security page shows.
type securityData struct {
	Password *form
	Remove   *form
	Sessions []user.Session
	Own      id.ID // this session
	Recovery int64 // codes that are left
}

func (d *Dashboard) securityData(v *visit) (securityData, error) {
	data := securityData{Password: newForm(v), Remove: newForm(v), Own: v.who.Session.ID}
	var err error
	if data.Sessions, err = d.Users.Sessions(v.Context(), v.who.Person.ID); err != nil {
		return data, err
	}
	data.Recovery, err = d.Users.CountRecoveryCodes(v.Context(), v.who.Person)
	return data, err
}

func (d *Dashboard) showSecurity(v *visit) (reply, error) {
	data, err := d.securityData(v)
	if err != nil {
		return reply{}, err
	}
	return page("security", data)
}

func (d *Dashboard) changePassword(v *visit) (reply, error) {
	f := newForm(v)
	old, next := f.password("old"), f.password("password")
	if !f.broken() {
		err := d.Users.ChangePassword(v.Context(), *v.who, old, next)
		if err == nil {
			v.flash("security.password_changed")
			return goTo(securityPath)
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	data, err := d.securityData(v)
	if err != nil {
		return reply{}, err
	}
	data.Password = f
	return again("security", data)
}

// totpData is what the page for a new authenticator app shows.
type totpData struct {
	Form     *form
	Once     string   // hidden in it
	QR       string   // image
	Secret   string   // to type
	Recovery []string // shown once, after it is on
	Required bool     // an operator has to have one
	Old      bool     // the password was given too long ago
}

func (d *Dashboard) totpData(v *visit) (totpData, error) {
	data := totpData{Form: newForm(v), Once: d.once(), Required: v.who.Person.Operator}
	secret, err := d.Users.PrepareTOTP(v.Context(), v.who.Person)
	if err != nil {
		return data, err
	}
	data.Secret = totp.Text(secret)
	data.QR, err = pix.QRImage(totp.URL(secret, "Ponte", v.who.Person.Email))
	return data, err
}

func (d *Dashboard) showTOTP(v *visit) (reply, error) {
	if !d.Users.IsFresh(*v.who) && !v.who.Person.HasTOTP {
		return page("totp", totpData{Old: true, Required: v.who.Person.Operator})
	}
	data, err := d.totpData(v)
	if errors.Is(err, user.ErrHasTOTP) {
		return goTo(securityPath)
	}
	return reply{page: "totp", data: data, secret: true}, err
}

func (d *Dashboard) enableTOTP(v *visit) (reply, error) {
	f := newForm(v)
	once, err := f.onceKey()
	if err != nil {
		return reply{}, err
	}
	code := f.text("code", textRule{required: true})
	f.values["code"] = ""
	if !f.broken() {
		codes, err := d.Users.EnableTOTP(v.Context(), *v.who, code, once)
		if errors.Is(err, user.ErrOld) {
			return goTo(totpPath)
		}
		if err == nil {
			v.who.Person.HasTOTP = true
			return reply{page: "totp", data: totpData{Recovery: codes}, secret: true}, nil
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	data, err := d.totpData(v)
	if err != nil {
		return reply{}, err
	}
	data.Form, data.Once = f, f.Value("once")
	shown, err := again("totp", data)
	shown.secret = true
	return shown, err
}

func (d *Dashboard) disableTOTP(v *visit) (reply, error) {
	f := newForm(v)
	password, code := f.password("old"), f.text("code", textRule{required: true})
	f.values["code"] = ""
	if !f.broken() {
		err := d.Users.DisableTOTP(v.Context(), *v.who, password, code)
		if err == nil {
			v.flash("security.totp_removed")
			return goTo(securityPath)
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	data, err := d.securityData(v)
	if err != nil {
		return reply{}, err
	}
	data.Remove = f
	return again("security", data)
}

// endSession ends one session, or all but this one.
func (d *Dashboard) endSession(v *visit) (reply, error) {
	me := v.who.Person.ID
	if v.PostFormValue("session") == "others" {
		if err := d.Users.SignOutOthers(v.Context(), me, v.who.Session.ID); err != nil {
			return reply{}, err
		}
	} else {
		x, err := id.Parse(v.PostFormValue("session"))
		if err != nil {
			return reply{}, errForm
		}
		if err := d.Users.SignOut(v.Context(), me, x); err != nil {
			return reply{}, err
		}
	}
	v.flash("security.session_ended")
	return goTo(securityPath)
}
