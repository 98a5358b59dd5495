package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Settings are what an operator can choose.
type Settings struct {
	Timeout time.Duration   // real time that a receiver has to answer; 0 means 10 s
	Waits   []time.Duration // business time after each failure; nil means 1 min, 5 min, 30 min, 2 h, 12 h
	Keep    time.Duration   // business time that events are kept; 0 means 90 days
	Targets Targets

	Transport http.RoundTripper // replaces the connections to receivers; nil means those
}

// Defaults of the settings.
const (
	TimeoutDefault = 10 * time.Second
	KeepDefault    = 90 * 24 * time.Hour
)

var waitsDefault = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}

// Services are what webhooks stand on.
type Services struct {
	DB       *sqldb.DB
	Clock    *clock.Clock
	IDs      *id.Generator
	Random   io.Reader
	Accounts *account.Service
	Ring     func(ctx context.Context) (*seal.Ring, error) // opens and seals secrets
	Node     *node.Node                                    // what owns deliveries; nil for a command, which sends nothing
	Log      *slog.Logger
	Observe  func(Outcome) // told of every attempt; nil for nobody
	Settings Settings
}

// Service registers endpoints and delivers events to them.
type Service struct {
	Services
	directory directory
	lines     *lines
	results   results
	upkeep    upkeep
	pruning   pruning
	transport http.RoundTripper
}

// New returns the service. Events can be written once [Service.Refresh] has read the endpoints.
func New(s Services) *Service {
	if s.Settings.Timeout == 0 {
		s.Settings.Timeout = TimeoutDefault
	}
	if s.Settings.Waits == nil {
		s.Settings.Waits = waitsDefault
	}
	if s.Settings.Keep == 0 {
		s.Settings.Keep = KeepDefault
	}
	return &Service{Services: s, lines: newLines(s.Clock), transport: newTransport(s.Settings), results: newResults()}
}

// Refresh reads the endpoints that have changed. It is run at least twice a second, so that a change counts within two
// seconds on every node.
func (s *Service) Refresh(ctx context.Context) (did bool, err error) {
	changed, err := s.directory.refresh(ctx, s.DB)
	for _, e := range changed {
		s.lines.follow(e)
	}
	if err != nil {
		err = fmt.Errorf("webhook: read the endpoints: %w", err)
	}
	return false, err
}

// What can be wrong with an endpoint.
var (
	ErrNotFound  = fault.New(fault.NotFound, "", "there is no such endpoint")
	errTaken     = fault.New(fault.Conflict, "endpoint_exists", "the account has an endpoint with this URL already")
	errTooMany   = fault.New(fault.Conflict, "too_many_endpoints", fmt.Sprintf("an account has at most %d endpoints", EndpointsMax))
	errNotActive = fault.New(fault.Conflict, "endpoint_not_active", "the endpoint is disabled: enable it first")
)

// Create registers an endpoint and returns its secret, which is never shown again.
func (s *Service) Create(ctx context.Context, owner id.Account, e Endpoint) (*Endpoint, string, error) {
	if err := s.Settings.Targets.Check(e.URL); err != nil {
		return nil, "", err
	}
	secret, err := newSecret(s.Random)
	if err != nil {
		return nil, "", err
	}
	made := &Endpoint{Account: owner, ID: s.IDs.New(), URL: e.URL, Events: e.Events, Status: Active, settled: true}
	if made.secret, err = s.seal(ctx, made, secret); err != nil {
		return nil, "", err
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.EndpointCreate, Account: owner, Subject: Prefix.Format(made.ID),
		After: oplog.Fields{"url": made.URL, "events": FormatEvents(made.Events)},
	})
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if made.version, err = sqldb.One(ctx, tx, sqldb.Scalar[int64], bumpVersion); err != nil {
			return err
		}
		if _, err := getEndpoint(ctx, tx, owner, made.ID); err == nil {
			return nil // of a run whose COMMIT was answered by nobody
		} else if !errors.Is(err, sqldb.ErrNoRows) {
			return err
		}
		n, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countEndpoints, int64(owner))
		if err != nil {
			return err
		}
		if n >= EndpointsMax {
			return errTooMany
		}
		entry.Write(ctx, tx)
		made.insert(ctx, tx)
		return nil
	})
	if errors.Is(err, sqldb.ErrConflict) {
		err = errTaken
	}
	if err != nil {
		return nil, "", err
	}
	_, err = s.Refresh(ctx)
	return made, secret, err
}

