package sqlite

import (
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// Error is a failure that SQLite reported: Code is its extended result code, Message its message, and Errno the
// operating system's error behind it, 0 if none is known. It is the cause in this driver's errors; reach it with
// errors.As.
//
//	Code    int
//	Message string
//	Errno   syscall.Errno // the operating system's error behind it, 0 if none is known
type Error = engine.Error

// fail is for errors that don't come through package storage: of opening and closing.
func fail(op, resource string, err error) error {
	return &driver.Error{Op: op, Resource: resource, Err: engine.Classify(err)}
}
