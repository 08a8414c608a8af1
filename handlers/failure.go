package handlers

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// failure is a copy of an error that the user's code returned. The error's methods are called once, where a panic in
// them (of a nil pointer that became an error, say) harms nothing else. Later callers run none of the user's code.
type failure struct {
	text    string
	tree    []error // the error and all errors that it wraps
	verdict Verdict // without Err
}

func (f *failure) Error() string { return f.text }

// Is compares the errors without calling a method of the returned error.
func (f *failure) Is(target error) (is bool) {
	defer func() { _ = recover() }() // a comparison may panic
	for _, err := range f.tree {
		if err == target {
			return true
		}
	}
	return false
}

// As looks for an error of the target's type without calling a method of the returned error.
func (f *failure) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	for _, err := range f.tree {
		if reflect.TypeOf(err).AssignableTo(to.Type()) {
			to.Set(reflect.ValueOf(err))
			return true
		}
	}
	return false
}

// ErrorType names the type of the error, for traces.
func (f *failure) ErrorType() string {
	for _, err := range f.tree {
		if t := reflect.TypeOf(err).String(); t != "*fmt.wrapError" {
			return t
		}
	}
	return "error"
}

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
	f := &failure{text: textOf(err), tree: treeOf(err, nil), verdict: Verdict{Action: TryAgain}}
	if len(f.tree) < maxTree { // else it may wrap itself, and errors.As would never end
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

// maxTree bounds how many errors are copied of an error that wraps many, or itself.
const maxTree = 64

// treeOf appends an error and the errors that it wraps, until a method of one of them panics.
func treeOf(err error, tree []error) (all []error) {
	if err == nil || len(tree) >= maxTree {
		return tree
	}
	tree = append(tree, err)
	defer func() {
		if recover() != nil {
			all = tree
		}
	}()
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return treeOf(err.Unwrap(), tree)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			tree = treeOf(err, tree)
		}
	}
	return tree
}

// textOf is the text of an error, or of the value of a panic.
func textOf(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T whose text can't be had: its method panics", v)
			if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
				text = fmt.Sprintf("a nil %T, returned as an error that is not nil", v)
			}
		}
	}()
	switch v := v.(type) {
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprint(v)
}

// PanicError stands for a panic in a handler, or for a call of runtime.Goexit.
type PanicError struct {
	Text  string
	Stack string // of the user's code, without the framework's frames
}

func (e *PanicError) Error() string { return e.Text }

const exited = "the code ended its goroutine by runtime.Goexit, as a test's FailNow does; return an error instead"

// newPanicError makes the error of a recovered value, which is nil for runtime.Goexit. Call it in the deferred
// function.
func newPanicError(v any) *PanicError {
	if v == nil {
		return &PanicError{Text: exited, Stack: userStack()}
	}
	return &PanicError{Text: "panic: " + textOf(v), Stack: userStack()}
}

// caught turns a panic into an error when it is deferred.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = newPanicError(v)
	}
}

// own is the prefix of the names of this package's functions.
const own = "github.com/millrace-go/millrace/handlers."

// userStack is the stack of a panic, or of runtime.Goexit, that runs deferred functions. It begins at the line that
// panicked, and ends where the registry called the user's code.
func userStack() string {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var stack []runtime.Frame
	blamed := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == own+"callUser", f.Function == own+"(*Registry).Resolve":
			more = false
		case f.Function == "runtime.gopanic", f.Function == "runtime.Goexit":
			blamed = true // the frames above are those of deferred functions
		case blamed && !strings.HasPrefix(f.Function, "runtime."):
			stack = append(stack, f)
		}
		if !more {
			break
		}
	}
	for len(stack) > 1 && strings.HasPrefix(stack[len(stack)-1].Function, own) {
		stack = stack[:len(stack)-1]
	}
	var b strings.Builder
	for _, f := range stack {
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return b.String()
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
		for _, entry := range []string{"callUser(", "(*Registry).Resolve(", "Guard["} {
			frames, _, _ = strings.Cut(frames, "\n"+own+entry)
		}
		return frames
	}
	return ""
}
