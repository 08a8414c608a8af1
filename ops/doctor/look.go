package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// An Examination is what was found, and what was looked at for that. An error in a part of the store hides the findings
// of that part alone.
type Examination struct {
	Findings []Finding // the worst first

	missed map[string]error // by check; nil for a check that was to be left out
	queues map[string]bool  // that were looked at; nil: all that there are
}

// Err returns what could not be read. Of the parts for which the store didn't answer it has the first one.
func (x *Examination) Err() error {
	var faults []error
	var lost error
	var silent []string
	for _, check := range slices.Sorted(maps.Keys(x.missed)) {
		err := x.missed[check]
		switch {
		case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrThrottled):
			lost, silent = cmp.Or(lost, err), append(silent, check)
		case err != nil && !slices.ContainsFunc(faults, func(known error) bool { return known.Error() == err.Error() }):
			faults = append(faults, err)
		}
	}
	if lost != nil {
		faults = append(faults, fmt.Errorf("the store didn't answer for the checks %s: %w", strings.Join(silent, ", "), lost))
	}
	return errors.Join(faults...)
}

// Saw reports that the examination has looked at what a finding of another time is about. So the finding is over if it
// isn't among those of this examination.
func (x *Examination) Saw(f Finding) bool {
	if _, missed := x.missed[f.Check]; missed {
		return false
	}
	return f.Queue == "" || x.queues == nil || x.queues[f.Queue]
}

// A section looks at a part of what there is.
type section struct {
	checks []string
	find   func(context.Context, *act.Desk) ([]Finding, error)
}

// Look finds what is wrong, as [Examine] does, and goes on where a part can't be read. It leaves out some checks, as
// far as no other one needs the same requests.
func Look(ctx context.Context, desk *act.Desk, lag time.Duration, without ...string) *Examination {
	x := &Examination{missed: map[string]error{}}
	var q queued
	x.look(ctx, desk, without,
		section{[]string{"catalog", "clocks", "collections", "consumers", "kinds", "lag", "levels", "log", "pauses", "poison", "versions"}, func(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
			if q, err = lookAtQueues(ctx, desk); err != nil {
				return nil, err
			}
			return q.findings(ctx, desk, lag)
		}},
		section{[]string{"engine"}, engineFindings},
		section{[]string{"writers"}, writerFindings},
		section{[]string{"listeners"}, listenerFindings},
		section{[]string{"lanes"}, laneFindings},
		section{[]string{"spools"}, func(ctx context.Context, desk *act.Desk) ([]Finding, error) { return spoolFindings(ctx, desk, lag) }},
		section{[]string{"guards"}, func(ctx context.Context, desk *act.Desk) ([]Finding, error) {
			return guardFindings(ctx, desk, q, lag)
		}},
		section{[]string{"bulk"}, bulkFindings},
		section{[]string{"schedules"}, scheduleFindings},
		section{[]string{"files"}, fileFindings},
		section{[]string{"counters", "gates", "locks"}, coordFindings},
		section{[]string{"processes"}, processFindings},
		section{[]string{"settings"}, settingsFindings},
		section{[]string{"turns"}, func(ctx context.Context, desk *act.Desk) ([]Finding, error) {
			if err := x.missed["lag"]; err != nil && q.names == nil {
				return nil, err
			}
			return turnFindings(ctx, desk, q.names, lag)
		}},
	)
	x.explain()
	if q.unlisted != nil {
		x.queues = map[string]bool{}
		for _, name := range q.names {
			x.queues[name] = true
		}
	}
	x.Findings = append(x.Findings, listFindings(q.unlisted)...)
	slices.SortStableFunc(x.Findings, func(a, b Finding) int { return -cmp.Compare(a.Severity, b.Severity) }) // wrong before note
	return x
}

// look looks at sections, one after another.
func (x *Examination) look(ctx context.Context, desk *act.Desk, without []string, all ...section) {
	for _, s := range all {
		var found []Finding
		var err error
		left := !slices.ContainsFunc(s.checks, func(check string) bool { return !slices.Contains(without, check) })
		if !left {
			found, err = s.find(ctx, desk)
		}
		x.Findings = append(x.Findings, found...)
		if !left && err == nil {
			continue
		}
		for _, check := range s.checks {
			x.missed[check] = err
		}
	}
}

// explain leaves out what another finding or fault tells: that messages wait for long, and that nobody can be rung.
// Where pauses, levels or guards can't be read, nobody knows whether one of these tells why messages wait.
func (x *Examination) explain() {
	if err := cmp.Or(x.missed["lag"], x.missed["guards"]); err != nil {
		x.Findings = slices.DeleteFunc(x.Findings, func(f Finding) bool { return f.Check == "lag" })
		x.missed["lag"] = err
	}
	if lost := x.missed["catalog"]; errors.Is(lost, storage.ErrUnavailable) { // nobody can be rung by way of a store that is away
		x.Findings = slices.DeleteFunc(x.Findings, func(f Finding) bool { return f.Check == "listeners" })
		x.missed["listeners"] = lost
	}
	told := map[string]bool{}
	for _, f := range x.Findings {
		for _, queue := range f.Waits {
			told[queue] = true
		}
	}
	x.Findings = slices.DeleteFunc(x.Findings, func(f Finding) bool { return f.Check == "lag" && told[f.Queue] })
}

// queued is what was seen of the queues.
type queued struct {
	names    []string
	stats    []storage.Stats // in the order of the names
	poisoned map[string]int64
	samples  map[string]sample // of the poison queues that were looked into
	unlisted error             // why the store doesn't list its queues
}

// lookAtQueues looks at the queues and the poison queues.
func lookAtQueues(ctx context.Context, desk *act.Desk) (q queued, err error) {
	names, poisoned, latest, err := look.QueuesAndLatest(ctx, desk, mostLatest, mostPoisoned)
	if err != nil {
		return queued{}, err
	}
	q.poisoned = poisoned
	if q.names, q.stats, q.unlisted, err = look.WithUnseen(ctx, desk, names); err != nil {
		return queued{}, err
	}
	if q.samples, err = samples(ctx, desk, latest); err != nil {
		return queued{}, err
	}
	return q, nil
}

// findings are about queues, what holds queues, and what programs have published.
func (q queued) findings(ctx context.Context, desk *act.Desk, lag time.Duration) ([]Finding, error) {
	pauses, err1 := pauseFindings(ctx, desk, q, lag)
	levels, err2 := levelFindings(ctx, desk, q, lag)
	return slices.Concat(programFindings(desk, q, lag), logFindings(desk.File), pauses, levels), errors.Join(err1, err2)
}
