package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// plan is what a seed draws before it begins: a swarm of its own, with its own
// number of processes and keys, its own options and its own rates of faults.
type plan struct {
	seed       uint64
	steps      int // of the part with faults
	deliveries int // at most
	processes  int
	namespace  string
	options    []storePlan // of the first processes; later ones take one of them
	keys       []keyPlan
	rates      rates
}

// storePlan is drawn from the valid edges of idem.Options.
type storePlan struct {
	opts    idem.Options
	checks  bool // the backend has a Checker
	refused bool // which refuses it
}

// family says which guarantee of property A1 a key is under. All its deliveries
// keep to it.
type family uint8

const (
	// strict: every delivery holds or recovers. The provider forgets the keys it
	// is sent, so that two runs are two effects.
	strict family = iota
	// dedup: any delivery reruns. The provider remembers for ever.
	dedup
	// windowed: deliveries rerun, or recover, and declare the provider's window.
	// The provider forgets when it has passed.
	windowed
	// mixed: every delivery has its own policy. The provider remembers for ever.
	mixed
	families
)

func (f family) String() string {
	return [families]string{"strict", "dedup", "windowed", "mixed"}[f]
}

type keyPlan struct {
	family family
	window time.Duration // of the provider, if windowed
	raw    bool          // values are no JSON: Do cannot decode them
}

// rates are probabilities. The first group is per step of the scheduler, the
// second per call to the backend, the third per delivery or operation.
type rates struct {
	pass, deliver, cancel, kill, stop, purge, operate, late, hint float64

	lost, lostApplied, unavailable, slow, twice, cut, corrupt, garbled float64

	fails, crashes, ignores, lands, prints, waits, nests, notes, mutates, large, gives float64
}

func drawPlan(seed uint64) plan {
	d := newDice(seed ^ 0x9d1a4)
	p := plan{
		seed:       seed,
		steps:      d.between(20, 90),
		deliveries: d.between(3, 16),
		processes:  d.between(1, 3),
		namespace:  pick(d, "sim", "sim", "sim", ""),
	}
	for range d.between(1, 3) {
		p.keys = append(p.keys, drawKey(d, p.namespace != ""))
	}
	failOpen := d.chance(0.15)
	for range p.processes {
		p.options = append(p.options, drawStore(d, &p, failOpen))
	}
	p.rates = drawRates(d)
	return p
}

func drawKey(d dice, named bool) keyPlan {
	k := keyPlan{family: pick(d, strict, strict, dedup, windowed, mixed), raw: d.chance(0.2)}
	if k.family == windowed && !named {
		k.family = dedup
	}
	if k.family == windowed {
		k.window = pick(d, 2*time.Second, 20*time.Second, 5*time.Minute) + 19*time.Microsecond
	}
	return k
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps, %d deliveries, namespace %q, rates %+v", p.steps, p.deliveries, p.namespace, p.rates)
	for i, k := range p.keys {
		fmt.Fprintf(&b, "\n  k%d %v window %v raw %v", i, k.family, k.window, k.raw)
	}
	for i, o := range p.options {
		fmt.Fprintf(&b, "\n  p%d %+v checks %v refused %v", i, o.opts, o.checks, o.refused)
	}
	return b.String()
}

