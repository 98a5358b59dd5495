package app_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// wantClosed fails the test unless every route, documented or not, answers 503.
func wantClosed(t *testing.T, s *testkit.Service, key, reason string) {
	t.Helper()
	document, err := testkit.Document()
	if err != nil {
		t.Fatal(err)
	}
	requests := []testkit.Request{{Path: "/v1/nothing"}, {Path: "/"}, {Method: http.MethodPut, Path: "/v1/balance"}}
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			requests = append(requests, testkit.Request{Method: method, Path: "/v1" + strings.ReplaceAll(path, "{id}", "x_1")})
		}
	}
	for _, r := range requests {
		for _, key := range []string{key, ""} {
			r.Key, r.Invalid = key, true
			got := s.Do(t, r).WantError(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE").Lacks(t, "127.0.0.1", "database", reason)
			if got.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s: no retry-after", r.Method, r.Path)
			}
		}
	}
	s.Do(t, testkit.Request{Path: "/healthz"}).Want(t, http.StatusOK)
	wantReadiness(t, s, http.StatusServiceUnavailable, `{"status":"not ready","reason":"`+reason+`"}`)
}

// wantReadiness asks without the contract, which is about /v1.
func wantReadiness(t *testing.T, s *testkit.Service, status int, body string) {
	t.Helper()
	rec := httptest.NewRecorder()
	s.Server.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	if rec.Code != status || strings.TrimSpace(rec.Body.String()) != body {
		t.Fatalf("/readyz: got %d %s, want %d %s", rec.Code, rec.Body, status, body)
	}
}

func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := testkit.Start(t, sqltest.SQLite(t))
		a := s.Account(t, "shop")
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
		wantReadiness(t, s, http.StatusOK, `{"status":"ready","simulated":true}`)
		s.Core.DB.Close()
		s.Step(t)
		wantClosed(t, s, a.Key, "the database does not answer")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
		s := testkit.Start(t, proxy.URL)
		a, unseen := s.Account(t, "shop"), s.Account(t, "new shop")
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)

		release := proxy.Hold() // it is there and says nothing
		s.Server.Look(t.Context())
		wantClosed(t, s, a.Key, "the database does not answer")
		release()
		s.Server.Look(t.Context())
		wantReadiness(t, s, http.StatusOK, `{"status":"ready","simulated":true}`)
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)

		proxy.Down()
		// Nobody has noticed yet: whoever needs the database is refused all the same.
		s.Get(t, unseen.Key, "/v1/boletos").WantError(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
		s.Server.Look(t.Context())
		wantClosed(t, s, a.Key, "the database does not answer")
		if log := s.Log(); !strings.Contains(log, "refused") {
			t.Error("the log does not tell why")
		}
	})
}

func TestDraining(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
	s.Server.Drain()
	wantClosed(t, s, a.Key, "draining")
	s.Step(t) // a step does not open it again
	wantClosed(t, s, a.Key, "draining")
}

// TestDrainWaits stops a server while it works on a request: that one is answered, and who comes later is told.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	s := testkit.Run(t, proxy.URL, func(c *config.Serve) { c.DrainTimeout = time.Minute })
	a := s.Account(t, "shop")
	s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK) // the key is known: to read it has less time than all that follows may take
	release := proxy.Hold()
	answered := make(chan *testkit.Answer, 1)
	go func() {
		defer close(answered)
		got, err := testkit.Try(t.Context(), s.URL, testkit.Request{Path: "/v1/balance", Key: a.Key})
		if err != nil {
			t.Error(err)
			return
		}
		answered <- got
	}()
	testkit.Wait(t, "the request to be worked on", func() bool { return s.Server.UnderWay() == 1 })
	s.Stop()
	testkit.Wait(t, "the server to drain", func() bool { return errors.Is(s.Server.Ready(), node.ErrDraining) })
	wantClosed(t, s, a.Key, "draining")
	release()
	if got := <-answered; got == nil || got.Status != http.StatusOK {
		t.Errorf("the request under way got %+v", got)
	}
}

func TestStarting(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	var err error
	if s.Server, err = app.NewServer(s.Core, s.Bank, config.Serve{}, s.Logger); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Server.Handler())
	t.Cleanup(server.Close)
	s.URL = server.URL
	wantClosed(t, s, a.Key, "starting")
	s.Step(t)
	s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
}

func TestFirstRun(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		const starts = 6
		made := make(chan string, starts)
		var running sync.WaitGroup
		gun := make(chan struct{}) // they start together
		for range starts {
			core, err := app.Open(t.Context(), config.Store{Database: url}, app.Existing)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(core.Close)
			running.Go(func() {
				<-gun
				first, err := app.FirstRun(t.Context(), core, true)
				if err != nil {
					t.Error(err)
				}
				if (first.Key == "") != (first.Account == account.Account{}) {
					t.Errorf("account %v with key %q", first.Account, first.Key)
				}
				if first.Key != "" {
					made <- first.Account.Name
				}
			})
		}
		close(gun)
		running.Wait()
		close(made)
		var names []string
		for name := range made {
			names = append(names, name)
		}
		// On SQLite only one process serves, so that nothing has to keep several apart.
		if url[0] == 'p' && !slices.Equal(names, []string{"demo"}) {
			t.Errorf("%d servers made %q", starts, names)
		}
		core, err := app.Open(t.Context(), config.Store{Database: url}, app.Existing)
		if err != nil {
			t.Fatal(err)
		}
		defer core.Close()
		first, err := app.FirstRun(t.Context(), core, true)
		if first.Key != "" || err != nil {
			t.Errorf("a later start made a key, %v", err)
		}
		// As long as there is no operator, each start invites one, into the demo account too.
		i, _, err := core.Users.Invitation(t.Context(), first.Invitation)
		if err != nil || !i.Operator || i.Account == 0 || i.Role != user.Owner || i.Email != "" {
			t.Errorf("the first operator's invitation is %+v, %v", i, err)
		}
		if err := core.Users.Accept(t.Context(), first.Invitation, user.Acceptance{Email: "op@example.com", Name: "Op", Password: "correct horse battery"}); err != nil {
			t.Fatal(err)
		}
		if first, err = app.FirstRun(t.Context(), core, true); first.Invitation != "" || err != nil {
			t.Errorf("there is an operator, and another is invited, %v", err)
		}
	})
}

