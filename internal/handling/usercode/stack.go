package usercode

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// Do calls the user's code on this goroutine. A panic becomes a [verdict.PanicError].
func Do(f func() error) error {
	err := contain.Call(f)
	if p, ok := err.(*contain.Panic); ok {
		return newPanicError(p)
	}
	return err
}

// Names of functions that call the user's code begin so: of package handling, of packages below it, and of package
// handlers.
const (
	own  = "github.com/millrace-go/millrace/internal/handling"
	edge = "github.com/millrace-go/millrace/handlers."
)

func callsUsers(function string) bool {
	for _, pkg := range []string{own + ".", own + "/usercode.", own + "/once.", edge} {
		if strings.HasPrefix(function, pkg) {
			return true
		}
	}
	return false
}

// newPanicError leaves out the frames of the functions that called the user's code.
func newPanicError(p *contain.Panic) *verdict.PanicError {
	stack := p.Frames
	for len(stack) > 1 && callsUsers(stack[len(stack)-1].Function) {
		stack = stack[:len(stack)-1]
	}
	return &verdict.PanicError{Text: p.Text, Stack: contain.Stack(stack)}
}

// Hang makes the error of a call that was given up. The dump is that of [AllStacks].
func (r *Run) Hang(what string, limit time.Duration, dump []byte) *verdict.HangError {
	return &verdict.HangError{What: what, Limit: limit, Stack: r.stack(dump), Ended: r.ended}
}

const maxDump = 16 << 20 // bounds the dump of all goroutines' stacks

// AllStacks returns the stacks of all goroutines.
func AllStacks() []byte {
	dump := make([]byte, 64<<10)
	n := runtime.Stack(dump, true)
	for n == len(dump) && n < maxDump {
		dump = make([]byte, 4*n)
		n = runtime.Stack(dump, true)
	}
	return dump[:n]
}

// stack returns where the user's code is that the run calls. The frames below are those of the functions through which
// the framework enters that code.
func (r *Run) stack(dump []byte) string {
	root := fmt.Sprintf("\n%s/usercode.(*Run).main(%p", own, r)
	for block := range strings.SplitSeq(string(dump), "\n\n") {
		frames, _, ours := strings.Cut(block, root)
		if !ours {
			continue
		}
		_, frames, _ = strings.Cut(frames, "\n") // the first line is the goroutine's state
		for _, entry := range []string{"/usercode.callUser", "/usercode.Guard[", ".(*Table).Resolve"} {
			frames, _, _ = strings.Cut(frames, "\n"+own+entry)
		}
		return frames
	}
	return ""
}
