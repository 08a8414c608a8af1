package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

type point struct{ x, y float64 }

type line struct {
	name   string
	points []point
}

// The size of a chart, and what is around its lines.
const (
	chartWidth, chartHeight = 720, 400
	left, right, top, foot  = 80, 40, 56, 56
)

var colours = []string{"#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b8860b", "#444444", "#008b8b", "#d1495b"}

// svg draws lines from 0 upwards. It needs nothing but itself, and a white ground so that it can be read in dark pages.
func svg(title string, c chart, lines []line) []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	low, high, most := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range lines {
		for _, pt := range l.points {
			low, high, most = min(low, pt.x), max(high, pt.x), max(most, pt.y)
		}
	}
	scale := func(x float64) float64 { return x }
	if c.logX && low > 0 {
		scale = math.Log10
	}
	step := spacing(most)
	ceiling := max(step*math.Ceil(most/step), step)
	atX := func(x float64) float64 {
		if high <= low {
			return (left + chartWidth - right) / 2
		}
		return left + (scale(x)-scale(low))/(scale(high)-scale(low))*(chartWidth-left-right)
	}
	atY := func(y float64) float64 { return chartHeight - foot - y/ceiling*(chartHeight-top-foot) }

	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, chartWidth, chartHeight)
	p(`<title>%s</title>`, html.EscapeString(title+": "+c.y))
	p(`<rect width="%d" height="%d" fill="white"/>`, chartWidth, chartHeight)
	p(`<text x="%d" y="20" font-size="15">%s</text>`, left, html.EscapeString(title))
	p(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+chartWidth-right)/2, chartHeight-12, html.EscapeString(c.x))
	p(`<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %[1]d)">%s</text>`, (top+chartHeight-foot)/2, html.EscapeString(c.y))
	for y := 0.0; y <= ceiling+step/2; y += step {
		p(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, atY(y), chartWidth-right, left-6, atY(y)+4, label(y))
	}
	seen := map[float64]bool{}
	for _, l := range lines {
		for _, pt := range l.points {
			if !seen[pt.x] {
				seen[pt.x] = true
				p(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, atX(pt.x), chartHeight-foot+18, label(pt.x))
			}
		}
	}
	for i, l := range lines {
		colour := colours[i%len(colours)]
		var path string
		for j, pt := range l.points {
			path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(j, 1)], atX(pt.x), atY(pt.y))
			p(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, atX(pt.x), atY(pt.y), colour)
		}
		p(`<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`, path, colour)
		p(`<text x="%d" y="%d" fill="%s">%s</text>`, left+(i%4)*155, 36+i/4*14, colour, html.EscapeString(l.name))
	}
	p(`</svg>`)
	return b.Bytes()
}

// label writes a number on an axis.
func label(x float64) string {
	if x == math.Trunc(x) {
		return cell(int(x))
	}
	return cell(x)
}

// spacing returns a round distance of 1, 2 or 5 that goes some times into most.
func spacing(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.1, 0.2, 0.5, 1} {
		if most/(unit*f) <= 6 {
			return unit * f
		}
	}
	return 2 * unit
}
