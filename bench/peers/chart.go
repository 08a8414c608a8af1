package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/internal/chart"
)

// A panel of the chart shows one number of each system, as a bar from zero.
type panel struct {
	title string
	value func(*Report, System) float64
}

var panels = []panel{
	{"send and handle, jobs/s", medianOf(child.Balanced, rate[0])},
	{"drain, jobs/s", medianOf(child.Drain, rate[0])},
	{"idle latency p99, ms: less is better", medianOf(child.Latency, metrics[child.Latency][1])},
}

func medianOf(work child.Work, m metric) func(*Report, System) float64 {
	return func(r *Report, s System) float64 { return r.sum(s.Name, work, m.of).Median }
}

// Dimensions of the chart.
const (
	margin, lineHeight    = 14, 20
	labels, bars, numbers = 212, 130, 64 // widths
	panelWidth            = bars + numbers
	head                  = 58 // for the title and the panels' names
	barHeight             = 12
)

const style = `text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 14px }
.note, .panel { fill: #59636e; font-size: 11px }
.paper { fill: #ffffff } .ours { fill: #0969da } .peer { fill: #8c959f } .relaxed { fill-opacity: .45 }
.limit { fill: none; stroke: #8c959f; stroke-dasharray: 2 2 }
@media (prefers-color-scheme: dark) {
 text { fill: #f0f6fc } .note, .panel { fill: #9198a1 }
.paper { fill: #0d1117 } .ours { fill: #4493f8 } .peer { fill: #848d97 }
}
`

type svg struct {
	XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	ViewBox string   `xml:"viewBox,attr"`
	Width   int      `xml:"width,attr"`
	Height  int      `xml:"height,attr"`
	Role    string   `xml:"role,attr"`
	Title   string   `xml:"title"`
	Style   string   `xml:"style"`
	Shapes  []any
}

type rect struct {
	XMLName xml.Name `xml:"rect"`
	Class   string   `xml:"class,attr"`
	X       int      `xml:"x,attr"`
	Y       int      `xml:"y,attr"`
	Width   int      `xml:"width,attr"`
	Height  int      `xml:"height,attr"`
	Radius  int      `xml:"rx,attr,omitempty"`
}

type text struct {
	XMLName xml.Name `xml:"text"`
	Class   string   `xml:"class,attr,omitempty"`
	X       int      `xml:"x,attr"`
	Y       int      `xml:"y,attr"`
	Anchor  string   `xml:"text-anchor,attr,omitempty"`
	Text    string   `xml:",chardata"`
}

// chart draws a line for each system, with a bar for each panel. The bars are linear.
func (r *Report) chart(w io.Writer) error {
	rows := r.chartRows()
	width := 2*margin + labels + len(panels)*panelWidth
	height := head + len(rows)*lineHeight + 2*lineHeight
	title := "Background jobs in Go, side by side on one machine"
	s := svg{ViewBox: fmt.Sprintf("0 0 %d %d", width, height), Width: width, Height: height, Role: "img", Title: title, Style: strings.ReplaceAll(style, "\n", " ")}
	add := func(shape any) { s.Shapes = append(s.Shapes, shape) }
	add(rect{Class: "paper", Width: width, Height: height, Radius: 6})
	add(text{Class: "title", X: margin, Y: margin + 12, Text: title})
	for i, row := range rows {
		add(text{X: margin + labels - 8, Y: head + i*lineHeight + 10, Anchor: "end", Text: row.Title})
	}
	for i, p := range panels {
		x := margin + labels + i*panelWidth
		add(text{Class: "panel", X: x, Y: head - 10, Text: p.title})
		longest := 0.0
		for _, row := range rows {
			if v := p.value(r, row); v > longest {
				longest = v
			}
		}
		for j, row := range rows {
			v, y := p.value(r, row), head+j*lineHeight
			length := 0
			if v > 0 {
				length = max(int(math.Round(v/longest*bars)), 1)
				class := string(row.Role)
				if row.Durability == Relaxed {
					class += " relaxed"
				}
				add(rect{Class: class, X: x, Y: y, Width: length, Height: barHeight})
			}
			add(text{X: x + length + 5, Y: y + 10, Text: chart.Number(v)})
		}
	}
	y := head + len(rows)*lineHeight + 12
	add(text{Class: "note", X: margin, Y: y, Text: "Full colour: a job that was sent survives a power failure. Pale: it may not. Dashed: bare loops over SQLite."})
	add(text{Class: "note", X: margin, Y: y + 15, Text: fmt.Sprintf("Medians of %s repetitions; %s.", r.repetitions(child.Idle), r.Machine)})
	var b bytes.Buffer
	enc := xml.NewEncoder(&b)
	enc.Indent("", " ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// chartRows are the systems that have a bar, ordered by the first panel, with the raw limit last.
func (r *Report) chartRows() []System {
	rows := slices.DeleteFunc(slices.Clone(r.Systems), func(s System) bool {
		return !slices.ContainsFunc(panels, func(p panel) bool { return !math.IsNaN(p.value(r, s)) })
	})
	slices.SortStableFunc(rows, func(a, b System) int {
		if by := boolOrder(a.Role == Limit) - boolOrder(b.Role == Limit); by != 0 {
			return by
		}
		return rate[0].better(panels[0].value(r, a), panels[0].value(r, b))
	})
	return rows
}
