//go:build !linux

package sqlite

import "time"

// bootName and monotonic report that there is no clock that all processes of a boot share.
func bootName() string { return "" }

func monotonic() (at time.Duration, ok bool) { return 0, false }
