//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package signal_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

// A listener stands still, and signals to one go to the other. A broadcast counts those that answer.
func TestAStoppedListenerIsPassedOver(t *testing.T) {
	places(t, func(t *testing.T, place string, s *storage.Store) {
		a, b := start(t, place), start(t, place)
		sendAll(t, s, "events.first") // a process that has never answered would count as one that can't be reached
		for _, l := range []*agreetest.Process{a, b} {
			if got := l.Read(); got != "events.first " {
				t.Errorf("got %q", got)
			}
		}
		a.Signal(syscall.SIGSTOP)
		if _, err := syscall.Wait4(a.ID(), nil, syscall.WUNTRACED, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			sendOne(t, s, "events.new", fmt.Sprint(i))
			if got, want := b.Read(), fmt.Sprint("events.new ", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if n := sendAll(t, s, "events.all"); n > 1 {
			t.Errorf("%d took it; one of two stands still", n)
		}
		if got := b.Read(); got != "events.all " {
			t.Errorf("got %q", got)
		}
		a.Signal(syscall.SIGCONT)
		sendAll(t, s, "events.end")
		line := a.Read()
		if line == "events.all " { // it is heard, and wasn't counted: at least n took it
			line = a.Read()
		}
		if line != "events.end " {
			t.Errorf("the stopped one said %q", line)
		}
	})
}
