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
	"github.com/millrace-go/millrace/storage"
)

const (
	leastEvery = 100 * time.Millisecond
	lookWithin = 10 * time.Second // after which a look at a store that doesn't answer has failed
)

func checkTop(verb string, o options) error {
	switch {
	case o.every < leastEvery:
		return usage("%s: -every: want at least %v", verb, leastEvery)
	case o.rounds < 0:
		return usage("%s: -n: want 0 or more", verb)
	}
	return nil
}

// A look is what a round of top has seen.
type look struct {
	at       time.Time
	names    []string
	stats    []storage.Stats
	poisoned map[string]int64
	consumed []string // by whom
	rates    []rates
	note     string // why rates are unknown
}

// rates are the rates of a queue. nil is an unknown number.
type rates struct {
	in, out, change *float64      // messages per second
	p99             time.Duration // of handlers; 0 is unknown
}

// topLine is what -json prints of a queue in each round. null is an unknown number.
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

// top shows the queues again and again.
func top(ctx context.Context, c *call) error {
	var before *look
	w, show := new(watch), c.printLook
	if !c.json && c.out.terminal && c.process.Getenv("TERM") != "dumb" {
		s := openScreen(c.out.to)
		defer s.close()
		c.onSignal(s.close) // the store may be slow to stop
		show = s.draw
	}
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for round := 1; ; round++ {
		now, err := c.look(ctx, w, before)
		switch {
		case ctx.Err() != nil:
			return nil // a signal is how it ends
		case err != nil && before == nil:
			return err
		case err == nil:
			before = now
		}
		if err := show(before, err); err != nil {
			return err
		}
		if round == c.rounds {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look reads the queues, the poison queues, the reports of workers, and the catalog, which may have new programs.
func (c *call) look(ctx context.Context, w *watch, before *look) (*look, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	if before != nil {
		if err := c.readCatalog(ctx); err != nil {
			return nil, err
		}
	}
	names, poisoned, err := c.knownQueues(ctx)
	if err != nil {
		return nil, err
	}
	stats, err := c.statsOf(ctx, names)
	if err != nil {
		return nil, err
	}
	l := &look{at: time.Now(), names: names, stats: stats, poisoned: poisoned}
	w.readPulses(ctx, c)
	w.rate(l)
	for i, name := range names {
		l.consumed = append(l.consumed, c.consumedBy(name))
		if change, known := l.growthSince(before, i); known {
			l.rates[i].change = &change
		}
	}
	w.remember(l)
	return l, nil
}

// growthSince returns the growth of a queue per second since a look before, if it is known.
func (l *look) growthSince(before *look, i int) (perSecond float64, known bool) {
	if before == nil || !l.at.After(before.at) {
		return 0, false
	}
	j := slices.Index(before.names, l.names[i])
	if j < 0 || l.stats[i].Ready < 0 || before.stats[j].Ready < 0 {
		return 0, false
	}
	return float64(held(l.stats[i])-held(before.stats[j])) / l.at.Sub(before.at).Seconds(), true
}

// held is the number of messages in a queue, as far as it is known.
func held(st storage.Stats) int64 { return st.Ready + max(0, st.InFlight) + max(0, st.Delayed) }

// cells are what top shows of a queue, without its name.
func (l *look) cells(i int) []string {
	st := l.stats[i]
	r := l.rates[i]
	lag, p99 := unknown, unknown
	if st.Oldest >= 0 {
		lag = age(st.Oldest)
	}
	if r.p99 > 0 {
		p99 = brief(r.p99)
	}
	return []string{number(st.Ready), number(st.InFlight), number(st.Delayed), fmt.Sprint(l.poisoned[l.names[i]]), lag, rate(r.in), rate(r.out), p99}
}

// rate is a number of messages for each second.
func rate(x *float64) string {
	switch {
	case x == nil:
		return unknown
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

// printLook prints a line for each queue.
func (c *call) printLook(l *look, failed error) error {
	if failed != nil {
		_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(failed.Error()))
		return nil
	}
	if l.note != c.noted && !c.json {
		c.noted = l.note
		if l.note != "" {
			_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(l.note))
		}
	}
	for i, name := range l.names {
		if !c.json {
			x := l.cells(i)
			c.out.printf("%s  %s  ready %s  in flight %s  delayed %s  poison %s  lag %s  in %s  out %s  p99 %s\n", l.at.Format(time.TimeOnly), boot.Clean(name), x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])
			continue
		}
		st := l.stats[i]
		r := l.rates[i]
		line := topLine{At: l.at.UTC(), Queue: name, Ready: known(st.Ready), InFlight: known(st.InFlight), Delayed: known(st.Delayed), Poison: l.poisoned[name], In: r.in, Out: r.out, Change: r.change}
		if st.Oldest >= 0 {
			seconds := st.Oldest.Seconds()
			line.Lag = &seconds
		}
		if r.p99 > 0 {
			seconds := r.p99.Seconds()
			line.P99 = &seconds
		}
		if err := c.out.line(line); err != nil {
			return err
		}
	}
	return c.out.flush()
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
func (s *screen) draw(l *look, failed error) error {
	width, height := s.size()
	lines := l.lines(width)
	most := max(1, height-2)
	var told []string
	if l.note != "" && most > 1 {
		told = append(told, "Note: "+boot.Clean(l.note))
	}
	if failed != nil {
		told = append(told, "! "+boot.Clean(failed.Error()))
	}
	most -= len(told)
	if hidden := len(lines) - most; hidden > 0 {
		lines = append(lines[:max(0, most-1)], fmt.Sprintf("… and %s; a higher window shows them", count(min(hidden+1, len(l.names)), "more queue")))
	}
	title := fmt.Sprintf("%s   %s ready, %d in poison queues", l.at.Format(time.TimeOnly), count(int(l.sum()), "message"), l.poison())
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

func (l *look) sum() (n int64) {
	for _, st := range l.stats {
		n += max(0, st.Ready)
	}
	return n
}

func (l *look) poison() (n int64) {
	for x := range maps.Values(l.poisoned) {
		n += x
	}
	return n
}

// columns returns the head of the screen's table, and the columns that are left out where it is too wide, in that
// order.
func columns() (head []string, dropped []int) {
	return []string{"QUEUE", "READY", "IN FLIGHT", "DELAYED", "POISON", "LAG", "IN", "OUT", "P99", "CONSUMED BY"}, []int{9, 8, 3, 2, 6, 7}
}

// lines are the rows of the table with its head. Numbers stand on the right of their columns.
func (l *look) lines(width int) (all []string) {
	head, dropped := columns()
	rows := [][]string{head}
	for i, name := range l.names {
		rows = append(rows, append(append([]string{boot.Clean(name)}, l.cells(i)...), boot.Clean(l.consumed[i])))
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