// List returns an account's endpoints.
func (s *Service) List(ctx context.Context, owner id.Account) ([]*Endpoint, error) {
	return sqldb.All(ctx, s.DB, scanEndpoint, listEndpoints, int64(owner), EndpointsMax)
}

// Disable keeps events from being sent. What waits goes out once the endpoint is enabled again.
func (s *Service) Disable(ctx context.Context, public string) (*Endpoint, error) {
	return s.change(ctx, public, oplog.EndpointDisable, func(e *Endpoint) { e.Status, e.settled = Disabled, false })
}

// Enable lets events be sent again, those that waited included.
func (s *Service) Enable(ctx context.Context, public string) (*Endpoint, error) {
	return s.change(ctx, public, oplog.EndpointEnable, func(e *Endpoint) { e.Status, e.settled, e.pace, e.FailingSince = Active, false, common, time.Time{} })
}

// Delete takes an endpoint from its account. What waits for it is cancelled.
func (s *Service) Delete(ctx context.Context, public string) (*Endpoint, error) {
	return s.change(ctx, public, oplog.EndpointDelete, func(e *Endpoint) { e.Status, e.settled = Deleted, false })
}

// Subscribe changes which types of event an endpoint is told of; nil means all.
func (s *Service) Subscribe(ctx context.Context, public string, types []event.Type) (*Endpoint, error) {
	return s.change(ctx, public, oplog.EndpointSubscribe, func(e *Endpoint) { e.Events = types })
}

const rotateMax = 30 * 24 * time.Hour

// Rotate returns a new secret, which begins to sign after a while of business time. Until then the present one signs, so
// that a receiver can learn to accept both first. A rotation that has not begun yet is replaced.
func (s *Service) Rotate(ctx context.Context, public string, after time.Duration) (*Endpoint, string, error) {
	if after < 0 || after > rotateMax {
		return nil, "", invalid("after", "after_wrong", fmt.Sprintf("must be 0 to %v", rotateMax))
	}
	secret, err := newSecret(s.Random)
	if err != nil {
		return nil, "", err
	}
	found, err := s.Get(ctx, public)
	if err != nil {
		return nil, "", err
	}
	sealed, err := s.seal(ctx, found, secret)
	if err != nil {
		return nil, "", err
	}
	now := s.Clock.Now().Truncate(time.Microsecond)
	e, err := s.change(ctx, public, oplog.EndpointRotate, func(e *Endpoint) {
		if !e.NextAt.IsZero() && !now.Before(e.NextAt) {
			e.secret = e.nextSecret // it signs already
		}
		e.nextSecret, e.NextAt = sealed, now.Add(after)
		if after == 0 {
			e.secret, e.nextSecret, e.NextAt = sealed, nil, time.Time{}
		}
	})
	return e, secret, err
}

// Get returns an endpoint of any account. Operators do not have to know whose it is.
func (s *Service) Get(ctx context.Context, public string) (*Endpoint, error) {
	x, err := Prefix.Parse(public)
	if err != nil {
		return nil, ErrNotFound
	}
	e, err := sqldb.One(ctx, s.DB, scanEndpoint, findEndpoint, x)
	if errors.Is(err, sqldb.ErrNoRows) || (err == nil && e.Status == Deleted) {
		return nil, ErrNotFound
	}
	return e, err
}

// GetOf is [Service.Get] for the people of an account, for whom the endpoints of others do not exist.
func (s *Service) GetOf(ctx context.Context, owner id.Account, public string) (*Endpoint, error) {
	e, err := s.Get(ctx, public)
	if err == nil && e.Account != owner {
		return nil, ErrNotFound
	}
	return e, err
}

