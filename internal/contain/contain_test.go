package contain_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/contain"
)

// bomb is an error and a text none of whose methods returns.
type bomb struct{ explode func() }

func (b bomb) Error() string  { b.explode(); return "" }
func (b bomb) String() string { b.explode(); return "" }
func (b bomb) Unwrap() error  { b.explode(); return nil }
func (b bomb) Is(error) bool  { b.explode(); return false }
func (b bomb) As(any) bool    { b.explode(); return false }

// unsaid is an error that can't be logged.
type unsaid struct{ explode func() }

func (unsaid) Error() string          { return "unsaid" }
func (u unsaid) LogValue() slog.Value { u.explode(); return slog.Value{} }

// unwritten is an error that can't be encoded.
type unwritten struct{ explode func() }

func (unwritten) Error() string                  { return "unwritten" }
func (u unwritten) MarshalJSON() ([]byte, error) { u.explode(); return nil, nil }

// round is an error that wraps itself.
type round struct{}

func (round) Error() string { return "round" }
func (round) Unwrap() error { return round{} }

func boom() { panic("boom") }

// Only a return is a return, whatever recover says.
func TestOnlyAReturnIsOne(t *testing.T) {
	for _, value := range []string{"0", "1"} {
		t.Setenv("GODEBUG", "panicnil="+value)
		for name, c := range map[string]struct {
			f    func() error
			want string // empty: nil
		}{
			"nil":           {func() error { return nil }, ""},
			"an error":      {func() error { return io.EOF }, "EOF"},
			"panic":         {func() error { panic("boom") }, "panic: boom"},
			"panic, nil":    {func() error { panic(nil) }, "panic: "},
			"panic, error":  {func() error { panic(io.EOF) }, "panic: EOF"},
			"panic, bomb":   {func() error { panic(bomb{boom}) }, "can't be had"},
			"panic, nobody": {func() error { panic(bomb{func() { panic(nil) }}) }, "can't be had"},
			"no pointer":    {func() error { panic((*os.PathError)(nil)) }, "nil *fs.PathError"},
			"again":         {func() error { defer func() { panic(recover()) }(); panic("boom") }, "panic: boom"},
			"recovered":     {func() error { defer func() { _ = recover() }(); panic("boom") }, ""},
		} {
			for how, call := range map[string]func(func() error) error{"Call": contain.Call, "Apart": contain.Apart} {
				err := call(c.f)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("panicnil=%s: %s, %s: got %v, want %q", value, name, how, err, c.want)
				}
			}
		}
		for name, f := range map[string]func() error{
			"Goexit":               func() error { runtime.Goexit(); return nil },
			"Goexit in a panic":    func() error { defer runtime.Goexit(); panic("boom") },
			"Goexit in an error":   func() error { return bomb{runtime.Goexit} },
			"Goexit in a log":      func() error { return unsaid{runtime.Goexit} },
			"Goexit in JSON":       func() error { return unwritten{runtime.Goexit} },
			"Goexit in a text":     func() error { panic(bomb{runtime.Goexit}) },
			"Goexit in what wraps": func() error { return fmt.Errorf("%w", errors.Join(io.EOF, bomb{runtime.Goexit})) },
		} {
			var p *contain.Panic
			if err := contain.Apart(f); !errors.As(err, &p) || !p.Exited || !strings.Contains(p.Text, "runtime.Goexit") {
				t.Errorf("panicnil=%s: %s: got %v, want that it ended the goroutine", value, name, err)
			}
		}
	}
}

// Call doesn't come back to a goroutine that ends, and says in the goroutine's deferred functions that it does.
func TestCallLetsAGoroutineEnd(t *testing.T) {
	t.Parallel()
	var exited *contain.Panic
	back := true
	<-contain.Start(func() error {
		defer func() { exited, back = contain.Caught(recover()), false }()
		_ = contain.Call(func() error { runtime.Goexit(); return nil })
		back = true
		return nil
	})
	if back || !exited.Exited {
		t.Errorf("it came back: %v; got %+v", back, exited)
	}
}

