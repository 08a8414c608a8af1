// Package instances finds the instances of plans that an operator means, and the step of an instance. Acts decide what
// becomes of the instances.
//
// An operator names an instance by its ID, and also its plan if several plans have the ID. A step is named by its line
// or its name. If one step alone is stuck, the step needs no name. A Selection means many instances.
//
//	find.go    an instance and its plan
//	step.go    a step
//	select.go  Selection
package instances
