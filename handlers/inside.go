package handlers

import (
	"reflect"

	"github.com/millrace-go/millrace/internal/wire"
)

// Refuse adds a fault to those that [Registry.Err] reports. It is for this module's own packages, as is [Kept].
func (r *Registry) Refuse(_ wire.Inside, err error) { r.faults = append(r.faults, err) }

// Kept returns what a package keeps with a registry: one T for each registry, which create makes at the first call.
func Kept[T any](_ wire.Inside, r *Registry, create func() *T) *T {
	key := reflect.TypeFor[T]()
	if kept, ok := r.kept[key].(*T); ok {
		return kept
	}
	kept := create()
	r.kept[key] = kept
	return kept
}
