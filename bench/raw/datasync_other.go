//go:build !linux

package raw

import "os"

func datasync(f *os.File) error { return f.Sync() }
