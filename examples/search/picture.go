package main

import (
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/millrace-go/millrace/process"
)

// Sizes of the picture, in its units.
const (
	width   = 720
	names   = 150 // where the bars begin
	right   = 560 // where they end; what is wrong stands behind them
	rowHigh = 16
	top     = 40
)

// colours of what steps do.
var colours = map[process.Activity]string{
	process.Holds: "#d5e0ee", process.Waits: "#dddddd", process.Asks: "#8fb3d9", process.Works: "#1f5fa8", process.Undoes: "#c2571a",
}

const failed = "#d1495b"

// picture draws the timeline of an instance that has ended, as an SVG. Times are rounded to the agents' pace, so that
// two runs give the same picture.
func picture(s *process.Stream) string {
	t := s.Timeline(s.Ended)
	paces := func(at time.Time) int { return int((at.Sub(s.Created) + pace/2) / pace) }
	all := paces(t.To)
	x := func(n int) int { return names + n*(right-names)/all }
	bottom := top + rowHigh*len(s.Lines)

	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(x, y int, words, more string) {
		p(`<text x="%d" y="%d"%s>%s</text>`, x, y, more, html.EscapeString(words))
	}
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, bottom+44)
	p(`<rect width="%d" height="%d" fill="#ffffff"/>`, width, bottom+44)
	text(10, 22, fmt.Sprintf("%s of a %s", s.Plan, s.ID), ` font-size="14" font-weight="bold"`)
	for n := 0; n <= all; n += int(time.Second / pace) {
		p(`<path d="M%d %dV%d" stroke="#dddddd"/>`, x(n), top, bottom)
		text(x(n), bottom+14, (time.Duration(n) * pace).String(), ` text-anchor="middle"`)
	}
	for i, line := range s.Lines {
		y := top + i*rowHigh
		text(10+12*line.Depth, y+12, line.Name, "")
		for _, bar := range t.Rows[i].Bars {
			from, to := paces(bar.From), paces(bar.To)
			if from == to {
				continue
			}
			colour := colours[bar.Is]
			if bar.Failed != "" {
				colour = failed
			}
			p(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, x(from), y+3, x(to)-x(from)-1, rowHigh-5, colour)
		}
		if line.Status != process.Completed {
			text(right+6, y+12, string(line.Status)+": "+line.Msg, fmt.Sprintf(` fill="%s" font-size="11"`, failed))
		}
	}
	at := names
	for _, x := range []struct{ words, colour string }{
		{"holds other steps", colours[process.Holds]}, {"waits", colours[process.Waits]}, {"works", colours[process.Works]}, {"an attempt that fails", failed},
	} {
		p(`<rect x="%d" y="%d" width="12" height="10" fill="%s"/>`, at, bottom+25, x.colour)
		text(at+17, bottom+34, x.words, "")
		at += 40 + 6*len(x.words)
	}
	p(`</svg>`)
	return b.String()
}
