package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kind is what an action does.
type Kind string

// What callers do.
const (
	createCharge     Kind = "create charge"
	createPayout     Kind = "create payout"
	createDeposit    Kind = "create deposit"
	createWithdrawal Kind = "create withdrawal"
	repeatCreation   Kind = "repeat creation" // with the same key and body, or another of them
	readThing        Kind = "read"
	defend           Kind = "defend"
)

// What payers, banks and the crypto provider do.
const (
	pay              Kind = "pay"
	payNobody        Kind = "pay nobody" // to a bank's key, for no charge
	refundPayment    Kind = "refund payment"
	removeCharge     Kind = "remove charge"
	endPayout        Kind = "end payout"
	returnPayout     Kind = "return payout"
	openInfraction   Kind = "open infraction"
	decideInfraction Kind = "decide infraction"
	sendCoins        Kind = "send coins"
	endDeposit       Kind = "end deposit"
	endWithdrawal    Kind = "end withdrawal"
	worldStep        Kind = "world works"        // settles, confirms, notifies
	forge            Kind = "forge notification" // or tell an old one again
)

// What operators do.
const (
	addEndpoint    Kind = "add endpoint"
	changeEndpoint Kind = "change endpoint"
	redeliver      Kind = "redeliver"
	adjust         Kind = "adjust"
	hold           Kind = "hold"
	release        Kind = "release"
	setAccount     Kind = "set account"
	cancelCharge   Kind = "cancel charge"
)

// What time and machines do.
const (
	work    Kind = "work"   // one loop of a node
	round   Kind = "round"  // every loop of a node
	expiry  Kind = "expiry" // of a charge whose time passes
	tick    Kind = "tick"   // real time passes
	jump    Kind = "jump"   // business time is moved
	outage  Kind = "outage" // of a bank, the provider or a receiver, for a while
	quirk   Kind = "quirk"  // of the provider, switched on or off
	restart Kind = "restart"
)

// Action is one step of a plan. It draws everything that it decides from a seed of its own, so that taking another one out
// of the plan changes nothing in it.
type Action struct {
	Number int // its place in the plan as it was drawn; it names what it makes
	Kind   Kind
	Node   int
	Of     int // the number of the action whose thing it is about; -1 for none
	Seed   uint64

	Network []Fault   // of calls that nodes make meanwhile, and of notifications
	Store   []Fault   // of transactions
	Crash   int       // at which crash point the node dies; 0 for none
	Inner   []*Action // what others do at a crash point of this one
	InnerAt int
}

// Fault is something that goes wrong.
type Fault struct {
	At   int // at the so many-th call or transaction of an action
	Kind string
}

// String describes the action for people.
func (a *Action) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s", a.Number, a.Kind)
	if a.Of >= 0 {
		fmt.Fprintf(&b, " of #%d", a.Of)
	}
	if a.trait().isOfNode {
		fmt.Fprintf(&b, " on node %d", a.Node)
	}
	for _, f := range a.Network {
		fmt.Fprintf(&b, ", network %d: %s", f.At, f.Kind)
	}
	for _, f := range a.Store {
		fmt.Fprintf(&b, ", store %d: %s", f.At, f.Kind)
	}
	if a.Crash > 0 {
		fmt.Fprintf(&b, ", crash at point %d", a.Crash)
	}
	if len(a.Inner) > 0 {
		fmt.Fprintf(&b, ", at point %d meanwhile %v", a.InnerAt, a.Inner)
	}
	return b.String()
}

// Kinds of faults on the network, as the simulators name them; the last two are ours.
var networkFaults = []string{
	"refuse", "http_500", "http_429", "reject", "lost_executed", "lost_executed", "lost_not_executed", "slow", "garbage",
	"duplicate", "late", // a notification that comes twice; a request that arrives after its sender gave up
}

// Kinds of faults of the store.
const (
	storeSerialization = "serialization failure"
	storeDeadlock      = "deadlock"
	storeLostBefore    = "connection lost before COMMIT"
	storeLostAfter     = "connection lost after COMMIT"
	storeLostUndone    = "connection lost at COMMIT, not done"
	storeAway          = "database away"
	storeDiskFull      = "disk full"
)

