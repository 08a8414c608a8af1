package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/bench/peers/child"
)

// sampleReport has two repetitions of three systems and a limit, and one failure.
func sampleReport() *Report {
	r := &Report{
		Machine: "2 × a <processor>", For: 3 * time.Second, Backlog: 100_000, Reps: 2,
		Systems: []System{
			{"millrace", "Millrace", Ours, Strict, "defaults", "a page"}, {"slow", "Slow & sure", Peer, Strict, "some", "a page"},
			{"quick", "Quick", Peer, Strict, "some", "a page"}, {"lax", "Lax", Peer, Relaxed, "some", "a page"}, {"raw", "raw SQLite", Limit, Strict, "none", "a page"},
			{"prototype", "raw, prototype", Limit, Strict, "none", "a page"},
			{"gone", "Gone", Peer, Strict, "none", "a page"},
		},
		Skipped: map[string]string{"gone": "not installed"},
	}
	add := func(system string, rates ...int64) {
		for i, n := range rates {
			r.Samples = append(r.Samples,
				child.Sample{System: system, Work: child.Balanced, Rep: i + 1, N: n * 2, Seconds: 2, ClientCPU: float64(n) / 1e4, ServerCPU: float64(n) / 5e4, Versions: system + " v1"},
				child.Sample{System: system, Work: child.Latency, Rep: i + 1, N: 2, Seconds: 2, Latencies: []float64{1000 / float64(n), 4000 / float64(n)}},
				child.Sample{System: system, Work: child.Idle, Rep: i + 1, Seconds: 30, Stolen: 0.015, ClientCPU: 0.01, ServerCPU: 0.02, Operations: 500})
		}
	}
	add("slow", 100, 300)
	add("quick", 500, 500)
	add("lax", 4000, 4000)
	add("millrace", 1000, 3000)
	add("raw", 4000, 4000)
	add("prototype", 1000, 1000)
	r.Samples = append(r.Samples, child.Sample{System: "slow", Work: child.Drain, Rep: 1, Err: "no luck"})
	return r
}

func TestRepetitionsOfAStoppedRun(t *testing.T) {
	r := sampleReport()
	if got := r.repetitions(); got != "2" {
		t.Errorf("whole: %s", got)
	}
	r.Samples = r.Samples[1:]
	if got := r.repetitions(); got != "1 to 2" {
		t.Errorf("one is missing: %s", got)
	}
}

func TestVersionsThatDiffer(t *testing.T) {
	const said = "Slow & sure was measured in more than one version"
	r := sampleReport()
	for _, want := range []bool{false, true} {
		var b strings.Builder
		if err := r.markdown(&b); err != nil || strings.Contains(b.String(), said) != want {
			t.Errorf("%q: want %t, %v in\n%s", said, want, err, b.String())
		}
		r.Samples[0].Versions = "slow v0"
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := sampleReport().markdown(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	rows := []string{
		"| Millrace | strict | 2,000 [1,000, 3,000] | 4.00 × | – | 0.500 × | 2.00 × | 50.0 + 10.0 | 4,000 |\n" +
			"| Lax | relaxed | 4,000 [4,000, 4,000] | 1.00 × | 0.500 × | 1.00 × | 4.00 × | 50.0 + 10.0 | 8,000 |\n" +
			"| Quick | strict | 500 [500, 500] | 1.00 × | 4.00 × | 0.125 × | 0.500 × | 50.0 + 10.0 | 1,000 |\n" +
			"| Slow & sure | strict | 200 [100, 300] | 0.400 × | 10.0 × | 0.0500 × | 0.200 × | 50.0 + 10.0 | 400 |\n" +
			"| raw SQLite | strict | 4,000 [4,000, 4,000] | – | – | 1.00 × | 4.00 × | 50.0 + 10.0 | 8,000 |\n",
		"| Quick | strict | 2.00 [2.00, 2.00] | 1.00 × | 3.00 × | 0.125 × | 0.500 × | 8.00 [8.00, 8.00] | 1.00 × | 3.00 × | 0.125 × | 0.500 × | 8.00 | 2 |\n",
		"| 0.0600 [0.0600, 0.0600] | 1.00 × | – | 1.00 × | 1.00 × | 0.0200 + 0.0400 | 1,000 |\n",
		"| Slow & sure | strict | slow v1 | some | a page |\n",
		"at most 1.50 % of this machine's processor time during a measurement, in the middle one 0 %.\n",
		"SKIPPED gone: not installed\n",
		"FAILED slow, drain, repetition 1: no luck\n",
	}
	for _, want := range rows {
		if !strings.Contains(got, want) {
			t.Errorf("not in the table:\n%s", want)
		}
	}
	if strings.Contains(got, headings[child.Drain]) {
		t.Error("a work without samples has a table")
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestChart(t *testing.T) {
	var b, again bytes.Buffer
	r := sampleReport()
	if err := errors.Join(r.chart(&b), r.chart(&again)); err != nil {
		t.Fatal(err)
	}
	if b.String() != again.String() {
		t.Error("the same report makes another chart")
	}
	var got struct {
		Rect []struct {
			Class string `xml:"class,attr"`
			X     int    `xml:"x,attr"`
			Y     int    `xml:"y,attr"`
			Width int    `xml:"width,attr"`
		} `xml:"rect"`
		Text []string `xml:"text"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	type bar struct {
		class string
		width int
	}
	var balanced []bar
	for _, s := range got.Rect[1:] {
		if s.X == margin+labels {
			balanced = append(balanced, bar{s.Class, s.Width})
		}
	}
	want := []bar{{"peer relaxed", bars}, {"ours", bars / 2}, {"peer", 16}, {"peer", 7}, {"limit", bars}, {"limit", 33}}
	if !reflect.DeepEqual(balanced, want) {
		t.Errorf("bars %v, want %v", balanced, want)
	}
	all := strings.Join(got.Text, "\n")
	for _, want := range []string{"\nSlow & sure\n", "\n2,000\n", "\n8.00\n", "\n2.67\n", "<processor>"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in the chart", want)
		}
	}
	if strings.Contains(all, "Gone") {
		t.Error("a system without samples is in the chart")
	}
	if err := (&Report{}).chart(io.Discard); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

func TestReportIsReadAsItWasSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	want := sampleReport()
	if err := want.save(file); err != nil {
		t.Fatal(err)
	}
	if got, err := load(file); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}
