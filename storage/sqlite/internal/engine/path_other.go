//go:build !linux

package engine

import "os"

func leadsElsewhere(path string, info os.FileInfo) bool { return otherFile(path, info) }

func isMounted(string) bool { return false }
