package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/host/internal/top"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	taken = "\x1b[?1049h\x1b[?25l\x1b[2J"
	given = "\x1b[?25h\x1b[?1049l"
)

// topOn runs top on a terminal of its own, until ctx ends or its rounds are over. stop is what a signal does; nil for
// no signal.
func topOn(t *testing.T, ctx context.Context, s *storage.Store, w io.Writer, stop func(act func()), args ...string) error {
	t.Helper()
	x := sessionIn(t, Program{}, s, "", append([]string{"top"}, args...)...)
	x.out, x.stop = terminal.NewOutput(w), func(func()) {}
	x.out.Terminal = true
	if stop != nil {
		x.stop = stop
	}
	return x.runIn(ctx)
}

// breaking is a terminal that goes away, or whose driver panics.
type breaking struct {
	text  strings.Builder
	left  int
	panic bool
}

func (b *breaking) String() string { return b.text.String() }

func (b *breaking) Write(p []byte) (int, error) {
	if b.left--; b.left == 0 {
		if b.panic {
			panic("broken")
		}
		return 0, errors.New("the terminal is gone")
	}
	return b.text.Write(p)
}

// Law: top gives the terminal back as it was, however it ends.
func TestTopRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	ended := func(name string, w fmt.Stringer) {
		got := w.String()
		if !strings.HasPrefix(got, taken) || !strings.HasSuffix(got, given) || strings.Count(got, given) != 1 {
			t.Errorf("%s: got %q", name, got)
		}
	}
	var w strings.Builder
	if err := topOn(t, t.Context(), x.Store, &w, nil, "-every", "100ms", "-n", "2"); err != nil {
		t.Error(err)
	}
	ended("after its rounds", &w)

	ctx, signal := context.WithCancel(t.Context())
	drawn := &signalled{signal: signal}
	if err := topOn(t, ctx, x.Store, drawn, nil, "-every", "1h"); err != nil {
		t.Errorf("a signal: got %v, want no error", err)
	}
	ended("a signal", drawn)

	gone := &breaking{left: 2}
	if err := topOn(t, t.Context(), x.Store, gone, nil, "-every", "1h"); err == nil {
		t.Error("got no error though the terminal is gone")
	}
	ended("an error", gone)

	broken := &breaking{left: 2, panic: true}
	func() {
		defer func() { _ = recover() }()
		_ = topOn(t, t.Context(), x.Store, broken, nil, "-every", "1h")
	}()
	ended("a panic", broken)

	var first strings.Builder
	away := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "stats" {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	if err := topOn(t, t.Context(), away, &first, nil, "-every", "1h"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a store that never answers: got %v", err)
	}
	ended("a store that never answers", &first)
}

// Law: the first signal gives the terminal back while the store is still busy, because a second one ends the process.
func TestTheFirstSignalGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	ctx, signal := context.WithCancel(t.Context())
	back, looks := make(chan struct{}), atomic.Int64{}
	var w strings.Builder
	busy := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "stats" && strings.Contains(op.Resource, "wishes") && looks.Add(1) == 2 {
			signal()
			<-back // whatever its context says
		}
		return do()
	})
	stop := func(act func()) {
		context.AfterFunc(ctx, func() {
			act()
			if !strings.HasSuffix(w.String(), given) {
				t.Errorf("after the first signal: got %q", w.String())
			}
			close(back)
		})
	}
	if err := topOn(t, ctx, busy, &w, stop, "-every", "100ms"); err != nil {
		t.Error(err)
	}
	if got := strings.Count(w.String(), given); got != 1 || !strings.HasSuffix(w.String(), given) {
		t.Errorf("got %q, want nothing after the terminal is given back", w.String())
	}
}

// signalled is a terminal whose first picture brings the signal.
type signalled struct {
	text   strings.Builder
	signal func()
}

func (s *signalled) String() string { return s.text.String() }

func (s *signalled) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "QUEUE") {
		s.signal()
	}
	return s.text.Write(p)
}

// top waits for a store that is away for a while, and says so.
func TestTopWaitsForTheStore(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	var looks atomic.Int64
	away := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "stats" && strings.Contains(op.Resource, "wishes") && looks.Add(1) == 2 {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	var w strings.Builder
	if err := topOn(t, t.Context(), away, &w, nil, "-every", "100ms", "-n", "3"); err != nil {
		t.Fatal(err)
	}
	pictures := strings.Split(w.String(), "\x1b[H")
	if len(pictures) != 4 {
		t.Fatalf("got %d pictures, want 3: %q", len(pictures)-1, w.String())
	}
	for i, p := range pictures[1:] {
		if failed := strings.Contains(p, "wishes: "); failed != (i == 1) || !strings.Contains(p, "wishes") {
			t.Errorf("picture %d: got %q", i+1, p)
		}
	}
	code, out, told := x.doOn(t, away, "", "top", "-n", "1", "-json")
	var line top.Line
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &line); code != 0 || told != "" || err != nil || line.Queue != "accounts" || line.Ready == nil || line.Change != nil {
		t.Errorf("-json: got exit code %d, %q, %q (%v)", code, out, told, err)
	}
}
