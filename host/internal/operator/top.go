package operator

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/watch"
)

const (
	leastEvery = 100 * time.Millisecond
	lookWithin = 10 * time.Second // after which a look at a store that doesn't answer has failed
)

// A topLine is a queue in a round of top. null is an unknown number.
type topLine struct {
	At       time.Time `json:"at"`
	Queue    string    `json:"queue"`
	Ready    *int64    `json:"ready"`
	InFlight *int64    `json:"in_flight"`
	Delayed  *int64    `json:"delayed"`
	Poison   int64     `json:"poison"`
	Lag      *float64  `json:"lag_seconds"`
	In       *float64  `json:"in_per_second"`
	Out      *float64  `json:"out_per_second"`
	Change   *float64  `json:"change_per_second"`
	P99      *float64  `json:"p99_seconds"`
}

// A topInput is what top takes.
type topInput struct {
	every  time.Duration
	rounds int
}

// top is the act that shows the queues again and again. It is no act of package acts, because it may have the terminal
// to itself.
func (s *session) top() *act.Act {
	return act.New(act.Act{Noun: "top", Role: act.Viewer, About: "watch the queues",
		More: "On a terminal it is a screen, until a signal (Ctrl-C). Elsewhere it prints a line for each queue again and again. LAG is the age " +
			"of the oldest ready message. OUT counts the messages that left the queue, handled, poisoned or cancelled, by what the workers " +
			"published in the last two minutes. IN is OUT and the growth of the queue over the same time, so it is known after a minute. P99 is " +
			"the time within which 99 of 100 runs of a handler ended, in the slowest worker.",
	}, func(in *topInput) []act.Field {
		in.every = 2 * time.Second
		return []act.Field{
			act.Duration(&in.every, "every", "look at the queues again after this `TIME`, at least 100ms", leastEvery, 24*time.Hour),
			act.Number(&in.rounds, "n", "end after this `NUMBER` of looks; 0 means never", 0, 1<<30),
		}
	}, s.watch)
}

// watch shows the queues until its rounds are over or ctx ends.
func (s *session) watch(ctx context.Context, c *act.Call, in *topInput) error {
	var last *watch.Look
	var w watch.Watch
	show := s.printLook(c)
	if !s.json && s.out.terminal && s.process.Getenv("TERM") != "dumb" {
		screen := openScreen(s.out.to)
		defer screen.close()
		s.stop(screen.close) // the store may be slow to stop
		show = screen.draw
	}
	tick := time.NewTicker(in.every)
	defer tick.Stop()
	for round := 1; ; round++ {
		looking, cancel := context.WithTimeout(ctx, lookWithin)
		now, err := w.Look(looking, c.Desk)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // a signal is how it ends
		case err != nil && last == nil:
			return err
		case err == nil:
			last = now
		}
		if err := show(last, err); err != nil {
			return err
		}
		if round == in.rounds {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
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

// printLook returns what prints a line for each queue.
func (s *session) printLook(c *act.Call) func(*watch.Look, error) error {
	noted := ""
	return func(l *watch.Look, failed error) error {
		if failed != nil {
			c.Note("%v", failed)
			return nil
		}
		if l.Note != noted && l.Note != "" && !s.json { // in JSON the rates are null
			c.Note("%s", l.Note)
		}
		noted = l.Note
		for i, name := range l.Names {
			x := cells(l, i)
			if err := c.Say(newTopLine(l, i), "%s  %s  ready %s  in flight %s  delayed %s  poison %s  lag %s  in %s  out %s  p99 %s",
				l.At.Format(time.TimeOnly), name, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]); err != nil {
				return err
			}
		}
		return c.Flush()
	}
}

func newTopLine(l *watch.Look, i int) topLine {
	st, r := l.Stats[i], l.Rates[i]
	line := topLine{At: l.At.UTC(), Queue: l.Names[i], Ready: known(st.Ready), InFlight: known(st.InFlight), Delayed: known(st.Delayed), Poison: l.Poisoned[l.Names[i]], In: r.In, Out: r.Out, Change: r.Change}
	if st.Oldest >= 0 {
		seconds := st.Oldest.Seconds()
		line.Lag = &seconds
	}
	if r.P99 > 0 {
		seconds := r.P99.Seconds()
		line.P99 = &seconds
	}
	return line
}

// known is nil for an unknown number.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func number(n int64) string {
	if n < 0 {
		return act.Unknown
	}
	return fmt.Sprint(n)
}

// A screen is a terminal that top has to itself.
type screen struct {
	w    io.Writer
	size func() (width, height int)

	mu     sync.Mutex
	closed bool
}

// openScreen takes the terminal: a screen of its own, without a cursor.
func openScreen(w io.Writer) *screen {
	s := &screen{w: w, size: func() (int, int) { return sizeOf(w) }}
	_, _ = io.WriteString(w, "\x1b[?1049h\x1b[?25l\x1b[2J")
	return s
}

// sizeOf returns the size of a terminal, or that of a small one where there is none.
func sizeOf(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}

// close gives the terminal back as it was.
// Nothing is drawn afterwards.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_, _ = io.WriteString(s.w, "\x1b[?25h\x1b[?1049l")
	}
}

// draw shows a look, cut to the size of the terminal. After a failed look it shows the last one, and why.
func (s *screen) draw(l *watch.Look, failed error) error {
	width, height := s.size()
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
	title := fmt.Sprintf("%s   %s ready, %d in poison queues", l.At.Format(time.TimeOnly), act.Count(int(sum(l)), "message"), poisonIn(l))
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range slices.Concat([]string{title, ""}, lines, told) {
		b.WriteString(cut(line, width) + "\x1b[K\r\n")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	_, err := io.WriteString(s.w, strings.TrimSuffix(b.String(), "\r\n")+"\x1b[J")
	return err
}

func sum(l *watch.Look) (n int64) {
	for _, st := range l.Stats {
		n += max(0, st.Ready)
	}
	return n
}

func poisonIn(l *watch.Look) (n int64) {
	for x := range maps.Values(l.Poisoned) {
		n += x
	}
	return n
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

// cut shortens a line to a width.
func cut(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:max(0, width-1)]) + "…"
	}
	return line
}
