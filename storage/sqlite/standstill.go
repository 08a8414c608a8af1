package sqlite

import (
	"time"

	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// Standstill returns a function that looks for a process that keeps all others from writing to a file, such as one that
// was stopped within a transaction. It names the process that is in a transaction that writes, and says for how long
// that process has been seen there without writing. "" is none, and the answer on systems other than Linux. It doesn't
// open the file. One goroutine at a time may call the function.
func Standstill(path string) (look func() (process string, lasted time.Duration)) {
	return engine.NewStandstill(path).Look
}
