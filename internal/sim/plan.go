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
	if isOfNode(a.Kind) {
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

// isOfNode reports whether an action is done by a node.
func isOfNode(k Kind) bool {
	switch k {
	case createCharge, createPayout, createDeposit, createWithdrawal, repeatCreation, readThing, defend, addEndpoint, changeEndpoint, redeliver,
		adjust, hold, release, setAccount, cancelCharge, work, round, restart:
		return true
	}
	return false
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

// weight is how often an action is drawn.
var weights = []struct {
	kind   Kind
	weight int
}{
	{createCharge, 11},
	{createPayout, 9},
	{createDeposit, 5},
	{createWithdrawal, 5},
	{repeatCreation, 6},
	{readThing, 6},
	{defend, 2},
	{pay, 13},
	{payNobody, 1},
	{refundPayment, 3},
	{removeCharge, 2},
	{endPayout, 4},
	{returnPayout, 3},
	{openInfraction, 4},
	{decideInfraction, 4},
	{sendCoins, 6},
	{endDeposit, 3},
	{endWithdrawal, 4},
	{worldStep, 14},
	{forge, 3},
	{addEndpoint, 2},
	{changeEndpoint, 2},
	{redeliver, 1},
	{adjust, 2},
	{hold, 1},
	{release, 1},
	{setAccount, 2},
	{cancelCharge, 2},
	{work, 34},
	{round, 10},
	{tick, 16},
	{jump, 5},
	{outage, 4},
	{quirk, 2},
	{restart, 1},
}

// about are the actions whose things an action can be about.
var about = map[Kind][]Kind{
	repeatCreation:   {createCharge, createPayout, createDeposit, createWithdrawal},
	readThing:        {createCharge, createPayout, createDeposit, createWithdrawal},
	pay:              {createCharge},
	refundPayment:    {pay, payNobody},
	removeCharge:     {createCharge},
	cancelCharge:     {createCharge},
	endPayout:        {createPayout},
	returnPayout:     {createPayout},
	openInfraction:   {pay, pay, payNobody},
	decideInfraction: {openInfraction},
	defend:           {openInfraction},
	sendCoins:        {createDeposit},
	endDeposit:       {createDeposit},
	endWithdrawal:    {createWithdrawal},
	forge:            {pay, createPayout},
	changeEndpoint:   {addEndpoint},
	redeliver:        {createCharge, createPayout},
	release:          {hold},
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
	for _, w := range weights {
		total += w.weight
	}
	made := map[Kind][]int{}
	draw := func(number int, isInner bool) *Action {
		for {
			n := r.IntN(total)
			kind := Kind("")
			for _, w := range weights {
				if n -= w.weight; n < 0 {
					kind = w.kind
					break
				}
			}
			a := &Action{Number: number, Kind: kind, Node: r.IntN(shape.Nodes), Of: -1, Seed: r.Uint64()}
			if of := about[kind]; of != nil {
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
		if shape.Nodes > 1 && isOfNode(a.Kind) && a.Kind != restart && r.IntN(5) == 0 {
			_, _, points := reach(a.Kind)
			a.InnerAt = 1 + r.IntN(points)
			first := draw(innerNumbers+number, true)
			a.Inner = append(a.Inner, first)
			if r.IntN(2) == 0 { // and the other node hears of it at once, or is at the same thing
				a.Inner = append(a.Inner,
					&Action{Number: innerNumbers + number, Kind: worldStep, Of: -1, Seed: r.Uint64()},
					&Action{Number: innerNumbers + number, Kind: round, Of: -1, Seed: r.Uint64()})
			}
			charges := made[createCharge]
			switch isCreation := slices.Contains(about[repeatCreation], a.Kind); {
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

// reach is how many calls, transactions and crash points an action is likely to have.
func reach(k Kind) (calls, writes, points int) {
	switch k {
	case round, worldStep:
		return 14, 8, 24
	case createDeposit, createWithdrawal, repeatCreation:
		return 7, 4, 14
	}
	return 3, 3, 6
}

// trouble draws what goes wrong in an action: in one of so many, as the weather is.
func trouble(r *rand.Rand, a *Action, shape Shape, weather int) {
	if a.Kind == restart || a.Kind == tick || a.Kind == jump || a.Kind == outage || a.Kind == quirk {
		return
	}
	calls, writes, points := reach(a.Kind)
	if r.IntN(weather) == 0 {
		for range 1 + r.IntN(2) {
			a.Network = append(a.Network, Fault{1 + r.IntN(calls), networkFaults[r.IntN(len(networkFaults))]})
		}
	}
	if !isOfNode(a.Kind) {
		return
	}
	if r.IntN(weather) == 0 {
		kinds := aloneFaults
		if shape.Shared {
			kinds = sharedFaults
		}
		a.Store = append(a.Store, Fault{1 + r.IntN(writes), kinds[r.IntN(len(kinds))]})
	}
	if r.IntN(weather) == 0 {
		a.Crash = 1 + r.IntN(points)
	}
}
