package terminal

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A Screen is a terminal that somebody has to itself.
type Screen struct {
	To   io.Writer
	Size func() (width, height int)

	mu     sync.Mutex
	closed bool
}

// OpenScreen takes the terminal: a screen of its own, without a cursor.
func OpenScreen(w io.Writer) *Screen {
	s := &Screen{To: w, Size: func() (int, int) { return sizeOf(w) }}
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

// Close gives the terminal back as it was. Nothing is drawn afterwards.
func (s *Screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_, _ = io.WriteString(s.To, "\x1b[?25h\x1b[?1049l")
	}
}

// Draw shows lines in place of those that were drawn before, each cut to a width. The lines are clean.
func (s *Screen) Draw(lines []string, width int) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(cut(line, width) + "\x1b[K\r\n")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	_, err := io.WriteString(s.To, strings.TrimSuffix(b.String(), "\r\n")+"\x1b[J")
	return err
}

// cut shortens a line to a width.
func cut(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:max(0, width-1)]) + "…"
	}
	return line
}
