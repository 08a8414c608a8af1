package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// counting is an error that counts the calls of its methods.
type counting struct{ calls *int }

func (c counting) Error() string { *c.calls++; return "counted" }
func (c counting) Unwrap() error { *c.calls++; return os.ErrClosed }
func (c counting) Is(error) bool { *c.calls++; return false }
func (c counting) As(any) bool   { *c.calls++; return false }

// Handle's errors may be called often, and call the handler's own error no more. They still have its text and its
// wrapped errors.
func TestErrorsAreAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	calls := 0
	handlers.React(w.Registry, "audits", func(context.Context, Added) error {
		return fmt.Errorf("around: %w", errors.Join(io.EOF, counting{&calls}, handlers.Retry(time.Minute, os.ErrExist)))
	})
	worldtest.Send(w.World, Added{To: "ada"})
	err := w.one(t.Context(), "audits")
	before := calls
	if before == 0 {
		t.Error("its text was never asked")
	}
	if text := err.Error(); !strings.Contains(text, "counted") {
		t.Errorf("got text %q", text)
	}
	if v := verdict.Judge(err); v.Action != verdict.TryAgain || v.After != time.Minute || v.Err != err {
		t.Errorf("got %+v, want a retry after a minute", v)
	}
	for _, target := range []error{io.EOF, os.ErrClosed, os.ErrExist} {
		if !errors.Is(err, target) {
			t.Errorf("it isn't %v", target)
		}
	}
	if errors.Is(err, io.ErrShortWrite) {
		t.Error("it is an error that it doesn't wrap")
	}
	var retry *handlers.RetryError
	if !errors.As(err, &retry) || retry.After != time.Minute {
		t.Errorf("got %v, want the handler's own", retry)
	}
	if calls != before {
		t.Errorf("it was asked %d times after Handle had returned", calls-before)
	}
}

// Stacks hold the user's frames only.
func TestStacks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail  func()
		above []string // the functions at the beginning of the stack
	}{
		"panic":   {func() { panic("boom") }, []string{"TestStacks.func"}},
		"runtime": {func() { _ = []int{}[len(os.Args)] }, []string{"TestStacks.func"}},
		"nil":     {func() { _ = *(*int)(nil) }, []string{"TestStacks.func"}},
		"failnow": {func() { (&testing.T{}).FailNow() }, []string{"testing.(*common).FailNow", "TestStacks.func"}},
		"again": {func() {
			defer func() { panic(recover()) }()
			panic("boom")
		}, []string{"TestStacks.func"}},
	} {
		w := newWorld(t, handlers.Config{})
		handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, _ Add) (Account, []channel.Message, error) {
			test.fail()
			return a, nil, nil
		})
		worldtest.Send(w.World, Add{To: "ada"})
		var p *handlers.PanicError
		if err := w.one(t.Context(), "accounts"); !errors.As(err, &p) {
			t.Fatalf("%s: got %v, want a panic", name, err)
		}
		lines := strings.Split(p.Stack, "\n")
		for i, want := range test.above {
			if len(lines) <= 2*i || !strings.Contains(lines[2*i], want) {
				t.Errorf("%s: frame %d: want %s in\n%s", name, i, want, p.Stack)
			}
		}
		for _, no := range []string{"runtime.", "runtime/debug", "usercode.callUser", "handlers.Decide", "values.", "testing.tRunner"} {
			if strings.Contains(p.Stack, "\n"+no) || strings.HasPrefix(p.Stack, no) || strings.Contains(p.Stack, "millrace/"+no) {
				t.Errorf("%s: %s is in\n%s", name, no, p.Stack)
			}
		}
	}
}