// drawStore draws options. Each duration has microseconds of its own, so that
// two bounds that begin together do not end together.
func drawStore(d dice, p *plan, failOpen bool) storePlan {
	lease := pick(d, 240*time.Millisecond, 2400*time.Millisecond, 2400*time.Millisecond, 9600*time.Millisecond, 30*time.Second)
	if d.chance(0.05) {
		lease = 2400 * time.Microsecond
	}
	o := idem.Options{
		Namespace:     p.namespace,
		Lease:         lease,
		RenewEvery:    pick(d, 0, 0, lease/3, lease*5/12, lease/8),
		MaxRun:        pick(d, lease/2, 2*lease, 8*lease, 15*time.Minute) + 17*time.Microsecond,
		RetryWindow:   time.Millisecond,
		Retention:     pick(d, 2*lease, 20*lease, time.Hour, 24*time.Hour) + 23*time.Microsecond,
		OnUnknown:     pick(d, idem.Rerun, idem.Hold),
		StoreTimeout:  pick(d, lease/4, 2*time.Second) + 7*time.Microsecond,
		RecordTimeout: pick(d, lease/2, 5*time.Second) + 11*time.Microsecond,
		FailOpen:      failOpen && d.chance(0.7),
		MaxValue:      pick(d, 128, 1<<20),
		MaxWaiters:    pick(d, 1, 2, 1024),
		Errors:        map[string]error{"revivable": errRevived},
	}
	if d.chance(0.1) { // the zero value: every default
		o.Lease, o.RenewEvery, o.MaxRun, o.StoreTimeout, o.RecordTimeout = 0, 0, 0, 0, 0
	}
	a, b := idem.FingerprintKey{ID: "a", Key: []byte("0123456789abcdef")}, idem.FingerprintKey{ID: "b", Key: []byte("fedcba9876543210")}
	switch {
	case d.chance(0.8):
	case d.chance(0.5):
		o.FingerprintKeys = []idem.FingerprintKey{a}
	default:
		o.FingerprintKeys = []idem.FingerprintKey{b, a}
	}
	return storePlan{opts: o, checks: d.chance(0.1), refused: d.chance(0.1)}
}

func drawRates(d dice) rates {
	// rate is 0 in a third of the seeds, else low or high.
	rate := func(low, high float64) float64 { return pick(d, 0, low, high) }
	return rates{
		pass: pick(d, 0.1, 0.25, 0.45), deliver: pick(d, 0.08, 0.2, 0.4),
		cancel: rate(0.01, 0.05), kill: rate(0.005, 0.03), stop: rate(0.002, 0.01), purge: rate(0.01, 0.05),
		operate: rate(0.03, 0.12), late: rate(0.02, 0.1), hint: pick(d, 0.05, 0.3),

		lost: rate(0.05, 0.25), lostApplied: rate(0.05, 0.25), unavailable: rate(0.03, 0.2), slow: rate(0.05, 0.2),
		twice: rate(0.03, 0.15), cut: rate(0.02, 0.1), corrupt: rate(0.01, 0.05), garbled: rate(0.01, 0.05),

		fails: rate(0.2, 0.6), crashes: rate(0.05, 0.2), ignores: rate(0.1, 0.5), lands: rate(0.1, 0.3),
		prints: rate(0.3, 0.8), waits: rate(0.2, 0.6), nests: rate(0.05, 0.2), notes: rate(0.2, 0.5),
		mutates: rate(0.2, 0.5), large: rate(0.05, 0.2), gives: pick(d, 0.3, 0.8, 1),
	}
}

// kind is what a delivery does.
type kind uint8

const (
	kExecute kind = iota
	kDo
	kSteps
	kResolve
	kRedact
	kReset
	kInvalid
	kinds
)

func (k kind) String() string {
	return [kinds]string{"Execute", "Do", "Claim", "Resolve", "Redact", "Reset", "invalid"}[k]
}

// request is the one that a delivery stands for.
type request uint8

const (
	noRequest request = iota
	sameRequest
	otherRequest
)

// script is what one delivery does, drawn when it begins.
type script struct {
	kind       kind
	request    request
	hold       bool
	recover    bool
	provider   bool
	wait       time.Duration
	lease      time.Duration
	maxRun     time.Duration
	retention  time.Duration
	oldToken   bool // an operator's: not the one that Inspect showed
	invalid    int
	op         opScript
	verdict    float64 // what a recovery makes of what it knows
	giveUp     bool    // a recovery gives no verdict although it could
	mutates    bool
	zeros      bool // gives options that are zero, too: they keep the Store's
	settleLate bool // a caller of the steps parks before it settles
}

