package simulator

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
)

// faultKind is what goes wrong.
type faultKind string

const (
	faultRefuse            faultKind = "refuse"             // nobody listens, and all connections are closed
	faultHTTP500           faultKind = "http_500"           // not executed, but the caller cannot know
	faultHTTP429           faultKind = "http_429"           // not executed: too many requests
	faultReject            faultKind = "reject"             // not executed: a clean business refusal
	faultLostExecuted      faultKind = "lost_executed"      // it happens, then the connection is reset
	faultLostNotExecuted   faultKind = "lost_not_executed"  // nothing happens, then the connection is reset
	faultSlow              faultKind = "slow"               // it happens, the answer comes late
	faultGarbage           faultKind = "garbage"            // it happens, the answer is a 200 that nobody can read
	faultDuplicateCallback faultKind = "duplicate_callback" // a notification comes twice
)

// faultKinds are all kinds, in the order in which people see them.
var faultKinds = []string{
	string(faultRefuse), string(faultHTTP500), string(faultHTTP429), string(faultReject), string(faultLostExecuted),
	string(faultLostNotExecuted), string(faultSlow), string(faultGarbage), string(faultDuplicateCallback),
}

// operation is what a fault can be bound to.
type operation string

const (
	opAny          operation = "*"             // every operation, those without a name too
	opChargeCreate operation = "charge.create" // PUT and POST /v2/cob
	opChargeGet    operation = "charge.get"    // every read of charges and of the Pix that paid them
	opPayoutSend   operation = "payout.send"   // PUT /v3/gn/pix
	opPayoutGet    operation = "payout.get"    // every read of payouts
	opMEDList      operation = "med.list"      // GET /v2/gn/infracoes
	opMEDDefend    operation = "med.defend"    // POST /v2/gn/infracoes/{id}/defesa
	opToken        operation = "token"         // POST /oauth/token
	opOther        operation = ""              // what has no name of its own
)

// operations are all that a fault can name, in the order in which people see them.
var operations = append([]string{
	string(opChargeCreate), string(opChargeGet), string(opPayoutSend), string(opPayoutGet), string(opMEDList), string(opMEDDefend),
	string(opToken), string(opAny),
}, chainOperations...)

// Bounds of faults.
const (
	faultsMax         = 256
	faultTimesMax     = 1_000_000
	faultDelayDefault = 100 * time.Millisecond
	faultDelayMax     = 10 * time.Minute
)

// faultRule is a fault as it was ordered.
type faultRule struct {
	target    string // an acquirer, or a part of the chain world
	operation operation
	kind      faultKind
	times     int           // left; 0 means until it is cleared
	delay     time.Duration // of real time
}

// faultRules are the faults that were ordered and are not used up. They do not outlive the process.
type faultRules struct {
	mu    sync.Mutex
	rules []faultRule
}

// add orders a fault. It reports whether there was room.
func (f *faultRules) add(r faultRule) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rules) >= faultsMax {
		return false
	}
	f.rules = append(f.rules, r)
	return true
}

func (f *faultRules) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

func (f *faultRules) list() []faultRule {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.rules)
}

// onRequest uses up the oldest fault that meets a request, if any does.
func (f *faultRules) onRequest(target string, op operation) (faultRule, bool) {
	return f.take(func(r *faultRule) bool {
		return r.target == target && r.kind != faultRefuse && r.kind != faultDuplicateCallback && (r.operation == opAny || r.operation == op)
	})
}

// onCallback uses up a fault that makes a notification come twice, if there is any. One that names an operation on
// payouts is for notifications of payouts, one that names another is for the others.
func (f *faultRules) onCallback(target string, ofPayout bool) bool {
	_, hit := f.take(func(r *faultRule) bool {
		forPayouts := r.operation == opPayoutSend || r.operation == opPayoutGet
		return r.target == target && r.kind == faultDuplicateCallback && (r.operation == opAny || forPayouts == ofPayout)
	})
	return hit
}

func (f *faultRules) take(meets func(*faultRule) bool) (faultRule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.rules {
		r := &f.rules[i]
		if !meets(r) {
			continue
		}
		hit := *r
		if r.times == 1 {
			f.rules = slices.Delete(f.rules, i, i+1)
		} else if r.times > 1 {
			r.times--
		}
		return hit, true
	}
	return faultRule{}, false
}

type faultJSON struct {
	Target    string `json:"target"`
	Operation string `json:"operation"`
	Kind      string `json:"kind"`
	Times     int    `json:"times"`
	DelayMS   int64  `json:"delay_ms"`
}

func (r faultRule) json() faultJSON {
	return faultJSON{r.target, string(r.operation), string(r.kind), r.times, r.delay.Milliseconds()}
}

func (s *Simulator) controlListFaults(*http.Request) (httpkit.Answer, error) {
	list := []faultJSON{}
	for _, r := range s.faults.list() {
		list = append(list, r.json())
	}
	return httpkit.Answer{Body: struct {
		Faults []faultJSON `json:"faults"`
	}{list}}, nil
}

func (s *Simulator) controlAddFault(r *http.Request) (httpkit.Answer, error) {
	f, _, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	rule := faultRule{
		target:    f.String("target", httpkit.StringRule{Required: true, OneOf: faultTargets}).Value,
		operation: operation(cmp.Or(f.String("operation", httpkit.StringRule{OneOf: operations}).Value, string(opAny))),
		kind:      faultKind(f.String("kind", httpkit.StringRule{Required: true, OneOf: faultKinds}).Value),
		times:     f.Int("times", httpkit.IntRule{Max: faultTimesMax, Default: 1}),
		delay: time.Duration(f.Int("delay_ms", httpkit.IntRule{
			Max: int(faultDelayMax.Milliseconds()), Default: int(faultDelayDefault.Milliseconds()),
		})) * time.Millisecond,
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	if rule, err = s.addFault(rule); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: rule.json()}, nil
}

var errFaultsFull = fault.New(fault.Conflict, "too_many_faults", "too many faults are ordered: clear them first")

// addFault orders a fault and returns it as it stands. One that refuses connections has done so by then, and does so until
// it is cleared.
func (s *Simulator) addFault(rule faultRule) (faultRule, error) {
	s.refusing.Lock()
	defer s.refusing.Unlock()
	if rule.kind == faultRefuse {
		rule.times = 0
	}
	if !s.faults.add(rule) {
		return faultRule{}, errFaultsFull
	}
	if rule.kind == faultRefuse {
		refuses, d := s.shutter(rule.target)
		refuses.Store(true)
		d.shut()
	}
	return rule, nil
}

func (s *Simulator) controlClearFaults(r *http.Request) (httpkit.Answer, error) {
	if err := s.clearFaults(r.Context()); err != nil {
		return httpkit.Answer{}, err
	}
	return s.controlListFaults(r)
}

// clearFaults ends all faults. Acquirers that refused connections take them again when it returns.
func (s *Simulator) clearFaults(ctx context.Context) error {
	s.refusing.Lock()
	defer s.refusing.Unlock()
	s.faults.clear()
	for _, target := range faultTargets {
		refuses, d := s.shutter(target)
		if !refuses.Load() {
			continue
		}
		refuses.Store(false)
		if err := d.reopen(ctx); err != nil {
			refuses.Store(true)
			return err
		}
	}
	return nil
}
