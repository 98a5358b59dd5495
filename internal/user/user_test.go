package user

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/totp"
)

// world is people on a database whose real time a test moves.
type world struct {
	*Service
	t       *testing.T
	now     *time.Time
	account id.Account
	from    From
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newWorld(t, db)) })
}

func newWorld(t *testing.T, db *sqldb.DB) *world {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := clock.New(func() time.Time { return now })
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := account.New(db, c, rand.Reader).Create(t.Context(), account.Params{Name: "Padaria"})
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		Service: New(Services{
			DB: db, Clock: c, IDs: id.NewGenerator(c.Now, rand.Reader), Random: rand.Reader, Cost: Cost{MemoryKiB: 8, Passes: 1},
			Ring: func(context.Context) (*seal.Ring, error) { return ring, nil },
		}),
		t: t, now: &now, account: a.ID, from: From{Address: netip.MustParseAddr("192.0.2.1"), Agent: "Mozilla"},
	}
}

const password = "correct horse battery"

// person makes somebody with a role.
func (w *world) person(email string, role Role) Person {
	w.t.Helper()
	link, err := w.Invite(w.t.Context(), Invitation{Email: email, Account: w.account, Role: role})
	w.must(err)
	w.must(w.Accept(w.t.Context(), link, Acceptance{Name: "Ana", Password: password}))
	p, err := w.Find(w.t.Context(), email)
	w.must(err)
	return p
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) want(got, want error) {
	w.t.Helper()
	if !errors.Is(got, want) {
		w.t.Errorf("got %v, want %v", got, want)
	}
}

// signIn opens a session and returns its visitor.
func (w *world) signIn(email string) (string, Visitor) {
	w.t.Helper()
	token, _, err := w.SignIn(w.t.Context(), email, password, w.from)
	w.must(err)
	v, err := w.Authenticate(w.t.Context(), token)
	w.must(err)
	return token, v
}

// enable gives somebody who is signed in an authenticator app.
func (w *world) enable(v Visitor) (secret []byte, recovery []string) {
	w.t.Helper()
	secret, err := w.PrepareTOTP(w.t.Context(), v.Person)
	w.must(err)
	recovery, err = w.EnableTOTP(w.t.Context(), v, totp.Code(secret, totp.Step(*w.now)), "form")
	w.must(err)
	return secret, recovery
}

func TestInvitationAndSignIn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		link, err := w.Invite(t.Context(), Invitation{Email: " Ana@Example.com ", Account: w.account, Role: Finance})
		w.must(err)
		i, known, err := w.Invitation(t.Context(), link)
		w.must(err)
		if i.Email != "ana@example.com" || i.Role != Finance || i.Account != w.account || known || i.Kind != KindInvite {
			t.Errorf("got %+v, %v", i, known)
		}
		w.must(w.Accept(t.Context(), link, Acceptance{Name: "Ana", Password: password}))
		w.want(w.Accept(t.Context(), link, Acceptance{Name: "Eve", Password: password}), ErrLink)

		token, v := w.signIn("ANA@example.com")
		if v.Person.Name != "Ana" || v.Person.Operator || !v.Session.Whole || v.Session.Strong || v.Session.Address != "192.0.2.1" {
			t.Errorf("got %+v", v)
		}
		if len(v.Memberships) != 1 || v.Memberships[0] != (Membership{w.account, "Padaria", Finance}) {
			t.Errorf("memberships %+v", v.Memberships)
		}
		for _, bad := range []string{"", "x", token + "x", strings.Repeat("a", 5000), "\x00"} {
			_, err := w.Authenticate(t.Context(), bad)
			w.want(err, ErrNoSession)
		}
		w.must(w.SignOut(t.Context(), v.Person.ID, v.Session.ID))
		_, err = w.Authenticate(t.Context(), token)
		w.want(err, ErrNoSession)
	})
}

