package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

const lastTime = 1<<48 - 1 // milliseconds that a UUIDv7 can carry

// NewID returns a new UUIDv7.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// IDAt returns a new UUIDv7 that carries the milliseconds of a time. A time that no UUIDv7 can carry becomes the
// nearest one that it can.
func IDAt(t time.Time) string {
	u := uuid.Must(uuid.NewRandom())
	setTime(&u, t)
	return u.String()
}

// setTime makes a UUID a UUIDv7 of a time.
func setTime(u *uuid.UUID, t time.Time) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(0, min(t.UnixMilli(), lastTime))))
	copy(u[:6], ms[2:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
}

// IDTime returns the time that an ID carries: the milliseconds of a UUIDv7 in its canonical lower-case form.
// Any other ID is an idempotency key and carries none.
func IDTime(id string) (t time.Time, ok bool) {
	if len(id) != 36 || id[14] != '7' || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return time.Time{}, false
	}
	var ms int64
	for i := range 36 {
		c := id[i]
		var v int64
		switch {
		case c >= '0' && c <= '9':
			v = int64(c - '0')
		case c >= 'a' && c <= 'f':
			v = int64(c-'a') + 10
		case i == 8 || i == 13 || i == 18 || i == 23:
			continue
		default:
			return time.Time{}, false
		}
		if i < 13 {
			ms = ms<<4 | v
		}
		if i == 19 && v>>2 != 0b10 { // the variant of RFC 9562
			return time.Time{}, false
		}
	}
	return time.UnixMilli(ms), true
}

// DerivedID returns the ID of a message that follows from another one; see channel.DerivedID.
func DerivedID(parent string, parts ...string) string {
	t, timed := IDTime(parent)
	return derive(parent, t, timed, parts...)
}

// DerivedAt returns a UUIDv7 of a time. It is a pure function of the time's milliseconds and of parts.
func DerivedAt(t time.Time, parts ...string) string { return derive("", t, true, parts...) }

// derive returns a pure function of the parent's ID and the parts: a UUIDv7 of a time, or a UUIDv8 without one.
func derive(parent string, t time.Time, timed bool, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{"millrace derived id", parent}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var u uuid.UUID
	copy(u[:], h.Sum(nil))
	if timed {
		setTime(&u, t)
		return u.String()
	}
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}
