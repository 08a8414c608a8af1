// Package chart shows measurements: lines in an SVG without external parts, and numbers as text.
//
// A chart has a title, two axes and some lines:
//
//   - A linear axis goes from 0 to a bit above its largest value.
//   - A logarithmic axis goes from power of ten to power of ten; a smaller value lies at its beginning.
//   - The lines are drawn in their order, each from point to point in the order in which these were added.
//   - The legend below has three lines in a row.
//   - The background is white, so that the chart is readable in dark pages.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Line has a point for each index of X and Y.
type Line struct {
	Name   string
	Dashed bool // to be visible when it lies on another line
	X, Y   []float64
}

// Add adds a point at the line's end.
func (l *Line) Add(x, y float64) { l.X, l.Y = append(l.X, x), append(l.Y, y) }

// Chart is the content of an SVG. X and Y are the labels of the axes.
type Chart struct {
	Title, X, Y string
	LogX, LogY  bool
	Lines       []Line

	XTick func(float64) string // the text of a value of X; nil for its digits
	Ends  bool                 // X ends with the last value
	Small bool                 // for a narrow screen
}

// axis maps values to coordinates.
type axis struct {
	least, most, from, to float64
	log                   bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.least, a.most
	if a.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(max(v, a.least))
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// ticks are the round values on an axis.
func (a axis) ticks() []float64 {
	var all []float64
	if a.log {
		for v := math.Pow(10, math.Ceil(math.Log10(a.least)-1e-9)); v <= a.most*1.0001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.most-a.least)))
	for (a.most-a.least)/step < 4 {
		step /= 2
	}
	for v := math.Ceil(a.least/step) * step; v <= a.most; v += step {
		all = append(all, v)
	}
	return all
}

// some are each second tick, or fewer, until there are few enough.
func some(ticks []float64, most int) []float64 {
	for len(ticks) > most {
		kept := ticks[:0]
		for i := 0; i < len(ticks); i += 2 {
			kept = append(kept, ticks[i])
		}
		ticks = kept
	}
	return ticks
}

// tick writes the digits of a float32, which hide the rounding errors of steps of 0.1.
func tick(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

// beyond is how far a linear axis goes beyond its largest value.
const beyond = 1.05

// axisOf spans all values, and is never empty.
func axisOf(log bool, from, to float64, values func(Line) []float64, lines []Line) axis {
	a := axis{least: math.Inf(1), from: from, to: to, log: log}
	for _, l := range lines {
		for _, v := range values(l) {
			a.least, a.most = min(a.least, v), max(a.most, v)
		}
	}
	if a.most == 0 {
		a.least, a.most = 1, 1
	}
	if log {
		a.least = math.Pow(10, math.Floor(math.Log10(max(a.least, 1e-3))))
		a.most = max(math.Pow(10, math.Ceil(math.Log10(a.most))), 10*a.least)
	} else {
		a.least = 0
		a.most *= beyond
	}
	return a
}

// SVG draws the chart.
func (c Chart) SVG() string {
	const top, bottom, foot, row = 40.0, 350.0, 388.0, 14
	width, left, right, inRow, most := 720.0, 70.0, 700.0, 3, 20
	if c.Small {
		width, left, right, inRow, most = 360, 56, 340, 1, 6
	}
	height := foot + 12 + row*float64(max(len(c.Lines)-1, 0)/inRow)
	x := axisOf(c.LogX, left, right, func(l Line) []float64 { return l.X }, c.Lines)
	y := axisOf(c.LogY, bottom, top, func(l Line) []float64 { return l.Y }, c.Lines)
	if c.Ends {
		x.most /= beyond
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(x, y float64, anchor, s, more string) {
		p(`<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, more, html.EscapeString(s))
	}
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`, width, height)
	p(`<rect width="%.0f" height="%.0f" fill="#ffffff"/>`, width, height)
	text(left, 22, "start", c.Title, ` font-size="14" font-weight="bold"`)
	for _, v := range y.ticks() {
		p(`<path d="M%.1f %.1fH%.1f" stroke="#dddddd"/>`, left, y.at(v), right)
		text(left-6, y.at(v)+4, "end", tick(v), "")
	}
	for _, v := range some(x.ticks(), most) {
		p(`<path d="M%.1f %.1fV%.1f" stroke="#dddddd"/>`, x.at(v), top, bottom)
		label := tick(v)
		if c.XTick != nil {
			label = c.XTick(v)
		}
		text(min(x.at(v), width-4.2*float64(len(label))), bottom+16, "middle", label, "") // keeps a long one within the picture
	}
	text(left, foot, "start", c.X, "")
	text(16, (top+bottom)/2, "middle", c.Y, fmt.Sprintf(` transform="rotate(-90 16 %.0f)"`, (top+bottom)/2))
	colours := []string{"#1f5fa8", "#c2571a", "#3a7d44", "#7b4b94", "#b8860b", "#444444", "#008b8b", "#d1495b"}
	for i, l := range c.Lines {
		colour, dashes, path := colours[i%len(colours)], "", ""
		if l.Dashed {
			dashes = ` stroke-dasharray="6 4"`
		}
		for j := range l.X {
			path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(j, 1)], x.at(l.X[j]), y.at(l.Y[j]))
			if len(l.X) < 20 {
				p(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.at(l.X[j]), y.at(l.Y[j]), colour)
			}
		}
		p(`<path d="%s" fill="none" stroke="%s" stroke-width="2"%s/>`, path, colour, dashes)
		text(right-170*float64(i%inRow), foot+row*float64(i/inRow), "end", l.Name, fmt.Sprintf(` fill="%s"`, colour))
	}
	p(`</svg>`)
	return b.String()
}
