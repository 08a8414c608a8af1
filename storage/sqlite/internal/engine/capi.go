package engine

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Only this file touches SQLite's C interface, which modernc.org/sqlite/lib has in pure Go. The package uses it
// directly because database/sql's interface costs a quarter of the time of a small statement, and an allocation for
// each value bound or read. Besides, package modernc.org/sqlite registers a driver for the whole program.

// Error is a failure that SQLite reported: its extended result code and its message.
type Error struct {
	Code    int
	Message string
	Errno   syscall.Errno // the operating system's error behind it, 0 if none is known
}

// Public implements driver.PublicError.
func (e *Error) Public() string { return e.Message }

func (e *Error) Error() string {
	if e.Errno != 0 {
		return fmt.Sprintf("sqlite: %s (code %d): %v", e.Message, e.Code, e.Errno)
	}
	return fmt.Sprintf("sqlite: %s (code %d)", e.Message, e.Code)
}

// Is matches the operating system's error.
func (e *Error) Is(target error) bool { return e.Errno != 0 && error(e.Errno) == target }

// primary returns the result code without its extension.
func (e *Error) primary() int { return e.Code & 0xff }

// diskFull reports that there is no room left.
func (e *Error) diskFull() bool {
	return e.primary() == sqlite3.SQLITE_FULL || e.Errno == syscall.ENOSPC || e.Errno == syscall.EDQUOT
}

// at shows the value that the library keeps at an address. The library's memory isn't Go's: only the library moves or
// frees it.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// patchLibrary corrects the library for page sizes above 4 KiB on arm64; elsewhere it does nothing.
var patchLibrary sync.Once

// A Conn is one connection. One goroutine at a time may use it and its statements.
type Conn struct {
	tls   *libc.TLS
	db    uintptr
	word  uintptr // room for three results of the library
	disk  *disk   // remembers failures after which nothing may be acknowledged; nil beside any DB
	stmts map[string]*Stmt
}

// Modes of a connection. ReadWrite makes a missing file.
const (
	ReadOnly  Mode = sqlite3.SQLITE_OPEN_READONLY
	ReadWrite Mode = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE
)

// Mode says what a connection may do.
type Mode int32

// Connect opens a file beside any DB, as another program does. The name is a plain path, never a URI.
func Connect(path string, mode Mode) (*Conn, error) {
	patchLibrary.Do(sqlite3.PatchIssue199)
	c := &Conn{tls: libc.NewTLS(), stmts: map[string]*Stmt{}}
	c.word = libc.Xcalloc(c.tls, 3, 8)
	name, err := libc.CString(path)
	if err != nil {
		return nil, err
	}
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.word, int32(mode)|sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_EXRESCODE, 0)
	libc.Xfree(c.tls, name)
	c.db = *at[uintptr](c.word)
	if rc != sqlite3.SQLITE_OK {
		err := c.failure(rc)
		c.Close()
		return nil, err
	}
	// Without this, SQLite compiles a statement again whenever a bound value might change the plan: each claim, by its
	// time.
	c.set(sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG)
	return c, nil
}

// set turns a switch of the connection on.
func (c *Conn) set(option int32) {
	va := libc.NewVaList(int32(1), uintptr(0))
	sqlite3.Xsqlite3_db_config(c.tls, c.db, option, va)
	libc.Xfree(c.tls, va)
}

// keepLog makes Close leave the log as it is.
func (c *Conn) keepLog() { c.set(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE) }

// Close ends the connection. The last one to a file writes the log back and removes it.
func (c *Conn) Close() error {
	for _, s := range c.stmts {
		s.finalize()
	}
	var err error
	if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
		err = c.failure(rc)
	}
	libc.Xfree(c.tls, c.word)
	c.tls.Close()
	return err
}

// failure is the error of a call of the library that failed. Every one comes by here.
func (c *Conn) failure(rc int32) error { return c.disk.saw(c.lastError(rc)) }

