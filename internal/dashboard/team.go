package dashboard

import (
	"cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/user"
)

// teamData is who is in an account.
type teamData struct {
	Form        *form
	Once        string
	Roles       []option
	Members     []user.Member
	Invitations []user.Invitation
	Self        id.ID
}

// roleOptions are the roles that somebody can have.
func roleOptions(v *visit) []option {
	var list []option
	for _, r := range user.Roles {
		list = append(list, option{string(r), v.t("role." + string(r))})
	}
	return list
}

func (d *Dashboard) teamData(v *visit, f *form) (teamData, error) {
	data := teamData{Form: f, Once: cmp.Or(f.Value("once"), d.once()), Roles: roleOptions(v), Self: v.who.Person.ID}
	var err error
	if data.Members, err = d.Users.Members(v.Context(), v.account.ID); err != nil || !v.role.May(user.Team) {
		return data, err
	}
	data.Invitations, err = d.Users.Invitations(v.Context(), v.account.ID)
	return data, err
}

func (d *Dashboard) listTeam(v *visit) (reply, error) {
	data, err := d.teamData(v, newForm(v).set("role", string(user.Viewer)))
	if err != nil {
		return reply{}, err
	}
	return page("team", data)
}

// role reads a role.
func (f *form) role() user.Role {
	var words []string
	for _, r := range user.Roles {
		words = append(words, string(r))
	}
	return user.Role(f.choice("role", words...))
}

// linkData shows an invitation's link, once.
type linkData struct {
	Invitation user.Invitation
	Link       string
}

func (d *Dashboard) invite(v *visit) (reply, error) {
	f := newForm(v)
	i := user.Invitation{Account: v.account.ID, Email: f.text("email", textRule{required: true, max: user.EmailMax}), Role: f.role()}
	if err := d.prove(v, f); err != nil {
		return reply{}, err
	}
	if !f.broken() {
		token, err := d.Users.Invite(v.Context(), i)
		if err == nil {
			return reply{page: "team_link", data: linkData{i, d.link(v, token)}, secret: true}, nil
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	data, err := d.teamData(v, f)
	if err != nil {
		return reply{}, err
	}
	return again("team", data)
}

func (d *Dashboard) withdrawInvitation(v *visit) (reply, error) {
	x, err := id.Parse(v.PathValue("invitation"))
	if err != nil {
		return reply{}, user.ErrLink
	}
	if err := d.Users.Withdraw(v.Context(), v.account.ID, x); err != nil {
		return reply{}, err
	}
	v.flash("team.withdrawn")
	return goTo(accountPath(v.account, "team"))
}

// memberData is somebody in an account.
type memberData struct {
	Form   *form
	Once   string
	Roles  []option
	Member user.Member
	IsSelf bool
}

// member returns who the path names, or [user.ErrNotFound].
func (d *Dashboard) member(v *visit) (user.Member, error) {
	x, err := id.Parse(v.PathValue("person"))
	if err != nil {
		return user.Member{}, user.ErrNotFound
	}
	members, err := d.Users.Members(v.Context(), v.account.ID)
	if err != nil {
		return user.Member{}, err
	}
	for _, m := range members {
		if m.Person.ID == x {
			return m, nil
		}
	}
	return user.Member{}, user.ErrNotFound
}

func (d *Dashboard) memberData(v *visit, m user.Member, f *form) memberData {
	return memberData{f, cmp.Or(f.Value("once"), d.once()), roleOptions(v), m, m.Person.ID == v.who.Person.ID}
}

func (d *Dashboard) showMember(v *visit) (reply, error) {
	m, err := d.member(v)
	if err != nil {
		return reply{}, err
	}
	return page("member", d.memberData(v, m, newForm(v).set("role", string(m.Role))))
}

func (d *Dashboard) changeRole(v *visit) (reply, error) {
	m, err := d.member(v)
	if err != nil {
		return reply{}, err
	}
	f := newForm(v)
	role := f.role()
	if err := d.prove(v, f); err != nil {
		return reply{}, err
	}
	if !f.broken() {
		err := d.Users.SetRole(v.Context(), v.account.ID, m.Person.ID, role)
		if err == nil {
			v.flash("team.changed")
			return goTo(accountPath(v.account, "team"))
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	return again("member", d.memberData(v, m, f))
}

func (d *Dashboard) removeMember(v *visit) (reply, error) {
	m, err := d.member(v)
	if err != nil {
		return reply{}, err
	}
	err = d.Users.Expel(v.Context(), v.account.ID, m.Person.ID)
	if err != nil {
		f := newForm(v).set("role", string(m.Role))
		if !f.refuse(err) {
			return reply{}, err
		}
		return again("member", d.memberData(v, m, f))
	}
	v.flash("team.removed")
	if m.Person.ID == v.who.Person.ID {
		return goTo("/")
	}
	return goTo(accountPath(v.account, "team"))
}
