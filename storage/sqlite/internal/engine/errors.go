package engine

import (
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

var errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)

// Classify gives SQLite's failures their kind, and a hint for the operator where there is one. Any other error stays
// as it is.
func Classify(err error) error {
	e := asError(err)
	if e == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) {
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
		hint = damaged
	}
	if hint == "" {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, hint, err)
}

const damaged = "the file is damaged: stop every program that uses it, restore it from a backup, see that no old -wal and -shm lie beside it, and start again"

// asError returns the failure of SQLite's in an error, or nil. Without an error it allocates nothing: every call ends
// here.
func asError(err error) *Error {
	if err == nil {
		return nil
	}
	e, _ := errors.AsType[*Error](err)
	return e
}

// busy reports that another connection is in the way, usually for a moment.
func busy(err error) bool {
	e := asError(err)
	return e != nil && (e.primary() == sqlite3.SQLITE_BUSY || e.primary() == sqlite3.SQLITE_PROTOCOL)
}

// Fatal reports an error after which nothing is acknowledged any more.
func (e *Error) Fatal() bool { return e.failedSync() || e.foundDamage() }

// failedSync reports that SQLite could not sync the file or the log.
func (e *Error) failedSync() bool {
	return e.Code == sqlite3.SQLITE_IOERR_FSYNC || e.Code == sqlite3.SQLITE_IOERR_DIR_FSYNC
}

// foundDamage reports that SQLite has found the file or the log to be another than it wrote. A short read is one of
// pages that were in the log.
func (e *Error) foundDamage() bool {
	switch e.Code {
	case sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS:
		return true
	}
	return e.primary() == sqlite3.SQLITE_CORRUPT || e.primary() == sqlite3.SQLITE_NOTADB
}
