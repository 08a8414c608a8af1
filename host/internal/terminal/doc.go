// Package terminal writes what acts tell: text for people, JSON lines for programs, a bar for work that takes long, and
// a screen for an act that has a terminal to itself. The package knows no act.
//
// # Laws
//
//   - No part of a message can move the cursor: what comes from outside is made clean before it is printed. A caller
//     cleans the lines of a Screen.
//   - A line of JSON is written at once, so its reader knows what is done even if the program is killed.
//   - A screen that is closed leaves the terminal as it was, and nothing is drawn on it afterwards.
//
// # Files
//
//	sink.go      Text and Lines, which are sinks of package act
//	output.go    the standard output below both
//	progress.go  the bar
//	screen.go    the screen
package terminal
