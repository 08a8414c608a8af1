package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	barWidth  = 30
	barEvery  = 100 * time.Millisecond
	lineEvery = 500 // items at least, where there is no terminal
	mostLines = 10
)

// A progress shows how far long work is: as a bar on a terminal, which goes when the work is done; elsewhere as a line
// every so many items. Short work shows nothing.
type progress struct {
	w        io.Writer
	terminal bool
	what     string
	total    int

	mu    sync.Mutex
	done  int
	next  time.Time // of the bar
	drawn bool
}

// newProgress begins to count to total.
func newProgress(w io.Writer, what string, total int) *progress {
	return &progress{w: w, terminal: isTerminal(w), what: what, total: total, next: time.Now().Add(barEvery)}
}

// isTerminal takes the null device for one, which does no harm.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// add says that n more items are done.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.done
	p.done += n
	switch {
	case !p.terminal:
		if every := max(lineEvery, p.total/mostLines); p.done/every > before/every {
			_, _ = fmt.Fprintf(p.w, "%s: %d of %d\n", p.what, p.done, max(p.total, p.done))
		}
	case time.Now().After(p.next):
		p.next = time.Now().Add(barEvery)
		p.drawn = true
		total := max(p.total, p.done)
		full := barWidth * p.done / max(total, 1)
		_, _ = fmt.Fprintf(p.w, "\r%s [%s%s] %d of %d\x1b[K", p.what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), p.done, total)
	}
}

// end takes the bar away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
