package handling

import "fmt"

// Faults are what is wrong with a registry. They are collected, so that a program learns of all of them at once.
type Faults struct{ all []error }

// Add adds a fault.
func (f *Faults) Add(err error) { f.all = append(f.all, err) }

func (f *Faults) addf(format string, args ...any) { f.Add(fmt.Errorf(format, args...)) }
