package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/chart"
)

func TestSVG(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]chart.Chart{
		"empty":         {},
		"without lines": {Title: "Title <&>", LogX: true, LogY: true},
		"no point":      {LogX: true, Lines: []chart.Line{{Name: "none"}}},
		"one point":     {LogX: true, Lines: []chart.Line{{X: []float64{1}, Y: []float64{0}}}},
		"zeros":         {LogX: true, LogY: true, Lines: []chart.Line{{X: []float64{0, 1}, Y: []float64{0, 0}}}},
		"more":          {Lines: []chart.Line{{Name: "a < b & c", X: []float64{1, 1000}, Y: []float64{2, 4000}}, {X: []float64{1}, Y: []float64{0.001}}, {}, {}, {}}},
	} {
		svg := c.SVG()
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: a number is none:\n%s", name, svg)
		}
		texts, paths := "", 0
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, svg)
			}
			switch x := token.(type) {
			case xml.CharData:
				texts += string(x)
			case xml.StartElement:
				if x.Name.Local == "path" && x.Attr[1].Name.Local == "fill" {
					paths++
				}
			}
		}
		for _, want := range append([]chart.Line{{Name: c.Title}}, c.Lines...) {
			if !strings.Contains(texts, want.Name) {
				t.Errorf("%s: got %q, want %q in it", name, texts, want.Name)
			}
		}
		if paths != len(c.Lines) {
			t.Errorf("%s: got %d lines, want %d", name, paths, len(c.Lines))
		}
	}
}

func TestAxes(t *testing.T) {
	t.Parallel()
	line := chart.Line{Name: "line", Dashed: true}
	line.Add(20, 0.1)
	line.Add(1_000_000, 0.4)
	for _, c := range []struct {
		logX, logY           bool
		ticksX, ticksY, path string
	}{
		{true, false, "10 100 1000 10000 100000 1000000", "0 0.1 0.2 0.3 0.4", "M107.9 276.2L700.0 54.8"},
		{false, true, "0 250000 500000 750000 1000000", "0.1 1", "M70.0 350.0L670.0 163.4"},
	} {
		svg := chart.Chart{LogX: c.logX, LogY: c.logY, Lines: []chart.Line{line}}.SVG()
		ticks := func(pattern string) string {
			var all []string
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(svg, -1) {
				all = append(all, m[1])
			}
			return strings.Join(all, " ")
		}
		if got := ticks(`y="366.0" text-anchor="middle">(.*)<`); got != c.ticksX {
			t.Errorf("x, log %v: got %s, want %s", c.logX, got, c.ticksX)
		}
		if got := ticks(`x="64.0" .*>(.*)<`); got != c.ticksY {
			t.Errorf("y, log %v: got %s, want %s", c.logY, got, c.ticksY)
		}
		if got := ticks(`d="(M.*L.*?)" .* stroke-dasharray`); got != c.path {
			t.Errorf("log %v %v: got %s, want %s", c.logX, c.logY, got, c.path)
		}
		if got := ticks(`x="(.*)" y="366.0" .*>1000000<`); c.logX && got != "690.6" {
			t.Errorf("the last tick: got %s, want 690.6", got)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.000012: "0.0000120", 0.04: "0.0400", 0.0123456: "0.0123", 1: "1.00", 1.2345: "1.23", 12.345: "12.3", 99.96: "100", 123.4: "123",
		1234: "1,230", 99960: "100,000", 1234567: "1,230,000", -12.3456: "-12.3", -123: "-123", -1234: "-1,230", math.NaN(): "–", math.Inf(1): "–",
	} {
		if got := chart.Number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -123456: "-123,456", -1234567: "-1,234,567"} {
		if got := chart.Whole(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
