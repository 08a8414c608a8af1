package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	barWidth = 30
	barEvery = 100 * time.Millisecond
)

// A progress shows how far long work has come, as a bar that disappears when the work is done. Short work shows
// nothing. Without a terminal there is no bar either, because the output may be kept or mailed.
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

// Add says that n more items are done.
func (p *progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if !p.terminal || !time.Now().After(p.next) {
		return
	}
	p.next = time.Now().Add(barEvery)
	p.drawn = true
	total := max(p.total, p.done)
	full := barWidth * p.done / max(total, 1)
	_, _ = fmt.Fprintf(p.w, "\r%s [%s%s] %d of %d\x1b[K", p.what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), p.done, total)
}

// End takes the bar away.
func (p *progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