func TestNothingStoredOpensAnything(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		token, v := w.signIn("ana@example.com")
		secret, recovery := w.enable(v)
		link, err := w.Invite(t.Context(), Invitation{Email: "bia@example.com", Account: w.account, Role: Viewer})
		w.must(err)
		var stored strings.Builder
		for _, sql := range []string{`SELECT password FROM person LIMIT 10`} {
			rows, err := sqldb.All(t.Context(), w.DB, sqldb.Scalar[string], sql)
			w.must(err)
			stored.WriteString(strings.Join(rows, ""))
		}
		for _, sql := range []string{
			`SELECT hash FROM session LIMIT 10`, `SELECT hash FROM invitation LIMIT 10`, `SELECT hash FROM recovery_code LIMIT 10`, `SELECT totp FROM person LIMIT 10`,
		} {
			rows, err := sqldb.All(t.Context(), w.DB, sqldb.Scalar[[]byte], sql)
			w.must(err)
			if len(rows) == 0 {
				t.Errorf("%s finds nothing", sql)
			}
			for _, r := range rows {
				stored.Write(r)
			}
		}
		for _, s := range append(recovery, token, link, password, string(secret)) {
			if strings.Contains(stored.String(), s) {
				t.Errorf("%q is stored as it is", s)
			}
		}
		if !strings.Contains(stored.String(), "$argon2id$v=19$m=8,t=1,p=1$") {
			t.Error("the password is not hashed with argon2id")
		}
	})
}

func TestLinksExpire(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		link, err := w.Invite(t.Context(), Invitation{Operator: true})
		w.must(err)
		*w.now = w.now.Add(InvitationTime)
		_, _, err = w.Invitation(t.Context(), link)
		w.want(err, ErrLink)
		w.want(w.Accept(t.Context(), link, Acceptance{Email: "x@example.com", Name: "X", Password: password}), ErrLink)
		did, err := w.Step(t.Context())
		w.must(err)
		if n, _ := sqldb.One(t.Context(), w.DB, sqldb.Scalar[int64], `SELECT COUNT(*) FROM invitation`); !did || n != 0 {
			t.Errorf("did %v, %d invitations are left", did, n)
		}
	})
}

func TestFirstOperatorChoosesTheEmail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		if has, err := w.HasOperator(t.Context()); err != nil || has {
			t.Fatal(has, err)
		}
		link, err := w.Invite(t.Context(), Invitation{Operator: true, Account: w.account, Role: Owner})
		w.must(err)
		if err := w.Accept(t.Context(), link, Acceptance{Email: "no address", Name: "Op", Password: password}); err == nil {
			t.Error("a wrong e-mail is taken")
		}
		w.must(w.Accept(t.Context(), link, Acceptance{Email: "op@example.com", Name: "Op", Password: password}))
		p, err := w.Find(t.Context(), "op@example.com")
		w.must(err)
		if has, err := w.HasOperator(t.Context()); err != nil || !has || !p.Operator {
			t.Error(has, err, p)
		}
	})
}

func TestWeakPasswords(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "short", "password123", "ana-maria-1", strings.Repeat("a", 20), strings.Repeat("b", 129), "1234567890", "bad\xffutf8 bytes",
	} {
		if err := checkPassword(bad, "ana-maria@example.com"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, good := range []string{password, "çãõáéíóúâê", "a1b2c3d4e5"} {
		if err := checkPassword(good, "ana-maria@example.com"); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		idle, _ := w.signIn("ana@example.com")
		used, v := w.signIn("ana@example.com")
		for start := *w.now; w.now.Sub(start) < SessionTime-time.Minute; *w.now = w.now.Add(IdleTime / 2) {
			_, err := w.Authenticate(t.Context(), used)
			w.must(err)
			if w.now.Sub(start) >= IdleTime {
				_, err := w.Authenticate(t.Context(), idle)
				w.want(err, ErrNoSession)
			}
		}
		*w.now = v.Session.CreatedAt.Add(SessionTime)
		_, err := w.Authenticate(t.Context(), used)
		w.want(err, ErrNoSession)
		_, err = w.Step(t.Context())
		w.must(err)
		if n, _ := sqldb.One(t.Context(), w.DB, sqldb.Scalar[int64], `SELECT COUNT(*) FROM session`); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		// The same for somebody who does not exist: nobody learns who does.
		for _, email := range []string{"ana@example.com", "nobody@example.com"} {
			for range personTries {
				_, _, err := w.SignIn(t.Context(), email, "wrong", w.from)
				w.want(err, ErrWrong)
			}
			_, _, err := w.SignIn(t.Context(), email, password, w.from)
			w.want(err, ErrTooMany)
		}
		*w.now = w.now.Add(triesWindow)
		w.signIn("ana@example.com")

		// An address has its own limit, whoever it wants to be; right ones do not count for the person.
		other := From{Address: netip.MustParseAddr("2001:db8::1")}
		for i := range addressTries {
			_, _, err := w.SignIn(t.Context(), string(rune('a'+i%26))+"@example.com", "wrong", other)
			w.want(err, ErrWrong)
		}
		neighbour := From{Address: netip.MustParseAddr("2001:db8::2")}
		_, _, err := w.SignIn(t.Context(), "ana@example.com", password, neighbour)
		w.want(err, ErrTooMany)
		w.signIn("ana@example.com")
	})
}

