// Package instances finds the instances of plans that an operator means, and the step of one. Acts decide what becomes
// of them.
//
// An operator names an instance by its ID alone, and its plan only where several plans have the ID. A step may be named
// by its line, by its name, or not at all where one step alone is stuck. A Selection means many instances.
//
//	find.go    an instance and its plan
//	step.go    a step
//	select.go  Selection
package instances
