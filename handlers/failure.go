package handlers

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
)

// failure is a copy of an error that the user's code returned. The error's methods are called once, where a panic in
// them (of a nil pointer that became an error, say) harms nothing else. Later callers run none of the user's code.
type failure struct {
	*contain.Copied
	verdict Verdict // without Err
}

// ErrorType names the type of the error, for traces.
func (f *failure) ErrorType() string { return f.Type() }

// settled returns an error that runs none of the user's code: nil, the error itself if it has one of this package's
// types, or a copy of it.
func settled(err error) error {
	switch err := err.(type) {
	case nil:
		return nil
	case *failure:
		return err
	case *PanicError:
		if err != nil {
			return err
		}
	case *HangError:
		if err != nil {
			return err
		}
	}
	f := &failure{contain.CopyOf(err), Verdict{Action: TryAgain}}
	if !f.Endless() { // else it may wrap itself, and errors.As would never end
		f.verdict = Judge(err)
	}
	f.verdict.Err = nil
	return f
}

// settledAll is settled for errors of the framework, which may wrap errors of the user's code.
func settledAll(outs []Outcome) {
	var open []*Outcome
	for i := range outs {
		switch outs[i].Err.(type) {
		case nil, *failure, *PanicError, *HangError:
		default:
			open = append(open, &outs[i])
		}
	}
	Guard("a method of an error", len(open), func(i int) error { return settled(open[i].Err) },
		func(i int, err error) { open[i].Err = err }, func(i int, err error) { open[i].Err = err })
}

// PanicError stands for a panic in a handler, or for a call of runtime.Goexit.
type PanicError struct {
	Text  string
	Stack string // of the user's code, without the framework's frames
}

func (e *PanicError) Error() string { return e.Text }

// contained calls the user's code. A panic becomes a [PanicError].
func contained(f func() error) error {
	err := contain.Call(f)
	if p, ok := err.(*contain.Panic); ok {
		return newPanicError(p)
	}
	return err
}

// own is the prefix of the names of this package's functions.
const own = "github.com/millrace-go/millrace/handlers."

// newPanicError leaves out the frames of this package that called the user's code.
func newPanicError(p *contain.Panic) *PanicError {
	stack := p.Frames
	for len(stack) > 1 && strings.HasPrefix(stack[len(stack)-1].Function, own) {
		stack = stack[:len(stack)-1]
	}
	return &PanicError{Text: p.Text, Stack: contain.Stack(stack)}
}

// HangError stands for a handler, or other code of the user, that didn't end. It was given up and runs on. If it is in
// a call of package guard that may not be made twice, its verdict is [Poison] with [ReasonOutcomeUnknown].
type HangError struct {
	What  string          // what hangs: "the handler", or code outside of it
	Limit time.Duration   // the time that it had
	Stack string          // where it is
	Ended <-chan struct{} // closed when it ends after all

	Unsure bool // it is in a call whose effect may have happened
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s hangs: it was to end within %v, and was given up %v later", e.What, e.Limit, giveUpAfter)
}

const theHandler = "the handler"

// hangs makes the error of a call that was given up. The dump is that of [allStacks].
func hangs(r *run, what string, limit time.Duration, dump []byte) *HangError {
	return &HangError{What: what, Limit: limit, Stack: r.stack(dump), Ended: r.ended}
}

const maxDump = 16 << 20 // bounds the dump of all goroutines' stacks

func allStacks() []byte {
	dump := make([]byte, 64<<10)
	n := runtime.Stack(dump, true)
	for n == len(dump) && n < maxDump {
		dump = make([]byte, 4*n)
		n = runtime.Stack(dump, true)
	}
	return dump[:n]
}

// stack returns where the user's code is that the run calls.
func (r *run) stack(dump []byte) string {
	root := fmt.Sprintf("\n%s(*run).main(%p", own, r)
	for block := range strings.SplitSeq(string(dump), "\n\n") {
		frames, _, ours := strings.Cut(block, root)
		if !ours {
			continue
		}
		_, frames, _ = strings.Cut(frames, "\n") // the first line is the goroutine's state
		for _, entry := range []string{"callUser", "(*Registry).Resolve", "Guard["} {
			frames, _, _ = strings.Cut(frames, "\n"+own+entry)
		}
		return frames
	}
	return ""
}
