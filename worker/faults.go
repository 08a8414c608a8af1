package worker

import (
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// faults collects the faults of a configuration.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// number checks a number that must be positive. where names the queue, or is empty.
func (f *faults) number(where, name string, n int) {
	if n < 0 {
		f.add("%s%s is %d; want a positive number", where, name, n)
	}
}

// visibility checks a visibility. where names the queue, or is empty.
func (f *faults) visibility(where string, d time.Duration) {
	if d < storage.MinVisibility || d > storage.MaxVisibility {
		f.add("%sVisibility is %v; want %v to %v", where, d, storage.MinVisibility, storage.MaxVisibility)
	}
}

// duration checks a duration. where names the queue, or is empty.
func (f *faults) duration(where, name string, d, least time.Duration) {
	if d < least {
		f.add("%s%s is %v; want at least %v", where, name, d, least)
	}
}