func TestTOTP(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		_, other := w.signIn("ana@example.com")
		_, v := w.signIn("ana@example.com")
		w.want(w.CheckCode(t.Context(), v.Person, "123456", ""), ErrNoTOTP)
		secret, err := w.PrepareTOTP(t.Context(), v.Person)
		w.must(err)
		again, err := w.PrepareTOTP(t.Context(), v.Person)
		w.must(err)
		if string(secret) != string(again) {
			t.Error("a second look shows another secret")
		}
		_, err = w.EnableTOTP(t.Context(), v, "000000", "form")
		w.want(err, ErrWrongCode)
		code := totp.Code(secret, totp.Step(*w.now))
		recovery, err := w.EnableTOTP(t.Context(), v, code[:3]+" "+code[3:], "form")
		w.must(err)
		same, err := w.EnableTOTP(t.Context(), v, code, "form") // the same form, sent twice
		w.must(err)
		if !slices.Equal(same, recovery) || len(recovery) != recoveryCodes || recovery[0] == recovery[1] {
			t.Errorf("sent twice it shows %v, and before %v", same, recovery)
		}
		_, err = w.EnableTOTP(t.Context(), v, code, "another form")
		w.want(err, ErrHasTOTP)
		if sessions, err := w.Sessions(t.Context(), v.Person.ID); err != nil || len(sessions) != 1 || sessions[0].ID == other.Session.ID || !sessions[0].Strong {
			t.Errorf("sessions %+v, %v", sessions, err)
		}
		_, err = w.PrepareTOTP(t.Context(), v.Person)
		w.want(err, ErrHasTOTP)
		p, err := w.Find(t.Context(), "ana@example.com")
		w.must(err)
		w.want(w.CheckCode(t.Context(), p, code, ""), ErrWrongCode) // it proved the app, and is used
		*w.now = w.now.Add(30 * time.Second)
		code = totp.Code(secret, totp.Step(*w.now))

		// The password alone is good for the code and nothing more.
		half, whole, err := w.SignIn(t.Context(), "ana@example.com", password, w.from)
		w.must(err)
		hv, err := w.Authenticate(t.Context(), half)
		w.must(err)
		if whole || hv.Session.Whole || len(hv.Memberships) != 0 {
			t.Errorf("a password opens %+v", hv)
		}
		_, err = w.Verify(t.Context(), hv, "000000", w.from)
		w.want(err, ErrWrongCode)
		full, err := w.Verify(t.Context(), hv, code, w.from)
		w.must(err)
		if _, err := w.Authenticate(t.Context(), half); !errors.Is(err, ErrNoSession) || full == half {
			t.Errorf("the half session lives on: %v", err)
		}
		fv, err := w.Authenticate(t.Context(), full)
		w.must(err)
		if !fv.Session.Whole || !fv.Session.Strong {
			t.Errorf("got %+v", fv.Session)
		}
		w.want(w.CheckCode(t.Context(), p, code, ""), ErrWrongCode)

		// For one purpose a code is good again: a form that is sent twice makes one thing.
		*w.now = w.now.Add(30 * time.Second)
		code = totp.Code(secret, totp.Step(*w.now))
		w.must(w.CheckCode(t.Context(), p, code, "form 1"))
		w.must(w.CheckCode(t.Context(), p, code, "form 1"))
		w.want(w.CheckCode(t.Context(), p, code, "form 2"), ErrWrongCode)
		w.want(w.CheckCode(t.Context(), p, code, ""), ErrWrongCode)

		w.must(w.CheckCode(t.Context(), p, strings.ToUpper(recovery[0]), ""))
		w.want(w.CheckCode(t.Context(), p, recovery[0], ""), ErrWrongCode)
		if n, err := w.CountRecoveryCodes(t.Context(), p); err != nil || n != recoveryCodes-1 {
			t.Errorf("%d recovery codes are left, %v", n, err)
		}
		for range codeTries {
			err = w.CheckCode(t.Context(), p, "000000", "")
		}
		w.want(err, ErrTooMany)
		*w.now = w.now.Add(triesWindow)
		if err := w.DisableTOTP(t.Context(), fv, "wrong", totp.Code(secret, totp.Step(*w.now))); err == nil {
			t.Error("it is disabled without the password")
		}
		w.must(w.DisableTOTP(t.Context(), fv, password, totp.Code(secret, totp.Step(*w.now))))
		if sessions, err := w.Sessions(t.Context(), fv.Person.ID); err != nil || len(sessions) == 0 || sessions[0].Strong {
			t.Errorf("a session is as strong as before: %+v, %v", sessions, err)
		}
		w.signIn("ana@example.com")
	})
}