var (
	sharedFaults = []string{storeSerialization, storeDeadlock, storeLostBefore, storeLostAfter, storeLostAfter, storeLostUndone, storeAway}
	aloneFaults  = []string{storeSerialization, storeAway, storeDiskFull}
)

// trait is what there is to know of a kind.
type trait struct {
	kind     Kind
	weight   int    // how often it is drawn
	isOfNode bool   // a node does it
	reach    reach  // how much of it can go wrong
	about    []Kind // whose things it is about; nil for none
	act      func(*life, *frame)
}

// reach is how many calls, transactions and crash points an action is likely to have. One without any cannot go wrong.
type reach struct{ calls, writes, points int }

var (
	still = reach{}
	short = reach{3, 3, 6}
	long  = reach{7, 4, 14}
	wide  = reach{14, 8, 24}
)

// creations are what makes something that a caller can ask for again.
var creations = []Kind{createCharge, createPayout, createDeposit, createWithdrawal}

// traits are all kinds.
var traits = []trait{
	{createCharge, 11, true, short, nil, (*life).createCharge},
	{createPayout, 9, true, short, nil, (*life).createPayout},
	{createDeposit, 5, true, long, nil, (*life).createDeposit},
	{createWithdrawal, 5, true, long, nil, (*life).createWithdrawal},
	{repeatCreation, 6, true, long, creations, (*life).repeatCreation},
	{readThing, 6, true, short, creations, (*life).readThing},
	{defend, 2, true, short, []Kind{openInfraction}, (*life).defend},
	{pay, 13, false, short, []Kind{createCharge}, (*life).pay},
	{payNobody, 1, false, short, nil, (*life).payNobody},
	{refundPayment, 3, false, short, []Kind{pay, payNobody}, (*life).refundPayment},
	{removeCharge, 2, false, short, []Kind{createCharge}, (*life).removeCharge},
	{endPayout, 4, false, short, []Kind{createPayout}, (*life).endPayout},
	{returnPayout, 3, false, short, []Kind{createPayout}, (*life).returnPayout},
	{openInfraction, 4, false, short, []Kind{pay, pay, payNobody}, (*life).openInfraction},
	{decideInfraction, 4, false, short, []Kind{openInfraction}, (*life).decideInfraction},
	{sendCoins, 6, false, short, []Kind{createDeposit}, (*life).sendCoins},
	{endDeposit, 3, false, short, []Kind{createDeposit}, (*life).endDeposit},
	{endWithdrawal, 4, false, short, []Kind{createWithdrawal}, (*life).endWithdrawal},
	{worldStep, 14, false, wide, nil, (*life).worldStep},
	{forge, 3, false, short, []Kind{pay, createPayout}, (*life).forge},
	{addEndpoint, 2, true, short, nil, (*life).addEndpoint},
	{changeEndpoint, 2, true, short, []Kind{addEndpoint}, (*life).changeEndpoint},
	{redeliver, 1, true, short, []Kind{createCharge, createPayout}, (*life).redeliver},
	{adjust, 2, true, short, nil, (*life).adjust},
	{hold, 1, true, short, nil, (*life).hold},
	{release, 1, true, short, []Kind{hold}, (*life).release},
	{setAccount, 2, true, short, nil, (*life).setAccount},
	{cancelCharge, 2, true, short, []Kind{createCharge}, (*life).cancelCharge},
	{work, 34, true, short, nil, (*life).work},
	{round, 10, true, wide, nil, (*life).round},
	{expiry, 3, true, short, []Kind{createCharge}, (*life).expire},
	{tick, 16, false, still, nil, (*life).tick},
	{jump, 5, false, still, nil, (*life).jump},
	{outage, 4, false, still, nil, (*life).outage},
	{quirk, 2, false, still, nil, (*life).quirk},
	{restart, 1, true, still, nil, (*life).restart},
}

// trait returns what there is to know of an action's kind, or nil for one that is in no plan.
func (a *Action) trait() *trait {
	for i := range traits {
		if traits[i].kind == a.Kind {
			return &traits[i]
		}
	}
	return nil
}

// Shape is how a life is run. It is drawn from its seed.
type Shape struct {
	Nodes  int  // that serve the database
	Shared bool // as a PostgreSQL is, by many; otherwise as a SQLite file, by one
}