func (c *Conn) lastError(rc int32) error {
	e := &Error{Code: int(rc)}
	if c.db == 0 {
		e.Message = libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
		return e
	}
	e.Message = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
	switch e.primary() {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL:
		e.Errno = syscall.Errno(sqlite3.Xsqlite3_system_errno(c.tls, c.db))
	}
	return e
}

// InTransaction reports whether a transaction is open. Some errors end it.
func (c *Conn) InTransaction() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// LastID is the id of the last row that was inserted.
func (c *Conn) LastID() int64 { return sqlite3.Xsqlite3_last_insert_rowid(c.tls, c.db) }

// Changes tells how many rows the last INSERT, UPDATE or DELETE touched.
func (c *Conn) Changes() int { return int(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

// FilePath is the path of the file, absolute and without links.
func (c *Conn) FilePath() string {
	return libc.GoString(sqlite3.Xsqlite3_db_filename(c.tls, c.db, 0))
}

// LogPath is the path of its log.
func (c *Conn) LogPath() string {
	return libc.GoString(sqlite3.Xsqlite3_filename_wal(c.tls, sqlite3.Xsqlite3_db_filename(c.tls, c.db, 0)))
}

// readOnly reports that the file could be opened for reading only.
func (c *Conn) readOnly() bool {
	return sqlite3.Xsqlite3_db_readonly(c.tls, c.db, 0) == 1
}

// pagesWritten tells how many pages this connection has written since the last call.
func (c *Conn) pagesWritten() int {
	sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, c.word, c.word+8, 1)
	return int(*at[int32](c.word))
}

// noteLogPages has logPages know how long the log is.
func (c *Conn) noteLogPages() {
	note := noteLog
	sqlite3.Xsqlite3_wal_hook(c.tls, c.db, *(*uintptr)(unsafe.Pointer(&note)), c.word+16)
}

func noteLog(_ *libc.TLS, to, _, _ uintptr, pages int32) int32 {
	*at[int32](to) = pages
	return sqlite3.SQLITE_OK
}

// logPages tells how many pages the log had when this connection last wrote to it, those of other connections included.
func (c *Conn) logPages() int64 { return int64(*at[int32](c.word + 16)) }

// Exec runs statements once, one after the other.
func (c *Conn) Exec(sqls ...string) error {
	for _, sql := range sqls {
		s, err := c.prepare(sql, 0)
		if err != nil {
			return err
		}
		err = s.Run()
		s.finalize()
		if err != nil {
			return err
		}
	}
	return nil
}

// One runs a statement once and returns the first column of its first row, empty when there is none.
func (c *Conn) One(sql string) (string, error) {
	s, err := c.prepare(sql, 0)
	if err != nil {
		return "", err
	}
	defer s.finalize()
	if row, err := s.Step(); !row {
		return "", err
	}
	return s.ColText(0), nil
}

// OneInt is One for a number.
func (c *Conn) OneInt(sql string) (int64, error) {
	s, err := c.prepare(sql, 0)
	if err != nil {
		return 0, err
	}
	defer s.finalize()
	if row, err := s.Step(); !row {
		return 0, err
	}
	return s.ColInt(0), nil
}

// A Stmt is a prepared statement. Bind all parameters (counted from 1), then step until it returns false. The next
// Step reports an error of binding.
type Stmt struct {
	c    *Conn
	p    uintptr
	bufs []cbuf // by parameter, of texts and blobs
	big  bool   // some buf is larger than is kept
	err  error
}

// A cbuf is memory of the library for one parameter. It is kept from call to call: SQLite reads it in place, and Go
// memory must not be shown to the library.
type cbuf struct {
	p    uintptr
	size int
}

const keepBuf = 64 << 10

// Stmt returns the statement, prepared at its first use and kept as long as the connection.
func (c *Conn) Stmt(sql string) *Stmt {
	if s := c.stmts[sql]; s != nil {
		return s
	}
	s, err := c.prepare(sql, sqlite3.SQLITE_PREPARE_PERSISTENT)
	if err != nil {
		return &Stmt{c: c, err: err}
	}
	c.stmts[sql] = s
	return s
}

// prepare compiles a statement. A statement that will be kept has the flag PERSISTENT. Without the flag it compiles a
// quarter faster, in memory that the connection keeps for short uses.
func (c *Conn) prepare(sql string, flags uint32) (*Stmt, error) {
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	if rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, flags, c.word, 0); rc != sqlite3.SQLITE_OK {
		return nil, c.failure(rc)
	}
	return &Stmt{c: c, p: *at[uintptr](c.word)}, nil
}