// A code that comes twice at once is taken once.
func TestCodeRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		_, v := w.signIn("ana@example.com")
		secret, _ := w.enable(v)
		*w.now = w.now.Add(30 * time.Second)
		p, err := w.Find(t.Context(), "ana@example.com")
		w.must(err)
		code := totp.Code(secret, totp.Step(*w.now))
		var running sync.WaitGroup
		results := make([]error, 4)
		for i := range results {
			running.Go(func() { results[i] = w.CheckCode(t.Context(), p, code, "") })
		}
		running.Wait()
		taken := 0
		for _, err := range results {
			if err == nil {
				taken++
			} else {
				w.want(err, ErrWrongCode)
			}
		}
		if taken != 1 {
			t.Errorf("taken %d times", taken)
		}
	})
}

func TestPasswordChange(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		other, _ := w.signIn("ana@example.com")
		own, v := w.signIn("ana@example.com")
		const next = "another horse battery"
		if err := w.ChangePassword(t.Context(), v, "wrong", next); err == nil {
			t.Error("it changes without the old one")
		}
		w.must(w.ChangePassword(t.Context(), v, password, next))
		_, _, err := w.SignIn(t.Context(), "ana@example.com", password, w.from)
		w.want(err, ErrWrong)
		_, _, err = w.SignIn(t.Context(), "ana@example.com", next, w.from)
		w.must(err)
		_, err = w.Authenticate(t.Context(), own)
		w.must(err)
		_, err = w.Authenticate(t.Context(), other)
		w.want(err, ErrNoSession)

		// A reset ends everything that was.
		w.enable(v)
		link, err := w.Reset(t.Context(), "ana@example.com")
		w.must(err)
		w.must(w.Accept(t.Context(), link, Acceptance{Password: password}))
		_, err = w.Authenticate(t.Context(), own)
		w.want(err, ErrNoSession)
		if _, v := w.signIn("ana@example.com"); v.Person.HasTOTP || len(v.Memberships) != 1 {
			t.Errorf("got %+v", v)
		}
		w.want(w.Join(t.Context(), link, v.Person), ErrLink)
	})
}

func TestTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ana := w.person("ana@example.com", Owner)
		bia := w.person("bia@example.com", Viewer)
		w.want(w.SetRole(t.Context(), w.account, ana.ID, Viewer), ErrLastOwner)
		w.want(w.Expel(t.Context(), w.account, ana.ID), ErrLastOwner)
		w.want(w.SetRole(t.Context(), w.account+1, bia.ID, Owner), ErrNotFound)
		w.want(w.Expel(t.Context(), w.account+1, bia.ID), ErrNotFound)
		w.must(w.SetRole(t.Context(), w.account, bia.ID, Owner))
		w.must(w.Expel(t.Context(), w.account, ana.ID))
		members, err := w.Members(t.Context(), w.account)
		w.must(err)
		if len(members) != 1 || members[0].Person.ID != bia.ID || members[0].Role != Owner {
			t.Errorf("members %+v", members)
		}

		// Somebody who is known comes in again by signing in, and with their own e-mail only.
		link, err := w.Invite(t.Context(), Invitation{Email: ana.Email, Account: w.account, Role: Finance})
		w.must(err)
		w.want(w.Accept(t.Context(), link, Acceptance{Name: "Eve", Password: password}), ErrWrongUser)
		w.want(w.Join(t.Context(), link, bia), ErrWrongUser)
		if open, err := w.Invitations(t.Context(), w.account); err != nil || len(open) != 1 {
			t.Errorf("open %+v, %v", open, err)
		}
		w.must(w.Join(t.Context(), link, ana))
		w.want(w.Join(t.Context(), link, ana), ErrLink)
		if m, err := w.Memberships(t.Context(), ana.ID); err != nil || len(m) != 1 || m[0].Role != Finance {
			t.Errorf("memberships %+v, %v", m, err)
		}
		link, err = w.Invite(t.Context(), Invitation{Email: "c@example.com", Account: w.account, Role: Finance})
		w.must(err)
		open, err := w.Invitations(t.Context(), w.account)
		w.must(err)
		w.want(w.Withdraw(t.Context(), w.account+1, open[0].ID), ErrLink)
		_, _, err = w.Invitation(t.Context(), link)
		w.must(err)
		w.must(w.Withdraw(t.Context(), w.account, open[0].ID))
		_, _, err = w.Invitation(t.Context(), link)
		w.want(err, ErrLink)

		gone, err := w.Remove(t.Context(), "ana@example.com")
		w.must(err)
		if m, err := w.Memberships(t.Context(), gone.ID); err != nil || len(m) != 0 {
			t.Errorf("memberships %+v, %v", m, err)
		}
		people, err := w.List(t.Context(), "")
		w.must(err)
		if len(people) != 1 || people[0].Email != "bia@example.com" {
			t.Errorf("people %+v", people)
		}
	})
}

// Two owners who remove each other at once do not leave the account without one.
func TestOwnersRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ana, bia := w.person("ana@example.com", Owner), w.person("bia@example.com", Owner)
		var running sync.WaitGroup
		for _, p := range []Person{ana, bia} {
			running.Go(func() { _ = w.Expel(t.Context(), w.account, p.ID) })
		}
		running.Wait()
		members, err := w.Members(t.Context(), w.account)
		w.must(err)
		if len(members) != 1 {
			t.Errorf("%d members are left", len(members))
		}
	})
}

// The table in docs/dashboard.md is the one in the code.
func TestGrantsAreDocumented(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Permissions {
		row := regexp.MustCompile("(?m)^\\| `" + string(p) + "` \\|[^|]*\\|(.*)\\|$").FindSubmatch(content)
		if row == nil {
			t.Errorf("docs/dashboard.md has no row for %s", p)
			continue
		}
		var got []Role
		for i, cell := range strings.Split(string(row[1]), "|") {
			if strings.TrimSpace(cell) == "yes" {
				got = append(got, Roles[i])
			}
		}
		if !slices.Equal(got, grants[p]) {
			t.Errorf("%s: documented for %v, granted to %v", p, got, grants[p])
		}
	}
	if len(Permissions) != len(grants) {
		t.Error("a permission is not listed")
	}
	if Owner.May("") || Role("").May(View) {
		t.Error("nothing is granted to nobody")
	}
}

// Who gives power to others proves themselves with what they have: the password, and once there is an app a code of it.
func TestProve(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ana := w.person("ana@example.com", Owner)
		_, v := w.signIn(ana.Email)
		w.must(w.Prove(t.Context(), v.Person, password, "a"))
		if err := w.Prove(t.Context(), v.Person, "wrong", "a"); fault.As(err).Code != "password_old_wrong" {
			t.Error(err)
		}
		secret, _ := w.enable(v)
		v.Person.HasTOTP = true
		w.want(w.Prove(t.Context(), v.Person, password, "a"), ErrWrongCode)
		code := totp.Code(secret, totp.Step(*w.now)+1)
		w.must(w.Prove(t.Context(), v.Person, code, "a"))
		w.must(w.Prove(t.Context(), v.Person, code, "a")) // the same form, sent twice
		w.want(w.Prove(t.Context(), v.Person, code, "b"), ErrWrongCode)
		for range personTries {
			_ = w.Prove(t.Context(), v.Person, "000000", "a")
		}
		w.want(w.Prove(t.Context(), v.Person, totp.Code(secret, totp.Step(*w.now)+1), "a"), ErrTooMany)
	})
}

