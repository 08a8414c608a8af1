// Package chart shows people what was measured: lines on paper, as an SVG that needs nothing but itself, and numbers as text.
//
// A chart has a title, two axes and some lines. A linear axis goes from 0 to a bit above its largest value, a logarithmic one
// from power of ten to power of ten; what is below a logarithmic axis lies at its beginning. The lines are drawn in their
// order, each from point to point as these were added, and the legend below has three of them in a row. The ground is white,
// so that it can be read in dark pages.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Line has points, which are where X and Y are at the same index.
type Line struct {
	Name   string
	Dashed bool // because it may lie on another
	X, Y   []float64
}

// Add puts a point at the line's end.
func (l *Line) Add(x, y float64) { l.X, l.Y = append(l.X, x), append(l.Y, y) }

// Chart is what SVG draws. X and Y are what the axes show.
type Chart struct {
	Title, X, Y string
	LogX, LogY  bool
	Lines       []Line
}

// axis maps values to places on the paper.
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

// ticks are round values.
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

// tick has the digits of a float32, which don't show what steps of 0.1 add up to.
func tick(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

// axisOf spans all values, and something where there is none.
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
		a.most *= 1.05
	}
	return a
}

// SVG draws the chart.
func (c Chart) SVG() string {
	const width, left, right, top, bottom, foot, inRow, row = 720.0, 70.0, 700.0, 40.0, 350.0, 388.0, 3, 14
	height := foot + 12 + row*float64(max(len(c.Lines)-1, 0)/inRow)
	x := axisOf(c.LogX, left, right, func(l Line) []float64 { return l.X }, c.Lines)
	y := axisOf(c.LogY, bottom, top, func(l Line) []float64 { return l.Y }, c.Lines)
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
	for _, v := range x.ticks() {
		p(`<path d="M%.1f %.1fV%.1f" stroke="#dddddd"/>`, x.at(v), top, bottom)
		text(min(x.at(v), width-4.2*float64(len(tick(v)))), bottom+16, "middle", tick(v), "") // a long one stays on the paper
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