// The frames are those of the code that was called.
func TestFrames(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){"panic": boom, "runtime": func() { _ = []int{}[len(os.Args)] }, "Goexit": runtime.Goexit, "FailNow": (&testing.T{}).FailNow} {
		var p *contain.Panic
		if err := contain.Apart(func() error { f(); return nil }); !errors.As(err, &p) {
			t.Fatalf("%s: got %v", name, err)
		}
		stack := contain.Stack(p.Frames)
		if !strings.Contains(stack, "contain_test.go:") || strings.Contains(stack, "contain.go") || strings.Contains(stack, "runtime.") {
			t.Errorf("%s: got\n%s", name, stack)
		}
	}
}

// counting is an error that counts the calls of its methods.
type counting struct{ calls *int }

func (c counting) Error() string { *c.calls++; return "counted" }
func (c counting) Unwrap() error { *c.calls++; return os.ErrClosed }
func (c counting) Is(error) bool { *c.calls++; return false }
func (c counting) As(any) bool   { *c.calls++; return false }

// A copy calls none of the methods of what it copies.
func TestCopy(t *testing.T) {
	t.Parallel()
	calls := 0
	own := &os.PathError{Op: "open", Path: "x", Err: io.ErrNoProgress}
	err := contain.Copy(fmt.Errorf("around: %w", errors.Join(counting{&calls}, own)))
	before := calls
	for _, target := range []error{os.ErrClosed, io.ErrNoProgress, own} {
		if !errors.Is(err, target) {
			t.Errorf("it isn't %v", target)
		}
	}
	var path *os.PathError
	if errors.Is(err, io.EOF) || !errors.As(err, &path) || path != own || errors.As(err, new(*contain.Panic)) {
		t.Errorf("it is what it isn't, or isn't what it is: %v", path)
	}
	if !strings.Contains(err.Error(), "counted") || calls != before || before == 0 {
		t.Errorf("got %q after %d calls, then %d", err, before, calls)
	}
	if again := contain.Copy(err); again != err {
		t.Errorf("a copy is copied: %v", again)
	}
	if errors.As(contain.Copy(fmt.Errorf("read: %w", (*os.PathError)(nil))), new(interface{ Timeout() bool })) {
		t.Error("somebody gets a nil pointer")
	}
	if contain.Copy(nil) != nil {
		t.Error("nil is copied")
	}
	if same := errors.Is(contain.Copy(bomb{boom}), bomb{nil}); same { // functions can't be compared
		t.Error("a comparison that panics counts as equal")
	}
	if got := contain.CopyOf(fmt.Errorf("a: %w", io.EOF)).Type(); got != "*errors.errorString" {
		t.Errorf("type: got %s", got)
	}
}

// An error whose methods fail is replaced by a copy, and no other.
func TestSound(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	for name, c := range map[string]struct {
		err  error
		same bool
	}{
		"nil":         {nil, true},
		"an error":    {fmt.Errorf("read: %w", io.EOF), true},
		"wrapped nil": {fmt.Errorf("read: %w", (*os.PathError)(nil)), false},
		"typed nil":   {(*os.PathError)(nil), false},
		"bomb":        {errors.Join(io.EOF, bomb{boom}), false},
		"quiet bomb":  {errors.Join(io.EOF, bomb{func() { panic(nil) }}), false},
		"round":       {round{}, false},
		"unsaid":      {unsaid{boom}, false},
		"unwritten":   {unwritten{boom}, false},
		"by its Is":   {&os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, true},
	} {
		if got := contain.Sound(c.err); (got == c.err) != c.same {
			t.Errorf("%s: got %v, want the same: %v", name, got, c.same)
		}
		if name == "by its Is" && !errors.Is(contain.Sound(c.err), os.ErrNotExist) {
			t.Error("an error lost its Is")
		}
		if c.err != nil && contain.Sound(c.err).Error() == "" {
			t.Errorf("%s: it has no text", name)
		}
	}
}
