package raw

import (
	"bytes"
	"os"
)

// A Disk is a file that is overwritten, block after block, each block synced by itself. No log of commits can be
// faster.
type Disk struct {
	file *os.File
	next int64
}

const (
	block  = 4 << 10
	blocks = 1024
)

var content = bytes.Repeat([]byte{7}, block)

// OpenDisk writes a file of 4 MiB.
func OpenDisk(path string) (*Disk, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err = file.Write(bytes.Repeat(content, blocks)); err == nil {
		err = file.Sync()
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Disk{file: file}, nil
}

// Overwrite overwrites 4 KiB and waits for the disk.
func (d *Disk) Overwrite() error {
	if _, err := d.file.WriteAt(content, d.next%blocks*block); err != nil {
		return err
	}
	d.next++
	return datasync(d.file)
}

// Close closes the file.
func (d *Disk) Close() error { return d.file.Close() }
