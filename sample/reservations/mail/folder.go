package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
)

// Folder writes each mail as an .eml file, which mail programs can open.
type Folder struct {
	dir string
}

const (
	unfinished = ".writing-*"
	abandoned  = time.Hour // since the last write, long after its writer has ended
)

// NewFolder returns a mailer that writes into dir. The first mail makes the folder. NewFolder removes half-written
// files that crashes have left there.
func NewFolder(dir string) *Folder {
	left, _ := fs.Glob(os.DirFS(dir), unfinished) // fails for a malformed pattern only
	for _, name := range left {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(path) // a file that stays only takes space
		}
	}
	return &Folder{dir: dir}
}

// Send implements reservations.Mailer. The file is there either complete or not at all, even after a power failure.
func (f *Folder) Send(ctx context.Context, m reservations.Mail) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	msg, id, err := compose(DefaultFrom, m)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return fmt.Errorf("mail: encode: %w", err)
	}
	if err := f.write(id+".eml", b.Bytes()); err != nil {
		return fmt.Errorf("mail: write to folder: %w", err)
	}
	return nil
}

func (f *Folder) write(name string, body []byte) (err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	// Each call has a temporary file of its own, because another process may be writing the same mail.
	tmp, err := os.CreateTemp(f.dir, unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()           // closed already if Close or Rename failed
			_ = os.Remove(tmp.Name()) // a file that stays is removed at a later start
		}
	}()
	if _, err := tmp.Write(body); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), filepath.Join(f.dir, name)); err != nil {
		return err
	}
	return syncDir(f.dir)
}

// syncDir makes a rename survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