// plan draws a life from a seed: its shape and its actions.
func plan(seed uint64, steps int) (Shape, []*Action) {
	r := rand.New(rand.NewPCG(seed, 0x706f6e7465)) //nolint:gosec // a simulation is drawn from its seed
	shape := Shape{Nodes: 2, Shared: true}
	if r.IntN(4) == 0 {
		shape = Shape{Nodes: 1}
	}
	weather := []int{2, 2, 3, 5, 12}[r.IntN(5)]
	total := 0
	for i := range traits {
		total += traits[i].weight
	}
	made := map[Kind][]int{}
	draw := func(number int, isInner bool) *Action {
		for {
			n := r.IntN(total)
			i := slices.IndexFunc(traits, func(t trait) bool { n -= t.weight; return n < 0 })
			kind := traits[i].kind
			a := &Action{Number: number, Kind: kind, Node: r.IntN(shape.Nodes), Of: -1, Seed: r.Uint64()}
			if of := traits[i].about; of != nil {
				var candidates []int
				for _, k := range of {
					candidates = append(candidates, made[k]...)
				}
				if len(candidates) == 0 {
					continue
				}
				a.Of = pick(r, candidates)
			}
			if isInner && (kind == restart || kind == outage || kind == jump) {
				continue
			}
			return a
		}
	}
	actions := make([]*Action, 0, steps)
	for number := range steps {
		a := draw(number, false)
		trouble(r, a, shape, weather)
		if points := a.trait().reach.points; shape.Nodes > 1 && a.trait().isOfNode && points > 0 && (r.IntN(5) == 0 || a.Kind == expiry) {
			a.InnerAt = 1 + r.IntN(points)
			first := draw(innerNumbers+number, true)
			a.Inner = append(a.Inner, first)
			if r.IntN(2) == 0 { // and the other node hears of it at once, or is at the same thing
				a.Inner = append(a.Inner,
					&Action{Number: innerNumbers + number, Kind: worldStep, Of: -1, Seed: r.Uint64()},
					&Action{Number: innerNumbers + number, Kind: round, Of: -1, Seed: r.Uint64()})
			}
			charges := made[createCharge]
			switch isCreation := slices.Contains(creations, a.Kind); {
			case a.Kind == expiry:
				first.Kind, first.Of = pay, a.Of
			case isCreation && r.IntN(2) == 0: // its caller is impatient
				first.Kind, first.Of = repeatCreation, number
			case len(charges) > 0 && r.IntN(3) == 0:
				first.Kind, first.Of = pay, pick(r, charges)
			}
			for _, inner := range a.Inner {
				inner.Node = (a.Node + 1) % shape.Nodes // a node does one thing at a time here
			}
		}
		actions = append(actions, a)
		made[a.Kind] = append(made[a.Kind], number)
	}
	return shape, actions
}

// innerNumbers are where the numbers of actions begin that happen inside of others.
const innerNumbers = 1_000_000

// pick draws one of a list, rather one of the last.
func pick(r *rand.Rand, list []int) int {
	const young = 6
	if len(list) > young && r.IntN(3) > 0 {
		list = list[len(list)-young:]
	}
	return list[r.IntN(len(list))]
}

// trouble draws what goes wrong in an action: in one of so many, as the weather is.
func trouble(r *rand.Rand, a *Action, shape Shape, weather int) {
	t := a.trait()
	if t.reach == still {
		return
	}
	if r.IntN(weather) == 0 {
		for range 1 + r.IntN(2) {
			a.Network = append(a.Network, Fault{1 + r.IntN(t.reach.calls), networkFaults[r.IntN(len(networkFaults))]})
		}
	}
	if !t.isOfNode {
		return
	}
	if r.IntN(weather) == 0 {
		kinds := aloneFaults
		if shape.Shared {
			kinds = sharedFaults
		}
		a.Store = append(a.Store, Fault{1 + r.IntN(t.reach.writes), kinds[r.IntN(len(kinds))]})
	}
	if r.IntN(weather) == 0 {
		a.Crash = 1 + r.IntN(t.reach.points)
	}
}