// TestOpen opens databases that are not there, empty or there, in every way.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		how              app.Opening
		missing, noTable bool // whether it opens
	}{
		{"existing", app.Existing, false, false},
		{"creating", app.Creating, true, true},
		{"updating", app.Updating, true, true},
		{"serving", app.Serving, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			try := func(url string, want bool) {
				t.Helper()
				core, err := app.Open(t.Context(), config.Store{Database: url}, c.how)
				if (err == nil) != want {
					t.Fatalf("%s: %v", url, err)
				}
				if err == nil {
					core.Close()
				}
			}
			folder := filepath.Join(t.TempDir(), "a", "b")
			try("sqlite:"+filepath.Join(folder, "ponte.db"), c.missing)
			for path, want := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, "ponte.db"): 0o600} { // money and keys
				if info, err := os.Stat(path); c.missing && (err != nil || info.Mode().Perm() != want) {
					t.Errorf("%s: %v, %v", path, info, err)
				}
			}
			try(sqltest.EmptyPostgres(t), c.noTable)
			try(sqltest.Postgres(t), true)
			try(sqltest.SQLite(t), true)
		})
	}
}

// TestLoop fails some steps of a loop: it goes on, and tells once that it fails and once that it works again.
func TestLoop(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := clock.New(nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the loop waits for an hour behind each step, unless business time is moved
		for moved := time.Second; testkit.Real.Wait(ctx, time.Millisecond) == nil; moved += time.Second {
			c.Raise(moved)
		}
	}()
	runs := 0
	app.Loop(ctx, c, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) (bool, error) {
		runs++
		switch runs {
		case 1:
			panic("the first step")
		case 2:
			return false, errors.New("the second step")
		case 3:
			return true, nil
		case 4:
			return false, nil
		}
		cancel()
		return false, ctx.Err()
	})
	if runs != 5 {
		t.Errorf("%d steps", runs)
	}
	for text, want := range map[string]int{"loop fails": 1, "the first step": 1, "the second step": 0, "loop works again": 1, "canceled": 0} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, got, want, log.String())
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	for _, path := range []string{"/v1/balance", "/v1/made-up-1", "/v1/made-up-2", "/v1/boletos/bol_1", "/v1/boletos/bol_2"} {
		s.Get(t, a.Key, path)
	}
	s.Get(t, a.Key+"x", "/v1/balance").Want(t, http.StatusUnauthorized)
	rec := httptest.NewRecorder()
	s.Server.Admin().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	page := rec.Body.String()
	for _, line := range []string{
		`ponte_http_requests_total{route="/balance",status="200"} 1`,
		`ponte_http_requests_total{route="/balance",status="401"} 1`,
		`ponte_http_request_seconds_count{route="/balance"} 2`,
		`ponte_http_requests_total{route="/boletos/{id}",status="501"} 2`,
		`ponte_http_requests_total{route="none",status="404"} 2`, // a caller makes no series
		"ponte_ready 1", "ponte_nodes 1", "ponte_fold_lag_seconds 0", "ponte_clock_offset_seconds 0",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if strings.Contains(page, "made-up") || strings.Contains(page, "bol_") {
		t.Error("/metrics has what callers wrote")
	}
	s.Get(t, a.Key, "/metrics").WantError(t, http.StatusNotFound, "not_found") // the admin listener's only
}

func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := app.CertificateFiles(filepath.Join(folder, "none"), "")(); err == nil {
		t.Error("a certificate that is not there was read")
	}
	now := testkit.Real.Real()
	first := testkit.NewCertificate(t, folder, now.Add(48*time.Hour+time.Minute))
	get := app.CertificateFiles(first.CertFile, first.KeyFile)
	want := func(c testkit.Certificate) {
		t.Helper()
		got, err := get()
		if err != nil {
			t.Fatal(err)
		}
		if got.Leaf.SerialNumber.Cmp(c.Serial) != 0 {
			t.Errorf("certificate %v, want %v", got.Leaf.SerialNumber, c.Serial)
		}
	}
	touch := func(ago time.Duration) {
		t.Helper()
		if err := os.Chtimes(first.CertFile, now, now.Add(-ago)); err != nil {
			t.Fatal(err)
		}
	}
	touch(3 * time.Hour)
	want(first)
	second := testkit.NewCertificate(t, folder, now.Add(time.Hour))
	touch(2 * time.Hour)
	want(second)
	if err := os.WriteFile(first.CertFile, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(time.Hour)
	want(second) // the old one serves on
	if _, err := app.CertificateLife(first.CertFile); err == nil {
		t.Error("half a certificate is valid")
	}
	testkit.NewCertificate(t, folder, now.Add(48*time.Hour+time.Minute))
	if left, err := app.CertificateLife(first.CertFile); err != nil || left/time.Hour != 48 {
		t.Errorf("valid for %v, %v", left, err)
	}
	testkit.NewCertificate(t, folder, now.Add(-time.Minute))
	if _, err := app.CertificateLife(first.CertFile); err == nil {
		t.Error("a certificate of yesterday is valid")
	}
}
