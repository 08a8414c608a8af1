package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// A DB is an open database file: a connection that writes, and a few that read. Its errors have their kind, and a hint
// for the operator.
type DB struct {
	file    *file
	c       *Conn // the writer's, once there is one
	readers *readers
	writer  *writer // nil until Start

	ops     chan *Op
	closing chan struct{} // closed when Stop begins
	stopped chan struct{} // closed when the writer has ended
}

// Open opens a file with the newest schema. It makes the file and its folder where they are missing. A file of another
// program is refused, and stays as it is.
func Open(ctx context.Context, path string, schema Schema) (*DB, error) {
	c, f, err := openFile(ctx, path, schema)
	if err != nil {
		return nil, Classify(named(path, blame(path, err)))
	}
	return &DB{
		file:    f,
		c:       c,
		readers: newReaders(f),
		ops:     make(chan *Op, maxGroup),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}, nil
}

// Conn is the connection that writes. Until Start the caller may use it. Later only a Session and its ops may.
func (db *DB) Conn() *Conn { return db.c }

// Start starts the writer. With normal set no commit waits for the disk. Warnings go to log.
func (db *DB) Start(session Session, normal bool, log *slog.Logger) (err error) {
	db.writer, err = newWriter(db.file, db.c, db.ops, session, normal, log)
	if err != nil {
		return Classify(err)
	}
	go func() {
		defer close(db.stopped)
		db.writer.loop(db.closing)
	}()
	return nil
}

// Write hands an op to the writer and waits for its commit.
func (db *DB) Write(o *Op) error { return Classify(db.write(o)) }

func (db *DB) write(o *Op) error {
	if o.Ctx.Err() != nil {
		return context.Cause(o.Ctx)
	}
	o.done = make(chan error, 1)
	select {
	case <-db.closing:
		return errClosed
	default:
	}
	select {
	case db.ops <- o:
	case <-o.Ctx.Done():
		return context.Cause(o.Ctx)
	case <-db.closing:
		return errClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-o.Ctx.Done():
		o.leave()
		return context.Cause(o.Ctx)
	case <-db.stopped:
		// The op may have come in after the writer's last look.
		select {
		case err := <-o.done:
			return err
		default:
			return errClosed
		}
	}
}

// Read runs f with a connection that reads. f is run again when another process was in the way, so it must have no
// lasting effect before it succeeds. It sees all that was committed before it began.
func (db *DB) Read(ctx context.Context, f func(c *Conn) error) error {
	return Classify(db.readers.do(ctx, f))
}

// Stop ends the writer, once it has finished what it has taken, and the reads. It is called once, before Close.
func (db *DB) Stop() {
	close(db.closing)
	if db.writer != nil {
		<-db.stopped
	}
	db.readers.close()
}

// Close writes the log back into the file and closes it. It is called after Stop, or without Start. It returns the
// failure after which nothing was acknowledged any more, so that the program doesn't end as if all were well.
func (db *DB) Close() error {
	var err error
	if db.writer != nil {
		err = db.writer.close()
	}
	if db.file.checkNow() != nil {
		db.c.keepLog() // or Close would copy it
	}
	err = errors.Join(err, db.c.Close())
	return Classify(cmp.Or(db.file.disk.failure(), err))
}

// openFile makes the file and its folder where they are missing, and returns a connection to the newest schema.
func openFile(ctx context.Context, path string, schema Schema) (*Conn, *file, error) {
	info, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case isNew:
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, nil, fmt.Errorf("%w: can't make the folder: %w", driver.ErrUnavailable, err)
		}
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case info.IsDir():
		return nil, nil, fmt.Errorf("%w: it is a folder; want the path of a file in it", driver.ErrInvalid)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%w: it is not a regular file", driver.ErrInvalid)
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 && (isNew || info.Size() == 0) {
		return nil, nil, fmt.Errorf("%w: the file is not there or empty, but a log of one is, %s, and would be lost: put the file back beside it, or move the log away, and start again", driver.ErrUnavailable, driver.Quote(path+"-wal"))
	}
	c, err := Connect(path, ReadWrite)
	if err != nil {
		return nil, nil, err
	}
	f, err := newFile(path)
	if err == nil && isNew {
		// By name, not by a descriptor: closing a descriptor would drop the locks that another store in this process holds
		// on the file. SQLite gives the files beside it the same mode.
		err = os.Chmod(path, 0o600)
	}
	// Before anything is read: a connection that can't write would leave behind the files that a read needs.
	if err == nil && c.readOnly() {
		err = &Error{Code: sqlite3.SQLITE_READONLY, Message: "the file is read-only"}
	}
	if err == nil {
		err = schema.prepare(ctx, c)
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	c.disk = &f.disk // not before: a file of another program isn't damaged
	return c, f, nil
}

// blame says why SQLite couldn't write when it is the folder's fault. SQLite itself tries to open for reading what it
// can't open for writing, and reports how that went.
func blame(path string, err error) error {
	e := asError(err)
	if e == nil || e.primary() != sqlite3.SQLITE_CANTOPEN && e.primary() != sqlite3.SQLITE_READONLY {
		return err
	}
	f, probed := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-probe-*")
	if probed == nil {
		f.Close()
		os.Remove(f.Name())
		return err
	}
	if pe, ok := errors.AsType[*fs.PathError](probed); ok {
		probed = pe.Err // without the probe's name
	}
	return fmt.Errorf("%w: can't make files in the folder, as the database must: %w", driver.ErrUnavailable, probed)
}
