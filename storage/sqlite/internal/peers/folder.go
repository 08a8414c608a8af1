package peers

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/internal/beside"
)

// A folder is PATH-wake, the folder beside the database. Everything in it is a hint. So a failure there is no call's
// error: it is logged, once.
//
// It is opened by an os.Root each time, because root may be at work where other users can put links.
type folder struct {
	db   string
	path string
	log  *slog.Logger
	once sync.Once // of warn
}

func newFolder(db string, log *slog.Logger) *folder {
	return &folder{db: db, path: db + "-wake", log: log}
}

// open opens the folder. With create set it makes a missing folder.
func (d *folder) open(create bool) (*os.Root, error) {
	parent, err := os.OpenRoot(filepath.Dir(d.db))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := filepath.Base(d.path)
	root, err := openFolder(parent, name)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := parent.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if root, err = openFolder(parent, name); err == nil {
			d.adopt(root)
		}
	}
	return root, err
}

// openFolder opens a folder in another one. A link isn't followed, even one that leads to a folder beside it.
func openFolder(parent *os.Root, name string) (*os.Root, error) {
	there, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !there.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	here, err := root.Stat(".")
	if err == nil && !os.SameFile(there, here) {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR} // just replaced
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// in calls do with the folder, if that is there.
func (d *folder) in(do func(root *os.Root) error) error {
	root, err := d.open(false)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}

// remove removes a file from the folder.
func (d *folder) remove(name string) { d.in(func(root *os.Root) error { return root.Remove(name) }) }

// lost reports that a name leads to another file than once, or to none. With a nil info, any file will do. An error of
// any other kind, such as a shortage of descriptors, says nothing about that.
func (d *folder) lost(name string, info fs.FileInfo) bool {
	other := false
	err := d.in(func(root *os.Root) error {
		there, err := root.Lstat(name)
		other = err == nil && info != nil && !os.SameFile(there, info)
		return err
	})
	return other || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// adoptExisting gives root's files to the database's owner when root calls it. It also warns early that the folder
// can't be used.
func (d *folder) adoptExisting() {
	root, err := d.open(false)
	switch {
	case err == nil:
		d.adopt(root)
		root.Close()
	case !errors.Is(err, fs.ErrNotExist):
		d.warn(err)
	}
}

// create opens a file in the folder with flags. It makes the folder and the file where they are missing.
func (d *folder) create(name string, flags int) (*os.File, error) {
	root, err := d.open(true)
	if err != nil {
		d.warn(err)
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, flags|os.O_CREATE, 0o600)
	if err != nil {
		d.warn(err)
		return nil, err
	}
	if here, err := f.Stat(); err != nil {
		d.warn(err)
	} else if uid, gid, ok := beside.Owner(here, d.db); ok {
		d.warn(f.Chown(uid, gid))
	}
	return f, nil
}

// adopt gives a folder that belongs to root to the database's owner. Before the folder it gives away the files that
// other stores lock or connect to.
func (d *folder) adopt(root *os.Root) {
	if os.Geteuid() != 0 {
		return
	}
	f, err := root.Open(".")
	if err != nil {
		d.warn(err)
		return
	}
	defer f.Close()
	here, err := f.Stat()
	if err != nil {
		d.warn(err)
		return
	}
	uid, gid, ok := beside.Owner(here, d.db)
	if !ok {
		return
	}
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if strings.HasPrefix(name, presencePrefix) || strings.HasPrefix(name, socketPrefix) {
			err = errors.Join(err, root.Lchown(name, uid, gid))
		}
	}
	d.warn(errors.Join(err, f.Chown(uid, gid)))
}

// removeStaleSignals removes the signal files that crashed processes have left. Sockets are found dead when they are
// used.
func removeStaleSignals(root *os.Root) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		info, err := e.Info()
		keep := strings.HasPrefix(e.Name(), presencePrefix) || strings.HasPrefix(e.Name(), socketPrefix)
		if err == nil && time.Since(info.ModTime()) > signalStale && !keep {
			root.Remove(e.Name())
		}
	}
}

// warn logs the first error.
func (d *folder) warn(err error) {
	if err == nil || errors.Is(err, fs.ErrExist) {
		return
	}
	d.once.Do(func() {
		attrs := []any{"folder", d.path, "error", err}
		if errors.Is(err, fs.ErrPermission) {
			attrs = append(attrs, "fix", "give the folder and its files to the owner of the database file (chown -R), or remove it while no program has that "+
				"file open; then start this program again")
		}
		d.log.Warn("sqlite: can't use the folder beside the database: what other processes send is found by polling only, and the messages "+
			"that a killed process held come back only when their visibility ends", attrs...)
	})
}