func (s *Stmt) finalize() {
	sqlite3.Xsqlite3_finalize(s.c.tls, s.p)
	for _, b := range s.bufs {
		libc.Xfree(s.c.tls, b.p)
	}
	s.p, s.bufs = 0, nil
}

func (s *Stmt) bound(rc int32) *Stmt {
	if rc != sqlite3.SQLITE_OK && s.err == nil {
		s.err = s.c.failure(rc)
	}
	return s
}

// Int, Blob and Text bind a parameter. They copy the value.
func (s *Stmt) Int(i int, v int64) *Stmt {
	if s.p == 0 {
		return s
	}
	return s.bound(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), v))
}

func (s *Stmt) Blob(i int, v []byte) *Stmt {
	p, ok := s.buf(i, len(v))
	if !ok {
		return s
	}
	copy(libc.GoBytes(p, len(v)), v)
	return s.bound(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC))
}

func (s *Stmt) Text(i int, v string) *Stmt {
	p, ok := s.buf(i, len(v))
	if !ok {
		return s
	}
	copy(libc.GoBytes(p, len(v)), v)
	return s.bound(sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC))
}

// buf returns memory for n bytes of parameter i.
func (s *Stmt) buf(i, n int) (p uintptr, ok bool) {
	if s.p == 0 {
		return 0, false
	}
	for len(s.bufs) <= i {
		s.bufs = append(s.bufs, cbuf{})
	}
	b := &s.bufs[i]
	if b.p == 0 || b.size < n {
		libc.Xfree(s.c.tls, b.p)
		size := n
		if n < keepBuf {
			size = max(64, n+n/4)
		}
		b.p = libc.Xmalloc(s.c.tls, libc.Tsize_t(size))
		if b.p == 0 {
			b.size = 0
			s.bound(sqlite3.SQLITE_NOMEM)
			return 0, false
		}
		b.size = size
		s.big = s.big || size > keepBuf
	}
	return b.p, true
}

// Step runs the statement to its next row. When there is none, and after an error, the statement can be bound again.
func (s *Stmt) Step() (row bool, err error) {
	if s.err != nil {
		err := s.err
		s.Reset()
		return false, err
	}
	switch rc := sqlite3.Xsqlite3_step(s.c.tls, s.p); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
	default:
		err = s.c.failure(rc)
	}
	s.Reset()
	return false, err
}

// Run runs the statement to its end.
func (s *Stmt) Run() error {
	for {
		if row, err := s.Step(); !row {
			return err
		}
	}
}

// Reset gives up the rows that are left.
func (s *Stmt) Reset() {
	if s.p == 0 {
		return
	}
	s.err = nil
	sqlite3.Xsqlite3_reset(s.c.tls, s.p)
	if s.big {
		for i, b := range s.bufs {
			if b.size > keepBuf {
				sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, int32(i))
				libc.Xfree(s.c.tls, b.p)
				s.bufs[i] = cbuf{}
			}
		}
		s.big = false
	}
}

// ColInt, ColText and ColBytes read a column (counted from 0) of the row; NULL is 0 or empty.
func (s *Stmt) ColInt(i int) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, int32(i)) }

func (s *Stmt) ColText(i int) string { return string(s.col(i)) }

// ColBytes returns a copy.
func (s *Stmt) ColBytes(i int) []byte {
	v := s.col(i)
	return append(make([]byte, 0, len(v)), v...)
}

// col returns a column's bytes in the library's memory, valid until the next step.
func (s *Stmt) col(i int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	if p == 0 || n == 0 {
		return nil
	}
	return libc.GoBytes(p, int(n))
}
