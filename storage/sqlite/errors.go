package sqlite

import (
	"context"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage"
)

var errClosed = fmt.Errorf("%w: the store is closed", storage.ErrUnavailable)

// fail makes the error that leaves the driver. It gives SQLite's failures their kind, and a hint for whoever
// runs the program where there is one.
func fail(op, resource string, err error) error {
	return &storage.Error{Op: op, Resource: resource, Err: kinded(err)}
}

func kinded(err error) error {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrInvalid) {
		return err
	}
	hint := ""
	switch code := e.primary(); {
	case e.diskFull():
		hint = "the disk is full: make room; the store goes on by itself"
	case busy(err):
		hint = "another process holds the file: look for a database tool that has left a transaction open"
	case code == sqlite3.SQLITE_READONLY, code == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_PERM:
		hint = "the file, its folder and what is there of the file's -wal and -shm must be writable for this user"
	case code == sqlite3.SQLITE_CORRUPT, code == sqlite3.SQLITE_NOTADB:
		hint = "the file is damaged: restore it from a backup"
	}
	if hint == "" {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %s: %w", storage.ErrUnavailable, hint, err)
}

// done returns an error when ctx has ended.
func done(ctx context.Context, op, resource string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &storage.Error{Op: op, Resource: resource, Err: context.Cause(ctx)}
}

// busy reports that another connection is in the way, for a moment usually.
func busy(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.primary() == sqlite3.SQLITE_BUSY || e.primary() == sqlite3.SQLITE_PROTOCOL)
}
