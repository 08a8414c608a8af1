package throttle_test

import (
	"errors"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
)

// At a level all is left out that is left out from it on, or from a lower one.
func TestLawALevelLeavesOutWhatItNames(t *testing.T) {
	t.Parallel()
	var l throttle.Level
	for level := range throttle.MostLevel + 1 {
		if err := l.Set(level); err != nil {
			t.Fatal(err)
		}
		for from := 1; from <= throttle.MostLevel; from++ {
			worldtest.Want(t, "off", l.Off(from), level >= from)
		}
		worldtest.Want(t, "level", l.Now(), level)
	}
}

// A bad level changes nothing. A watch sees each change, and nothing else.
func TestLevelWatch(t *testing.T) {
	t.Parallel()
	var l throttle.Level
	level, changed := l.Watch()
	worldtest.Want(t, "level", level, 0)
	for _, bad := range []int{-1, throttle.MostLevel + 1} {
		worldtest.Want(t, "a bad level is refused", errors.Is(l.Set(bad), storage.ErrInvalid), true)
	}
	if err := l.Set(0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("the watch was told of no change")
	default:
	}
	if err := l.Set(2); err != nil {
		t.Fatal(err)
	}
	<-changed
	level, _ = l.Watch()
	worldtest.Want(t, "level", level, 2)
}

func BenchmarkLevelOff(b *testing.B) {
	var l throttle.Level
	for b.Loop() {
		if l.Off(1) {
			b.Fatal("off at level 0")
		}
	}
}
