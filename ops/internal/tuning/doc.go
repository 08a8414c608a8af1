// Package tuning helps operators with settings: it finds the settings that they mean, reads the values that they type,
// and says in words how changes go. Package settings decides what becomes of a change, and acts ask for one.
//
// A text in the form of a secret's reference is one, or is refused: it may be misspelt, and perhaps no program runs
// that knows better.
//
//	find.go      which settings are meant
//	value.go     PATH=VALUE
//	words.go     how a change goes, and how it has ended
//	restarts.go  which programs wait for their restart
package tuning
