package main

import (
	"cmp"
	"errors"
	"strings"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/user"
)

type userCommands struct {
	Invite userInvite `cmd:"" help:"Make a one-time link by which somebody comes into the dashboard."`
	Reset  userReset  `cmd:"" help:"Make a one-time link to choose a new password, when it or the authenticator is lost."`
	List   userList   `cmd:"" help:"List people."`
	Remove userRemove `cmd:"" help:"Forget somebody and end their sessions."`
}

// site is where the dashboard is, for links.
type site struct {
	URL    string `name:"url" help:"Where people reach the dashboard. Default: where the server listens." placeholder:"URL" env:"PONTE_PUBLIC_URL"`
	Listen string `help:"Where the server listens." hidden:"" default:"127.0.0.1:8080" env:"PONTE_LISTEN"`
}

func invitationURL(base, token string) string {
	return strings.TrimSuffix(base, "/") + "/invitations/" + token
}

// printLink prints a one-time link.
func (e *env) printLink(s site, token string) error {
	link := invitationURL(cmp.Or(s.URL, "http://"+s.Listen), token)
	return e.print(struct {
		URL string `json:"url"`
	}{link}, "link  "+link, "", "It is shown only now, works once, and expires in three days.")
}

type userInvite struct {
	site
	Email    string `arg:"" help:"Whom it is for."`
	Account  string `help:"The account that they come into." placeholder:"acc_..."`
	Role     string `help:"owner, finance, developer or viewer." placeholder:"ROLE"`
	Operator bool   `help:"Make them an operator, who uses /admin."`
}

func (c *userInvite) Run(e *env) error {
	invitation := user.Invitation{Email: c.Email, Operator: c.Operator, Role: user.Role(c.Role)}
	if (c.Account == "") != (c.Role == "") {
		return errors.New("--account and --role go together")
	}
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	if c.Account != "" {
		if invitation.Account, err = id.ParseAccount(c.Account); err != nil {
			return err
		}
		if _, err := core.Accounts.Get(e.ctx, invitation.Account); err != nil {
			return err
		}
	}
	token, err := core.Users.Invite(e.ctx, invitation)
	if err != nil {
		return err
	}
	return e.printLink(c.site, token)
}

type userReset struct {
	site
	Email string `arg:"" help:"Who it is."`
}

func (c *userReset) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	token, err := core.Users.Reset(e.ctx, c.Email)
	if err != nil {
		return err
	}
	return e.printLink(c.site, token)
}

// personJSON is a person as --json prints it.
type personJSON struct {
	Email     string            `json:"email"`
	Name      string            `json:"name"`
	Operator  bool              `json:"operator"`
	TOTP      bool              `json:"totp"`
	Roles     map[string]string `json:"roles"` // by account
	CreatedAt string            `json:"created_at"`
}

type userList struct{}

func (*userList) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	list, rows, after := []personJSON{}, [][]string(nil), ""
	for {
		people, err := core.Users.List(e.ctx, after)
		if err != nil {
			return err
		}
		if len(people) == 0 {
			return e.print(list, table("EMAIL OPERATOR TOTP ROLES NAME", rows))
		}
		for _, p := range people {
			after = p.Email
			out := personJSON{p.Email, p.Name, p.Operator, p.HasTOTP, map[string]string{}, timestamp(p.CreatedAt)}
			memberships, err := core.Users.Memberships(e.ctx, p.ID)
			if err != nil {
				return err
			}
			var roles []string
			for _, m := range memberships {
				out.Roles[m.Account.String()] = string(m.Role)
				roles = append(roles, m.Account.String()+"="+string(m.Role))
			}
			list = append(list, out)
			rows = append(rows, []string{p.Email, yesNo(p.Operator), yesNo(p.HasTOTP), strings.Join(roles, ","), p.Name})
		}
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type userRemove struct {
	Email string `arg:"" help:"Who it is."`
}

func (c *userRemove) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	p, err := core.Users.Remove(e.ctx, c.Email)
	if err != nil {
		return err
	}
	return e.print(struct {
		Email string `json:"email"`
	}{p.Email}, "removed "+p.Email)
}
