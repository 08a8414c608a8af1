// Package contain calls code that the framework doesn't know: the functions of a program, and the methods of its
// values, messages and errors. Such code may do anything instead of returning.
//
//   - A call counts as returned only if it has returned. The result of recover doesn't tell: it is nil after a panic
//     with nil where GODEBUG has panicnil=1, and while runtime.Goexit ends the goroutine.
//   - [Call] turns a panic into an error. Nothing can stop runtime.Goexit on the caller's goroutine. So where the
//     caller must go on, [Apart] calls the code on a goroutine of its own.
//   - An error is code, too: Error, Unwrap, Is and As are methods of a program. [Copy] calls them once, and its result
//     calls none of them. [Sound] leaves an error as it is whose methods work.
package contain

import (
	"fmt"
	"runtime"
	"strings"
)

// A Panic stands for code that ended without returning.
type Panic struct {
	Value  any  // of the panic
	Exited bool // there was no panic: the code ended its goroutine by runtime.Goexit
	Text   string
	Frames []runtime.Frame // from the line that panicked to the call that was contained
}

func (p *Panic) Error() string { return p.Text }

// Stack writes frames as a panic does.
func Stack(frames []runtime.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return b.String()
}

// Call returns the error of f, or a [Panic] if f panics.
func Call(f func() error) (err error) {
	call(f, &err)
	return err
}

// Do is [Call] for code without an error.
func Do(f func()) error {
	return Call(func() error { f(); return nil })
}

// Apart is [Call] on a goroutine of its own. So it returns a [Panic] after runtime.Goexit, too. Its error is [Sound].
func Apart(f func() error) error { return <-Start(f) }

// Start begins [Apart], and returns where its error will be.
func Start(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		err := error(&Panic{Exited: true, Text: Exited}) // used if the text of the panic's value ends the goroutine
		defer func() { ended <- err }()
		call(func() error { return Sound(f()) }, &err)
	}()
	return ended
}

func call(f func() error, err *error) {
	returned := false
	defer func() {
		if !returned {
			*err = Caught(recover())
		}
	}()
	*err = f()
	returned = true
}

// Exited is the text of a [Panic] that was none.
const Exited = "the code ended its goroutine by runtime.Goexit, as a test's FailNow does; return an error instead"

// own is the prefix of the names of this package's functions.
const own = "github.com/millrace-go/millrace/internal/contain."

// Caught makes the error of what recover has returned. It is for a deferred function that knows that a call hasn't
// returned: Caught(recover()). After runtime.Goexit the goroutine ends nonetheless.
func Caught(v any) *Panic {
	p := &Panic{Value: v}
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	blamed := false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case !blamed && (f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit"):
			blamed = true // the frames above are those of deferred functions
			p.Exited = f.Function == "runtime.Goexit"
		case f.Function == "runtime.gopanic", f.Function == "runtime.Goexit": // a panic of a deferred function began above
		case blamed && strings.HasPrefix(f.Function, own):
			more = false
		case blamed && !strings.HasPrefix(f.Function, "runtime."):
			p.Frames = append(p.Frames, f)
		}
	}
	if p.Text = Exited; !p.Exited {
		p.Text = "panic: " + Text(v)
	}
	return p
}