// A handler that hangs is given up 10 seconds after its time is over. Its stack ends where the user's code returns.
func TestHangsAreGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		t.Cleanup(free)
		w := newWorld(t, handlers.Config{Timeout: time.Minute})
		handlers.React(w.Registry, "audits", func(context.Context, Added) error { <-release; return nil })
		handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, m Add) (Account, []channel.Message, error) {
			if m.Amount == 13 {
				<-release
			}
			return a.Add(m)
		}, Added{}, Refused{})
		worldtest.Send(w.World, Added{To: "ada"})
		began := time.Now()
		var h *verdict.HangError
		if err := w.one(t.Context(), "audits"); !errors.As(err, &h) || !strings.Contains(h.Stack, "TestHangsAreGivenUp") {
			t.Fatalf("react: got %v with stack %q, want that it hangs, and where", err, h.Stack)
		}
		if took := time.Since(began); took != 70*time.Second {
			t.Errorf("react: given up after %v, want 70 s", took)
		}
		worldtest.Send(w.World, Add{To: "ada", Amount: 1}, Add{To: "ada", Amount: 13}, Add{To: "ada", Amount: 2})
		began = time.Now()
		others := w.receive("accounts")
		bad := slices.IndexFunc(others, func(d *handlers.Delivery) bool { return d.Message.(Add).Amount == 13 })
		for d, err := range w.handle(t.Context(), others...) {
			switch v := verdict.Judge(err); {
			case d == others[bad] && !errors.As(err, &h):
				t.Errorf("decide: got error %v, want that it hangs", err)
			case d != others[bad] && v.Action != verdict.HandBack:
				t.Errorf("decide: another of the batch: got %+v, want it to be handed back", v)
			}
		}
		if took := time.Since(began); took < 70*time.Second || took > 81*time.Second {
			t.Errorf("decide: given up after %v, want some 70 s", took)
		}
		others = slices.Delete(others, bad, bad+1)
		for _, err := range w.handle(t.Context(), others...) {
			if err != nil {
				t.Errorf("another of the batch, the next time: %v", err)
			}
		}
		if got := w.Balance("ada"); got != 3 {
			t.Errorf("got balance %d, want that of the others, 3", got)
		}
		select {
		case <-h.Ended:
			t.Error("it has ended already")
		default:
		}
		free()
		<-h.Ended
		if got := w.Balance("ada"); got != 3 {
			t.Errorf("got balance %d after it had ended, want 3", got)
		}
	})
}

// Of several hangs, each is reported with its own stack.
func TestEachHangHasItsOwnStack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		w := newWorld(t, handlers.Config{Timeout: time.Minute})
		handlers.React(w.Registry, "audits", func(ctx context.Context, m Added) error {
			hangs := map[string]func(chan struct{}){"ada": hangHere, "bob": hangThere}[m.To]
			if m.To == "ada" {
				go func() { <-release }() // the handler's own goroutines are not the handler
			}
			hangs(release)
			return nil
		})
		for _, to := range []string{"ada", "bob", "ada", "bob"} {
			worldtest.Send(w.World, Added{To: to})
			here, there := "handlers_test.hangHere(", "handlers_test.hangThere("
			if to == "bob" {
				here, there = there, here
			}
			var h *verdict.HangError
			ds := w.receive("audits")
			if err := w.handle(t.Context(), ds[0])[ds[0]]; !errors.As(err, &h) {
				t.Fatalf("got error %v, want that it hangs", err)
			}
			if err := w.Store.Queue("audits").Delete(t.Context(), []storage.Receipt{w.claims[ds[0]].Receipt}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(h.Stack, here) || strings.Contains(h.Stack, there) || strings.Contains(h.Stack, "usercode.callUser") {
				t.Errorf("message for %s: got stack\n%s\nwant one with %s alone", to, h.Stack, here)
			}
		}
	})
}

func hangHere(release chan struct{})  { <-release }
func hangThere(release chan struct{}) { <-release }

// round is an error that wraps itself.
type round struct{}

func (round) Error() string   { return "round and round" }
func (r round) Unwrap() error { return r }

// An error that wraps itself is a failed attempt. It is not searched for ever.
func TestErrorThatWrapsItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.React(w.Registry, "audits", func(context.Context, Added) error { return round{} })
	worldtest.Send(w.World, Added{To: "ada"})
	err := w.one(t.Context(), "audits")
	if v := verdict.Judge(err); v.Action != verdict.TryAgain || errors.Is(err, io.EOF) || err.Error() != "round and round" {
		t.Errorf("got %+v of %v, want another attempt", v, err)
	}
}
