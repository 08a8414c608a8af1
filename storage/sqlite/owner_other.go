//go:build !unix

package sqlite

import "io/fs"

func owner(fs.FileInfo) (uid, gid int) { return 0, 0 }

func countLinks(fs.FileInfo) uint64 { return 1 }
