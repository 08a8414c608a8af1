//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package peers

import "os"

const canLock = false

func lock(*os.File) bool { return false }