// Of two invitations for one e-mail the last opens, and nobody is invited to where they are.
func TestInviteAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		first, err := w.Invite(t.Context(), Invitation{Email: "bia@example.com", Account: w.account, Role: Viewer})
		w.must(err)
		elsewhere, err := w.Invite(t.Context(), Invitation{Email: "bia@example.com", Account: w.account + 1, Role: Viewer})
		w.must(err)
		second, err := w.Invite(t.Context(), Invitation{Email: "Bia@example.com", Account: w.account, Role: Finance})
		w.must(err)
		_, _, err = w.Invitation(t.Context(), first)
		w.want(err, ErrLink)
		_, _, err = w.Invitation(t.Context(), elsewhere)
		w.must(err)
		w.must(w.Accept(t.Context(), second, Acceptance{Name: "Bia", Password: password}))
		_, err = w.Invite(t.Context(), Invitation{Email: "bia@example.com", Account: w.account, Role: Owner})
		w.want(err, ErrMember)
	})
}

// Only who has given the password just now sets up an app: who has stolen a cookie does not know it.
func TestOldSessionsSetUpNoApp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ana := w.person("ana@example.com", Owner)
		_, v := w.signIn(ana.Email)
		secret, err := w.PrepareTOTP(t.Context(), v.Person)
		w.must(err)
		*w.now = w.now.Add(freshTime)
		_, err = w.EnableTOTP(t.Context(), v, totp.Code(secret, totp.Step(*w.now)), "form")
		w.want(err, ErrOld)
		_, v = w.signIn(ana.Email)
		_, err = w.EnableTOTP(t.Context(), v, totp.Code(secret, totp.Step(*w.now)), "form")
		w.must(err)
	})
}

// A link that was replaced, or whose person was sent away, opens nothing.
func TestOldLinksOpenNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		closed := func(link string) {
			t.Helper()
			_, _, err := w.Invitation(t.Context(), link)
			w.want(err, ErrLink)
		}
		link := func(i Invitation) string {
			t.Helper()
			text, err := w.Invite(t.Context(), i)
			w.must(err)
			return text
		}
		// Each start prints one until there is an operator; the last one works.
		first := link(Invitation{Operator: true, Account: w.account, Role: Owner})
		second := link(Invitation{Operator: true})
		closed(first)
		w.must(w.Accept(t.Context(), second, Acceptance{Email: "op@example.com", Name: "Op", Password: password}))

		w.person("ana@example.com", Owner)
		bia := w.person("bia@example.com", Viewer)
		lost, err := w.Reset(t.Context(), bia.Email)
		w.must(err)
		found, err := w.Reset(t.Context(), bia.Email)
		w.must(err)
		closed(lost)

		operator := link(Invitation{Email: bia.Email, Operator: true, Account: w.account, Role: Owner})
		elsewhere := link(Invitation{Email: bia.Email, Account: w.account + 1, Role: Owner})
		w.must(w.Expel(t.Context(), w.account, bia.ID))
		closed(operator)
		_, _, err = w.Invitation(t.Context(), elsewhere)
		w.must(err)
		_, err = w.Remove(t.Context(), bia.Email)
		w.must(err)
		closed(elsewhere)
		closed(found)
	})
}

// Who comes in is in the log, by the name that they came in with.
func TestComingInIsLogged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ana := w.person("ana@example.com", Finance)
		link, err := w.Invite(t.Context(), Invitation{Email: ana.Email, Operator: true})
		w.must(err)
		w.must(w.Join(t.Context(), link, ana))
		entries, err := oplog.List(t.Context(), w.DB, oplog.Page{})
		w.must(err)
		for _, want := range []string{"role", "operator"} {
			if !slices.ContainsFunc(entries, func(e oplog.Entry) bool {
				return e.Action == oplog.PersonJoin && e.Actor.String() == ana.Email && e.Subject == ana.Email && e.After[want] != ""
			}) {
				t.Errorf("nothing tells of the %s: %+v", want, entries)
			}
		}
	})
}

// An address that has tried too much cannot use up the tries of others.
func TestOneAddressLocksNobodyOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.person("ana@example.com", Owner)
		evil := From{Address: netip.MustParseAddr("198.51.100.7")}
		for range addressTries {
			_, _, err := w.SignIn(t.Context(), "nobody@example.com", "wrong", evil)
			if err == nil {
				t.Fatal("it is right")
			}
		}
		for range personTries + 1 {
			_, _, err := w.SignIn(t.Context(), "ana@example.com", "wrong", evil)
			w.want(err, ErrTooMany)
		}
		w.signIn("ana@example.com")
	})
}