// opScript is what an operation does.
type opScript struct {
	pauses   int  // steps before the charge
	after    int  // steps after it
	notes    bool // saves the provider's reference after the charge
	renews   bool
	nests    int // 1: the same key, 2: another one
	charge   charge
	ignores  bool // does not look at its context before it charges
	large    bool
	end      float64 // how it ends, of the ways that its knowledge allows
	crash    int     // 1: panic, 2: panic(nil), 3: Goexit
	unsure   bool    // says Unknown rather than nothing
	fails    bool
	encoding bool // Do: the value cannot be encoded
	code     string
}

// charge is what the provider does with a charge.
type charge uint8

const (
	chargeOK       charge = iota
	chargeLost            // made, and the reply lost
	chargeDeclined        // certainly not made
	chargeLands           // not made yet: it lands later, if at all, and the caller sees a time-out
	chargeNone            // the operation does not come so far
)

// strictly reports whether an end that may hide an effect holds the key.
func (s *script) strictly() bool { return s.hold || s.recover }

func (w *world) drawScript(k *key, p *proc) script {
	d, r := w.dice, &w.plan.rates
	s := script{
		kind: pick(d, kExecute, kExecute, kExecute, kDo, kDo, kSteps), op: w.drawOp(),
		verdict: d.Float64(), giveUp: d.chance(r.crashes), mutates: d.chance(r.mutates), settleLate: d.chance(0.5), zeros: d.chance(0.1),
	}
	if d.chance(0.02) {
		s.kind, s.invalid = kInvalid, d.IntN(invalids)
	}
	if d.chance(r.prints) {
		s.request = pick(d, sameRequest, sameRequest, sameRequest, otherRequest)
	}
	if d.chance(r.waits) && s.kind != kInvalid {
		s.wait = pick(d, 50*time.Millisecond, 2*time.Second, time.Minute) + 13*time.Microsecond
	}
	switch k.plan.family {
	case strict:
		s.hold = d.chance(0.6)
		s.recover = !s.hold || d.chance(0.3)
	case mixed:
		s.hold, s.recover = d.chance(0.4), d.chance(0.3)
	case windowed: // a charge that lands after the window is a second effect, whatever idem does
		s.recover = d.chance(0.2)
		s.provider, s.op.ignores = true, false
		if s.op.charge == chargeLands {
			s.op.charge = chargeLost
		}
	case dedup, families:
	}
	if d.chance(0.2) {
		lease := p.lease()
		s.lease = pick(d, lease/2, 2*lease, 4*lease)
		if s.lease/2 <= p.plan.opts.RenewEvery || s.lease < 2400*time.Microsecond {
			s.lease = 0
		}
	}
	if d.chance(0.1) {
		s.maxRun = pick(d, p.lease(), 3*p.lease()) + 29*time.Microsecond
	}
	if d.chance(0.1) {
		s.retention = pick(d, p.lease(), 48*time.Hour) + 31*time.Microsecond
	}
	return s
}

func (w *world) drawOp() opScript {
	d, r := w.dice, &w.plan.rates
	op := opScript{
		pauses: pick(d, 0, 0, 1, 3), after: pick(d, 0, 0, 0, 1, 2),
		notes: d.chance(r.notes), renews: d.chance(r.notes / 2), ignores: d.chance(r.ignores), large: d.chance(r.large),
		end: d.Float64(), unsure: d.chance(0.3), fails: d.chance(r.fails), encoding: d.chance(r.large),
		code: pick(d, "", "", "declined", "revivable"),
	}
	if d.chance(r.nests) {
		op.nests = d.between(1, 2)
	}
	if d.chance(r.crashes) {
		op.crash = d.between(1, 3)
	}
	if d.chance(r.fails) {
		op.charge = pick(d, chargeLost, chargeDeclined, chargeNone)
	}
	if d.chance(r.lands) {
		op.charge = chargeLands
	}
	return op
}

// windows are the providers that a delivery declares.
func (s *script) windows(k *key) []driver.ProviderWindow {
	if !s.provider {
		return nil
	}
	return []driver.ProviderWindow{{Name: providerName, Window: k.plan.window}}
}
