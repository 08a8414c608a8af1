package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/stats"
)

// A Report has all measurements of a run. Tables and charts are made from it alone.
type Report struct {
	Machine string            `json:"machine"`
	Program string            `json:"program"` // SHA-256 of the measuring program, which contains Millrace
	For     time.Duration     `json:"for"`
	Backlog int               `json:"backlog"`
	Reps    int               `json:"reps"`
	Seed    uint64            `json:"seed"`
	Systems []System          `json:"systems"`
	Skipped map[string]string `json:"skipped,omitempty"` // why, by system
	Samples []child.Sample    `json:"samples"`
}

func load(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Report) save(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// of returns a system's samples of a work, without the failed ones.
func (r *Report) of(system string, work child.Work) []child.Sample {
	var all []child.Sample
	for _, s := range r.Samples {
		if s.System == system && s.Work == work && s.Err == "" {
			all = append(all, s)
		}
	}
	return all
}

// sum summarizes a system's samples of a work.
func (r *Report) sum(system string, work child.Work, of func(child.Sample) float64) stats.Summary {
	var values []float64
	for _, s := range r.of(system, work) {
		values = append(values, of(s))
	}
	return stats.Summarize(values)
}

// stolen summarizes the shares that the host took from the measurements.
func (r *Report) stolen() stats.Summary {
	var shares []float64
	for _, s := range r.Samples {
		shares = append(shares, s.Stolen)
	}
	return stats.Summarize(shares)
}

// repetitions says how often each measurement was made, apart from some works. In a run that was stopped the numbers
// differ.
func (r *Report) repetitions(but ...child.Work) string {
	counts := map[[2]string]int{}
	for _, s := range r.Samples {
		if s.Err == "" && !slices.Contains(but, s.Work) {
			counts[[2]string{s.System, string(s.Work)}]++
		}
	}
	n := slices.Sorted(maps.Values(counts))
	if len(n) == 0 || n[0] == n[len(n)-1] {
		return strconv.Itoa(r.Reps)
	}
	return fmt.Sprintf("%d to %d", n[0], n[len(n)-1])
}

// best is the best median among the peers of a durability.
func (r *Report) best(work child.Work, m metric, d Durability) float64 {
	best := math.NaN()
	for _, s := range r.Systems {
		if s.Role != Peer || s.Durability != d {
			continue
		}
		if v := r.sum(s.Name, work, m.of).Median; m.better(v, best) < 0 {
			best = v
		}
	}
	return best
}

// rows are the systems with samples of a work: ours, the peers and the limits, the best of each group first.
func (r *Report) rows(work child.Work, m metric) []System {
	rows := slices.DeleteFunc(slices.Clone(r.Systems), func(s System) bool { return len(r.of(s.Name, work)) == 0 })
	roles := []Role{Ours, Peer, Limit}
	slices.SortStableFunc(rows, func(a, b System) int {
		if by := slices.Index(roles, a.Role) - slices.Index(roles, b.Role); by != 0 {
			return by
		}
		return m.better(r.sum(a.Name, work, m.of).Median, r.sum(b.Name, work, m.of).Median)
	})
	return rows
}
