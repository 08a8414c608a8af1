package sqlite

import (
	"math/rand/v2"
	"strconv"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// puts are the statements that write a blob or a row: always, when there is none, and when its ETag is parameter 6.
// Each checks and writes in one, so a condition that doesn't hold has changed nothing. The other parameters are the
// same in all three.
type puts struct{ always, absent, match string }

// guarded writes and deletes blobs and rows under conditions.
type guarded struct {
	c     *engine.Conn
	names *foundNames
}

// put makes a write if the condition holds. bind binds its parameters, given a name's number and the new ETag.
func (g guarded) put(kind int64, name string, cond driver.Condition, sql puts, bind func(s *engine.Stmt, id, etag int64)) (driver.ETag, error) {
	old, ok := parseETag(cond.IfMatch)
	if !ok {
		return "", driver.ErrPrecondition
	}
	id, err := g.names.needFor(kind, name, cond)
	if err != nil {
		return "", err
	}
	s, failed := (*engine.Stmt)(nil), error(nil)
	switch {
	case cond.IfAbsent:
		s, failed = g.c.Stmt(sql.absent), driver.ErrExists
	case cond.IfMatch != "":
		s, failed = g.c.Stmt(sql.match).Int(6, old), driver.ErrPrecondition
	default:
		s = g.c.Stmt(sql.always)
	}
	etag := newETag()
	bind(s, id, etag)
	if err := s.Run(); err != nil {
		return "", err
	}
	if g.c.Changes() == 0 {
		return "", failed
	}
	return formatETag(etag), nil
}

// remove deletes a blob or a row if the condition holds. find reads its ETag, del deletes it, and bind binds the
// parameters of either.
func (g guarded) remove(kind int64, name string, cond driver.Condition, find, del string, bind func(s *engine.Stmt, id int64)) error {
	id, err := g.names.find(kind, name)
	if err != nil {
		return err
	}
	s := g.c.Stmt(find)
	bind(s, id)
	row, err := s.Step()
	if err != nil {
		return err
	}
	if !row {
		return driver.ErrNotFound
	}
	etag := formatETag(s.ColInt(0))
	s.Reset()
	if cond.IfMatch != "" && cond.IfMatch != etag {
		return driver.ErrPrecondition
	}
	s = g.c.Stmt(del)
	bind(s, id)
	return s.Run()
}

// newETag returns 64 random bits. A counter could repeat itself after a file was restored from a backup, while
// browsers keep documents by ETag.
func newETag() int64 { return int64(rand.Uint64()) }

func formatETag(e int64) driver.ETag {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[uint64(e)>>(60-4*i)&15]
	}
	return driver.ETag(b[:])
}

// parseETag reads an ETag. The empty ETag is v = 0. A text that formatETag doesn't make is not ok and matches
// nothing.
func parseETag(e driver.ETag) (v int64, ok bool) {
	if e == "" {
		return 0, true
	}
	u, err := strconv.ParseUint(string(e), 16, 64)
	return int64(u), err == nil && formatETag(int64(u)) == e
}
