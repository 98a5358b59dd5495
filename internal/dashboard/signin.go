package dashboard

import (
	"net/http"
	"slices"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/user"
)

// signInData is what the sign-in page shows.
type signInData struct {
	Form *form
	Next string // where to go on
}

func (d *Dashboard) showSignIn(v *visit) (reply, error) {
	next := localPath(v.URL.Query().Get("next"))
	switch {
	case v.who != nil && v.who.Session.Whole:
		return goTo(next)
	case v.who != nil:
		return goTo(codePath)
	}
	return page("signin", signInData{newForm(v), next})
}

func (d *Dashboard) signIn(v *visit) (reply, error) {
	f := newForm(v)
	next := localPath(v.PostFormValue("next"))
	email, password := f.text("email", textRule{required: true, max: user.EmailMax}), f.password("password")
	if f.broken() {
		return again("signin", signInData{f, next})
	}
	token, whole, err := d.Users.SignIn(v.Context(), email, password, v.from())
	if err != nil {
		if !f.refuse(err) {
			return reply{}, err
		}
		shown, _ := again("signin", signInData{f, next})
		shown.status = statusOf(err)
		return shown, nil
	}
	v.setCookie(sessionCookie, token, int(user.SessionTime.Seconds()))
	if whole {
		return goTo(next)
	}
	return goTo(codePath + "?next=" + queryEscape(next))
}

// codeData is what the page for the second factor shows.
type codeData struct {
	Form *form
	Next string
}

func (d *Dashboard) showCode(v *visit) (reply, error) {
	if v.who.Session.Whole {
		return goTo("/")
	}
	return page("code", codeData{newForm(v), localPath(v.URL.Query().Get("next"))})
}

func (d *Dashboard) giveCode(v *visit) (reply, error) {
	f := newForm(v)
	next := localPath(v.PostFormValue("next"))
	code := f.text("code", textRule{required: true})
	f.values["code"] = ""
	if f.broken() {
		return again("code", codeData{f, next})
	}
	token, err := d.Users.Verify(v.Context(), *v.who, code, v.from())
	if err != nil {
		if !f.refuse(err) {
			return reply{}, err
		}
		return again("code", codeData{f, next})
	}
	v.setCookie(sessionCookie, token, int(user.SessionTime.Seconds()))
	return goTo(next)
}

func (d *Dashboard) signOut(v *visit) (reply, error) {
	if err := d.Users.SignOut(v.Context(), v.who.Person.ID, v.who.Session.ID); err != nil {
		return reply{}, err
	}
	v.setCookie(sessionCookie, "", -1)
	return goTo(signInPath)
}

// invitationData is what a one-time link shows.
type invitationData struct {
	Form       *form
	Invitation user.Invitation
	Account    string // its name; "" for none
	Known      bool   // whom it is for can sign in already
	Own        bool   // and has
	Token      string
}

func (d *Dashboard) invitation(v *visit) (invitationData, error) {
	token := v.PathValue("token")
	i, known, err := d.Users.Invitation(v.Context(), token)
	if err != nil {
		return invitationData{}, err
	}
	data := invitationData{Form: newForm(v).set("email", i.Email), Invitation: i, Known: known && i.Kind == user.KindInvite, Token: token}
	if i.Account != 0 {
		a, err := d.Accounts.Get(v.Context(), i.Account)
		if err != nil {
			return data, err
		}
		data.Account = a.Name
	}
	if v.who != nil && v.who.Session.Whole && i.Kind == user.KindInvite {
		data.Own = i.Email == "" || v.who.Person.Email == i.Email
	}
	return data, nil
}

func (d *Dashboard) showInvitation(v *visit) (reply, error) {
	data, err := d.invitation(v)
	if err != nil {
		return reply{}, err
	}
	return page("invitation", data)
}

func (d *Dashboard) acceptInvitation(v *visit) (reply, error) {
	data, err := d.invitation(v)
	if err != nil {
		return reply{}, err
	}
	f := newForm(v)
	data.Form = f
	accepted := user.Acceptance{Email: data.Invitation.Email}
	if accepted.Email == "" {
		accepted.Email = f.text("email", textRule{required: true, max: user.EmailMax})
	}
	if data.Invitation.Kind == user.KindInvite {
		accepted.Name = f.text("name", textRule{required: true, max: user.NameMax})
	}
	accepted.Password = f.password("password")
	if !f.broken() {
		err := d.Users.Accept(v.Context(), data.Token, accepted)
		if err != nil && !f.refuse(err) {
			return reply{}, err
		}
	}
	if f.broken() {
		return again("invitation", data)
	}
	// They have just proven all that a password proves.
	token, whole, err := d.Users.SignIn(v.Context(), accepted.Email, accepted.Password, v.from())
	if err != nil || !whole {
		return goTo(signInPath)
	}
	v.setCookie(sessionCookie, token, int(user.SessionTime.Seconds()))
	v.flash("signin.welcome")
	return goTo("/")
}

func (d *Dashboard) joinInvitation(v *visit) (reply, error) {
	if err := d.Users.Join(v.Context(), v.PathValue("token"), v.who.Person); err != nil {
		return reply{}, err
	}
	v.flash("signin.joined")
	return goTo("/")
}

// setPreferences keeps the language and how light pages are, in the browser.
func (d *Dashboard) setPreferences(v *visit) (reply, error) {
	if l := locale(v.PostFormValue("locale")); slices.Contains(locales, l) {
		v.setCookie(localeCookie, string(l), preferenceSeconds)
	}
	if t := theme(v.PostFormValue("theme")); slices.Contains(themes, t) {
		v.setCookie(themeCookie, string(t), preferenceSeconds)
	}
	return goTo(localPath(v.PostFormValue("next")))
}

// home goes to where somebody works.
func (d *Dashboard) home(v *visit) (reply, error) {
	switch m := v.who.Memberships; {
	case len(m) == 1:
		return goTo("/accounts/" + m[0].Account.String())
	case len(m) == 0 && v.who.Person.Operator && len(adminPlaces) > 0:
		return goTo(adminPath)
	}
	return page("home", nil)
}

func statusOf(err error) int {
	if fault.As(err).Kind == fault.RateLimited {
		return http.StatusTooManyRequests
	}
	return http.StatusUnprocessableEntity
}
