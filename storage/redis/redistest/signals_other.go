//go:build !unix

package redistest

import "os"

// stallSignals are signals that no process gets: Redis doesn't run on such systems.
func stallSignals() (stop, goOn os.Signal) { return os.Interrupt, os.Interrupt }
