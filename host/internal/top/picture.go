package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/watch"
)

// draw shows a look, cut to the size of the screen. After a failed look it shows the last one, and why.
func draw(s *terminal.Screen, l *watch.Look, failed error) error {
	width, height := s.Size()
	return s.Draw(picture(l, failed, width, height), width)
}

// picture are the lines that show a look.
func picture(l *watch.Look, failed error, width, height int) []string {
	lines := tableRows(l, width)
	most := max(1, height-2)
	var told []string
	if l.Note != "" && most > 1 {
		told = append(told, "Note: "+boot.Clean(l.Note))
	}
	if failed != nil {
		told = append(told, "! "+boot.Clean(failed.Error()))
	}
	most -= len(told)
	if hidden := len(lines) - most; hidden > 0 {
		lines = append(lines[:max(0, most-1)], fmt.Sprintf("… and %s; a higher window shows them", act.Count(min(hidden+1, len(l.Names)), "more queue")))
	}
	ready, poisoned := int64(0), int64(0)
	for _, st := range l.Stats {
		ready += max(0, st.Ready)
	}
	for _, n := range l.Poisoned {
		poisoned += n
	}
	title := fmt.Sprintf("%s   %s ready, %d in poison queues", l.At.Format(time.TimeOnly), act.Count(int(ready), "message"), poisoned)
	return slices.Concat([]string{title, ""}, lines, told)
}

// columns returns the head of the screen's table, and the columns that are left out where it is too wide, in that
// order.
func columns() (head []string, dropped []int) {
	return []string{"QUEUE", "READY", "IN FLIGHT", "DELAYED", "POISON", "LAG", "IN", "OUT", "P99", "CONSUMED BY"}, []int{9, 8, 3, 2, 6, 7}
}

// tableRows are the rows of the table with its head. Numbers stand on the right of their columns.
func tableRows(l *watch.Look, width int) (all []string) {
	head, dropped := columns()
	rows := [][]string{head}
	for i, name := range l.Names {
		rows = append(rows, append(append([]string{boot.Clean(name)}, cells(l, i)...), boot.Clean(l.Consumed[i])))
	}
	shown, wide := map[int]bool{}, make([]int, len(head))
	total := -2
	for i := range head {
		for _, row := range rows {
			wide[i] = max(wide[i], utf8.RuneCountInString(row[i]))
		}
		shown[i] = true
		total += wide[i] + 2
	}
	for _, i := range dropped {
		if total > width {
			shown[i] = false
			total -= wide[i] + 2
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell))
			switch {
			case !shown[i]:
			case i == 0:
				b.WriteString(cell + pad)
			case i == len(head)-1:
				b.WriteString("  " + cell)
			default:
				b.WriteString("  " + pad + cell)
			}
		}
		all = append(all, b.String())
	}
	return all
}

// cells are what top shows of a queue, without its name.
func cells(l *watch.Look, i int) []string {
	st := l.Stats[i]
	r := l.Rates[i]
	lag, p99 := act.Unknown, act.Unknown
	if st.Oldest >= 0 {
		lag = act.Age(st.Oldest)
	}
	if r.P99 > 0 {
		p99 = brief(r.P99)
	}
	return []string{number(st.Ready), number(st.InFlight), number(st.Delayed), fmt.Sprint(l.Poisoned[l.Names[i]]), lag, rate(r.In), rate(r.Out), p99}
}

// rate is a number of messages for each second.
func rate(x *float64) string {
	switch {
	case x == nil:
		return act.Unknown
	case *x == 0:
		return "0/s"
	case *x < 0.1:
		return "<0.1/s"
	case *x < 10:
		return fmt.Sprintf("%.1f/s", *x)
	}
	return fmt.Sprintf("%.0f/s", *x)
}

// brief is a time to two digits, or in seconds.
func brief(d time.Duration) string {
	for unit := time.Microsecond; unit < time.Second; unit *= 10 {
		if d < 100*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Second).String()
}

func number(n int64) string {
	if n < 0 {
		return act.Unknown
	}
	return fmt.Sprint(n)
}
