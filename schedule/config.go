package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
)

// Config is what else a program says about a schedule. The zero Config works.
type Config struct {
	// Missed says what becomes of due times that nobody took in time, because no worker ran. Defaults to One.
	Missed Missed

	// Within is how long a due time is made up for by All. Defaults to 24 hours.
	Within time.Duration

	// Grace is how late a due time may be taken before it counts as missed. Defaults to a minute.
	Grace time.Duration

	// Overlap says what becomes of a due time while the run before goes on. Defaults to Allow.
	Overlap Overlap

	// Longest is how long a run goes on for Skip and Queue if no Done comes, because its command is in the poison queue,
	// say. Defaults to 24 hours.
	Longest time.Duration

	// Metrics gets millrace_schedule_ticks_total and millrace_schedule_late_seconds, by schedule. A tick that is decided
	// again, because another process has changed the schedule meanwhile, counts again. Defaults to none.
	Metrics prometheus.Registerer
}

// Missed says what becomes of due times that nobody took in time.
type Missed int

const (
	One  Missed = iota // the next tick stands for all of them, or one is made up for if no other is due now
	All                // each is made up for, if it was due within Config.Within
	None               // they are left out
)

// Overlap says what becomes of a due time while the run before goes on: until Done says that it has ended.
type Overlap int

const (
	Allow Overlap = iota // it runs all the same, and nobody needs to send Done
	Skip                 // it is left out
	Queue                // it waits; when ten wait, others count as missed
)

var (
	missedNames  = []string{One: "one", All: "all", None: "none"}
	overlapNames = []string{Allow: "allow", Skip: "skip", Queue: "queue"}
)

// String returns "one", "all" or "none".
func (m Missed) String() string { return nameOf(missedNames, int(m)) }

// String returns "allow", "skip" or "queue".
func (o Overlap) String() string { return nameOf(overlapNames, int(o)) }

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%d", i)
	}
	return names[i]
}

// A definition is what programs register of a schedule, as it is stored. Two that are equal are the same.
type definition struct {
	timing
	Missed  string  `json:"missed"`
	Within  seconds `json:"within"`
	Grace   seconds `json:"grace"`
	Overlap string  `json:"overlap"`
	Longest seconds `json:"longest"`
}

// seconds is a time span as it is stored.
type seconds float64

func inSeconds(d time.Duration) seconds   { return seconds(d.Seconds()) }
func (s seconds) duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// define returns the definition of a Spec and a Config, or all that is wrong with them.
func define(spec Spec, cfg Config) (definition, error) {
	faults := []error{spec.Err()}
	def := func(name string, d, otherwise time.Duration) seconds {
		d = cmp.Or(d, otherwise)
		if d < time.Second || d > channel.MaxDelay {
			faults = append(faults, fmt.Errorf("%s is %v; want at least a second, and at most ten years", name, d))
		}
		return inSeconds(d)
	}
	d := definition{
		timing: spec.timing, Missed: cfg.Missed.String(), Overlap: cfg.Overlap.String(),
		Within: def("Within", cfg.Within, 24*time.Hour), Grace: def("Grace", cfg.Grace, time.Minute), Longest: def("Longest", cfg.Longest, 24*time.Hour),
	}
	return d, errors.Join(append(faults, d.checkPolicies())...)
}

// checkPolicies refuses policies that this version doesn't know.
func (d definition) checkPolicies() error {
	var faults []error
	if !slices.Contains(missedNames, d.Missed) {
		faults = append(faults, fmt.Errorf("Missed is %s; want One, All or None", d.Missed))
	}
	if !slices.Contains(overlapNames, d.Overlap) {
		faults = append(faults, fmt.Errorf("Overlap is %s; want Allow, Skip or Queue", d.Overlap))
	}
	return errors.Join(faults...)
}

func (d definition) missed() Missed   { return Missed(slices.Index(missedNames, d.Missed)) }
func (d definition) overlap() Overlap { return Overlap(slices.Index(overlapNames, d.Overlap)) }

// read returns the Spec of a definition that another process has stored.
func (d definition) read() (Spec, error) {
	spec := newSpec(d.timing)
	return spec, errors.Join(spec.Err(), d.checkPolicies())
}
