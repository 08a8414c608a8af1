//go:build !linux

package sqlite

import "os"

func leadsElsewhere(path string, info os.FileInfo) bool { return otherFile(path, info) }

func isMounted(string) bool { return false }
