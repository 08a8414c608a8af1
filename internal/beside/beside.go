// Package beside opens files that a program keeps beside a file of its user's. Root may be at work there, in a folder
// where other users can put links. So no link is followed, and the files that root makes are given to the owner of the
// user's file.
package beside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Open opens a file for reading and writing, and makes it if it isn't there. of is the file whose owner gets it.
func Open(path, of string) (*os.File, error) {
	f, err := openIn(path, func(root *os.Root, name string) (*os.File, error) {
		for {
			f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if !errors.Is(err, fs.ErrExist) {
				return f, err
			}
			if f, err = existing(root, name, os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := give(f, of); err != nil {
		return nil, errors.Join(advise(err), f.Close())
	}
	return f, nil
}

// Read returns what is in a file.
func Read(path string) ([]byte, error) {
	f, err := openIn(path, func(root *os.Root, name string) (*os.File, error) { return existing(root, name, os.O_RDONLY) })
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// Replace writes a file anew. After a crash the file is the old one or the new one. of is the file whose owner gets it.
// A link at its place is replaced, too.
func Replace(path, of string, data []byte) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name := filepath.Base(path)
	temporary := name + "." + strconv.FormatUint(rand.Uint64(), 36)
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return advise(err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(give(f, of), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openIn opens a file by the root of its folder.
func openIn(path string, open func(root *os.Root, name string) (*os.File, error)) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := open(root, filepath.Base(path))
	return f, advise(err)
}

// existing opens a file that is there. It must be a regular file that has this one name.
func existing(root *os.Root, name string, flags int) (*os.File, error) {
	there, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !there.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a link, or something else that is no file, and nobody follows it: see who has put it there, and remove it", name)
	}
	f, err := root.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err
	}
	here, err := f.Stat()
	if err == nil && (!os.SameFile(there, here) || names(here) > 1) {
		err = fmt.Errorf("%s was just replaced, or has a second name (a hard link): see who does that, and remove it", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// advise adds to an error what to do against it.
func advise(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: give it to the user of the program that needs it (chown), or remove it while no such program runs; root may have made it", err)
	}
	return err
}

// give gives a file of root's to the owner of another file, if root is at work.
func give(f *os.File, of string) error {
	here, err := f.Stat()
	if err != nil {
		return err
	}
	if uid, gid, ok := Owner(here, of); ok {
		return f.Chown(uid, gid)
	}
	return nil
}

// Owner returns the user and group that a file of root's must be given to: those of another file, as SQLite does with
// its -wal and -shm, because the programs run as that user. ok is false where nothing is to be given: this process
// isn't root, the file is not root's, or the other one isn't there.
func Owner(here fs.FileInfo, of string) (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	its, err := os.Stat(of)
	if err != nil {
		return 0, 0, false
	}
	uid, gid = owner(its)
	hereUID, hereGID := owner(here)
	return uid, gid, hereUID == 0 && (uid != 0 || gid != hereGID)
}
