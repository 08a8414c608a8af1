//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package flock

import "os"

// Works reports that Lock can be relied on: it can't here.
const Works = false

// Lock locks nothing, and reports that.
func Lock(*os.File) bool { return false }
