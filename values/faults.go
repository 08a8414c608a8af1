package values

import (
	"errors"
	"slices"
	"sync"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// mostFaults bounds the collections whose faults a process remembers.
const mostFaults = 20

type faultsKey struct{}

// faults are those of the collections that a process has made of a store.
type faults struct {
	mu  sync.Mutex
	all []error
}

func faultsOf(store *storage.Store) *faults {
	return store.Memory(faultsKey{}, func() any { return new(faults) }).(*faults)
}

// note remembers what is wrong with a collection of a store, if anything is.
func note(store *storage.Store, err error) {
	if err == nil {
		return
	}
	f := faultsOf(store)
	f.mu.Lock()
	defer f.mu.Unlock()
	known := slices.ContainsFunc(f.all, func(x error) bool { return x.Error() == err.Error() })
	if !known && len(f.all) < mostFaults {
		f.all = append(f.all, err)
	}
}

// Faults is for this module's own packages: it reports what is wrong with the collections that this process has made of
// a store. A program that only reads a collection registers it nowhere, so nothing else says so when it starts.
func Faults(_ wire.Inside, store *storage.Store) error {
	f := faultsOf(store)
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}
