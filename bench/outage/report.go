package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/internal/chart"
)

// A Report has what a run has counted.
type Report struct {
	Machine  string            `json:"machine"`
	Loads    []string          `json:"loads"`  // averages of a minute, before and after
	Stolen   float64           `json:"stolen"` // the part of processor time that the host took meanwhile
	Away     time.Duration     `json:"away"`
	Rate     float64           `json:"rate"`
	Limit    time.Duration     `json:"limit"`
	Systems  []System          `json:"systems"`
	Versions map[string]string `json:"versions"`          // by system
	Skipped  map[string]string `json:"skipped,omitempty"` // why, by system
	Samples  []Sample          `json:"samples"`
}

// A Sample is one system's.
type Sample struct {
	System string `json:"system"`
	Figures
	Err string `json:"err,omitempty"`
}

// Figures are what the service and a system have counted. Times are seconds after the service came back; -1: not yet.
type Figures struct {
	Sent      int     `json:"sent"`       // jobs, before the service came back
	Dead      int     `json:"dead"`       // jobs that the system has given up
	CallsAway int     `json:"calls_away"` // of the service while it was away
	First     float64 `json:"first"`      // when the first job was done
	Gone      float64 `json:"gone"`       // when the last of Sent was done
	Left      int     `json:"left"`       // of Sent, at the limit
	Twice     int     `json:"twice"`      // jobs that were done again
}

func (r *Report) save(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// add adds what a system's run has given.
func (r *Report) add(x *runner, w *world) {
	sample := Sample{System: x.Name, Figures: x.done}
	if x.err != nil {
		sample.Err = x.err.Error()
	}
	r.Samples = append(r.Samples, sample)
	r.Versions[x.Name] = host.Versions(x.Modules)
	if s := w.servers[x.Server]; s != nil {
		r.Versions[x.Name] += ", " + s.Version
	}
}

// markdown is the report as two tables.
func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A service answers 503 for %v while %s jobs come each second, each of which is one call. All systems at the same time, "+
		"in real time, with their defaults; %s. The load average was %s before and after. The host gave others %s %% of this machine's "+
		"processor time.\n", r.Away, chart.Number(r.Rate), r.Machine, strings.Join(r.Loads, " and "), chart.Number(100*r.Stolen))
	b.WriteString("Dead: given up by the system, for an operator to look at. Gone: all jobs are done, or dead, that were sent before the " +
		"service came back.\n\n")
	b.WriteString("| system | jobs sent before it was back | dead | calls while it was away | first job done after it was back, s | " +
		"backlog gone after it was back, s | done twice |\n|---|---|---|---|---|---|---|\n")
	for _, s := range r.Systems {
		for _, x := range r.Samples {
			if x.System == s.Name && x.Err == "" {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", s.Title, chart.Whole(x.Sent), chart.Whole(x.Dead), chart.Whole(x.CallsAway),
					seconds(x.First), r.gone(x), chart.Whole(x.Twice))
			}
		}
	}
	b.WriteString("\n| system | versions | settings | what its defaults do about a job that fails |\n|---|---|---|---|\n")
	for _, s := range r.Systems {
		if slices.ContainsFunc(r.Samples, func(x Sample) bool { return x.System == s.Name }) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Title, cmp.Or(r.Versions[s.Name], chart.Nothing), s.Settings, s.Retries)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&b, "\nSKIPPED %s: %s\n", name, r.Skipped[name])
	}
	for _, s := range r.Samples {
		if s.Err != "" {
			fmt.Fprintf(&b, "\nFAILED %s: %s\n", s.System, s.Err)
		}
	}
	return b.String()
}

// gone is when the backlog of a sample was gone.
func (r *Report) gone(x Sample) string {
	if x.Gone < 0 {
		return fmt.Sprintf("not within %v: %s are left", r.Limit, chart.Whole(x.Left))
	}
	return seconds(x.Gone)
}

// seconds writes a time, or that there is none.
func seconds(s float64) string {
	if s < 0 {
		return chart.Nothing
	}
	return chart.Number(s)
}
