package driver

import (
	"fmt"
	"time"
)

// Limits that hold for every driver, so that a program that runs on one runs on all. They are the narrowest of the
// engines foreseen (Azure Storage's, where nothing else is said).
const (
	MinVisibility = time.Second
	MaxVisibility = 7 * 24 * time.Hour
	MaxDelay      = 7*24*time.Hour - time.Second
	MaxKey        = 256 // bytes
	MaxBatchRows  = 100
	MaxBatchBytes = 2 << 20
)

// Quote makes untrusted text fit for an error or a log line: quoted, escaped, shortened.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}
