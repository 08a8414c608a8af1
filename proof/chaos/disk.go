package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A disk is the folder where the programs work: a small file system that can be filled, where this process may mount
// one.
type disk struct {
	dir     string
	mounted bool
}

// newDisk makes a disk of so many bytes. Without the right to mount, it is a folder that can't be filled, and why
// says so.
func newDisk(dir string, size int64) (d *disk, why error) {
	d = &disk{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	why = mountTmpfs(dir, fmt.Sprintf("size=%d,mode=0700", size))
	d.mounted = why == nil
	return d, why
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all free space, and what becomes free meanwhile, until the time is over or ctx ends. Then it frees the
// space.
func (d *disk) fill(ctx context.Context, lasts time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	file, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(d.ballast())) }()
	block := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n := len(block)
		for n > 0 { // down to the last bytes
			_, err := file.Write(block[:n])
			switch {
			case errors.Is(err, syscall.ENOSPC):
				n /= 2
			case err != nil:
				return err
			}
		}
		wait(ctx, 20*time.Millisecond)
	}
	return nil
}

func (d *disk) close() error {
	if !d.mounted {
		return nil
	}
	return unmount(d.dir)
}
