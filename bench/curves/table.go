package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/internal/chart"
)

// A table has the results of a curve.
type table struct {
	Name    string   `json:"name"` // of its files
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"`
	Machine string   `json:"machine,omitempty"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"` // strings, ints and float64s

	charts []plot
}

// A plot is a chart of some columns of a table against another column.
type plot struct {
	y, x string
	by   []string // each value of these columns has a line
	logX bool
}

func (t *table) add(cells ...any) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("table %s: %d cells in %d columns", t.Name, len(cells), len(t.Columns)))
	}
	for i, c := range cells {
		if f, ok := c.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			cells[i] = "-" // nothing was measured; JSON has no NaN
		}
	}
	t.Rows = append(t.Rows, cells)
}

func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", t.Title)
	if t.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", t.Note)
	}
	if t.Machine != "" {
		fmt.Fprintf(&b, "%s.\n\n", t.Machine)
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = cell(c)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// cell formats a value for people.
func cell(c any) string {
	switch v := c.(type) {
	case int:
		return chart.Whole(v)
	case float64:
		return chart.Number(v)
	}
	return fmt.Sprint(c)
}

// lines returns the points of a plot's lines from its table.
func (t *table) lines(c plot) (all []chart.Line) {
	x, y := slices.Index(t.Columns, c.x), slices.Index(t.Columns, c.y)
	for _, row := range t.Rows {
		px, okX := number(row[x])
		py, okY := number(row[y])
		if !okX || !okY {
			continue
		}
		var name []string
		for _, by := range c.by {
			is := row[slices.Index(t.Columns, by)]
			if _, ok := number(is); ok {
				name = append(name, by)
			}
			name = append(name, cell(is))
		}
		of := strings.Join(name, " ")
		i := slices.IndexFunc(all, func(l chart.Line) bool { return l.Name == of })
		if i < 0 {
			i = len(all)
			all = append(all, chart.Line{Name: of})
		}
		all[i].Add(px, py)
	}
	return all
}

func number(c any) (float64, bool) {
	switch v := c.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// writeAll writes the tables for programs and as charts, where a path is given.
func writeAll(tables []*table, jsonFile, svgDir string) error {
	if jsonFile != "" {
		b, err := json.MarshalIndent(tables, "", "\t")
		if err == nil {
			err = os.WriteFile(jsonFile, append(b, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if svgDir == "" {
		return nil
	}
	if err := os.MkdirAll(svgDir, 0o755); err != nil {
		return err
	}
	for _, t := range tables {
		for i, c := range t.charts {
			name := t.Name
			if i > 0 {
				name += "-" + strconv.Itoa(i+1)
			}
			drawn := chart.Chart{Title: t.Title, X: c.x, Y: c.y, LogX: c.logX, Lines: t.lines(c)}
			if err := os.WriteFile(filepath.Join(svgDir, name+".svg"), []byte(drawn.SVG()), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// median returns the median of some numbers, and NaN for none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}