// change changes an endpoint that is not deleted, at somebody's wish.
func (s *Service) change(ctx context.Context, public string, what oplog.Action, how func(*Endpoint)) (*Endpoint, error) {
	e, err := s.Get(ctx, public)
	if err != nil {
		return nil, err
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{Action: what, Account: e.Account, Subject: public})
	gone := false
	e, err = s.write(ctx, e, entry, func(e *Endpoint) bool {
		if gone = e.Status == Deleted; !gone {
			entry.Before = e.fields()
			how(e)
			entry.After = e.fields()
		}
		return !gone
	})
	if err == nil && gone {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	_, err = s.Refresh(ctx)
	return e, err
}

// fields say what can be changed of an endpoint at somebody's wish.
func (e *Endpoint) fields() oplog.Fields {
	fields := oplog.Fields{"status": string(e.Status), "url": e.URL, "events": FormatEvents(e.Events)}
	if !e.NextAt.IsZero() {
		fields["next_secret_from"] = e.NextAt.Format(time.RFC3339)
	}
	return fields
}

// write changes an endpoint as it stands, under the lock that orders all changes, unless how finds nothing to do. A
// second run after a lost COMMIT does the same again. The entry is nil for what nobody wished for.
func (s *Service) write(ctx context.Context, of *Endpoint, entry *oplog.Entry, how func(*Endpoint) bool) (changed *Endpoint, err error) {
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		version, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], bumpVersion)
		if err != nil {
			return err
		}
		e, err := sqldb.One(ctx, tx, scanEndpoint, lockEndpoint, int64(of.Account), of.ID)
		if err != nil {
			return err
		}
		changed = e
		if how(e) {
			e.version = version
			e.store(ctx, tx)
			if entry != nil {
				entry.Write(ctx, tx)
			}
		}
		return nil
	})
	return changed, err
}

// PermitPostback refuses a postback_url that is not the URL of an active endpoint of the account; "" is none. What is
// registered counts at once.
func (s *Service) PermitPostback(ctx context.Context, owner id.Account, url string) error {
	if url == "" || s.directory.hasURL(owner, url) {
		return nil
	}
	_, err := sqldb.One(ctx, s.DB, scanEndpoint, selectByURL, int64(owner), url)
	if errors.Is(err, sqldb.ErrNoRows) {
		return errPostback
	}
	if err == nil { // this node does not know it yet
		_, err = s.Refresh(ctx)
	}
	return err
}

var errPostback = fault.New(fault.Invalid, "postback_url_not_registered", "postback_url must be the URL of an active webhook endpoint of the account")

// seal seals a secret of an endpoint.
func (s *Service) seal(ctx context.Context, e *Endpoint, secret string) ([]byte, error) {
	ring, err := s.Ring(ctx)
	if err != nil {
		return nil, err
	}
	return ring.Seal(s.Random, []byte(secret), e.place())
}

// place is what the endpoint's secrets are sealed for.
func (e *Endpoint) place() string {
	return "endpoint " + e.Account.String() + " " + Prefix.Format(e.ID)
}

// secretAt returns what signs at a moment of business time.
func (s *Service) secretAt(ctx context.Context, e *Endpoint, now time.Time) (string, error) {
	ring, err := s.Ring(ctx)
	if err != nil {
		return "", err
	}
	sealed := e.secret
	if e.nextSecret != nil && !now.Before(e.NextAt) {
		sealed = e.nextSecret
	}
	secret, err := ring.Open(sealed, e.place())
	return string(secret), err
}

// failingLong is how long an endpoint fails before an operator is told.
const failingLong = 3 * 24 * time.Hour

// FailingLong returns the active endpoints that have failed for three days without one success.
func (s *Service) FailingLong(ctx context.Context) ([]*Endpoint, error) {
	if _, err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	before := s.Clock.Now().Add(-failingLong)
	var list []*Endpoint
	for _, e := range s.directory.failing() {
		if e.FailingSince.Before(before) {
			list = append(list, e)
		}
	}
	return list, nil
}

// LoadSealKey returns the key that is kept in the database, for those who give none of their own and have no file that all
// nodes share. It is made on first use.
func LoadSealKey(ctx context.Context, db *sqldb.DB, random io.Reader) ([]byte, error) {
	key, err := FindSealKey(ctx, db)
	if err != nil || key != nil {
		return key, err
	}
	if key, err = seal.NewKey(random); err != nil {
		return nil, err
	}
	err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertSealKey, key)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return FindSealKey(ctx, db)
}

// FindSealKey is LoadSealKey that makes none: it returns nil.
func FindSealKey(ctx context.Context, db *sqldb.DB) ([]byte, error) {
	key, err := sqldb.One(ctx, db, sqldb.Scalar[[]byte], selectSealKey)
	if errors.Is(err, sqldb.ErrNoRows) {
		return nil, nil
	}
	return key, err
}
