package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// applicationID marks a file as Millrace's, in its header ("Mill").
const applicationID = 0x4d696c6c

// migrations lead from one schema to the next. PRAGMA user_version counts those that were done. Append, never change:
// files with the older schemas exist.
//
//   - names gives queues, containers and tables a small number. Its rows stay for ever, so a number once read may be
//     kept.
//   - due holds what changes about a message, in the order in which a queue gives messages out. A claim is a new
//     place in it; the message's row, ten times as large, stays as it is. gen is 0 until the first claim. Each claim
//     draws a random gen; an extension or a rewrite adds one. So a place and a gen are a receipt, even though SQLite
//     may use an id again. held tells a received message from a delayed one.
//   - messages holds what stays. The time at which a message was sent is in both: Stats looks for the oldest by
//     either.
//   - clocks holds how far the file's time is ahead of the monotonic clock of a boot, and the latest time that was
//     written down (see clock). visible is by the file's time. sent and modified are by the wall clock, for people.
//   - rows are small and many, so they are one tree. Blobs are large, so their keys have a tree of their own, for a
//     quick listing.
var migrations = [...][]string{
	{
		`CREATE TABLE names (
			id   INTEGER PRIMARY KEY,
			kind INTEGER NOT NULL,
			name TEXT NOT NULL,
			UNIQUE (kind, name)
		) STRICT`,
		`CREATE TABLE messages (
			id         INTEGER PRIMARY KEY,
			queue      INTEGER NOT NULL,
			visible    INTEGER NOT NULL,
			held       INTEGER NOT NULL,
			gen        INTEGER NOT NULL,
			sent       INTEGER NOT NULL,
			deliveries INTEGER NOT NULL,
			body       BLOB NOT NULL
		) STRICT`,
		`CREATE INDEX messages_due ON messages (queue, visible, held, sent)`,
		`CREATE TABLE blobs (
			id        INTEGER PRIMARY KEY,
			container INTEGER NOT NULL,
			key       TEXT NOT NULL,
			etag      INTEGER NOT NULL,
			modified  INTEGER NOT NULL,
			body      BLOB NOT NULL,
			UNIQUE (container, key)
		) STRICT`,
		`CREATE TABLE rows (
			tbl       INTEGER NOT NULL,
			partition TEXT NOT NULL,
			key       TEXT NOT NULL,
			etag      INTEGER NOT NULL,
			data      BLOB NOT NULL,
			PRIMARY KEY (tbl, partition, key)
		) STRICT, WITHOUT ROWID`,
	},
	{ // before that, claims changed messages and its index
		`CREATE TABLE due (
			queue      INTEGER NOT NULL,
			visible    INTEGER NOT NULL,
			id         INTEGER NOT NULL,
			held       INTEGER NOT NULL,
			gen        INTEGER NOT NULL,
			sent       INTEGER NOT NULL,
			deliveries INTEGER NOT NULL,
			PRIMARY KEY (queue, visible, id)
		) STRICT, WITHOUT ROWID`,
		`INSERT INTO due SELECT queue, visible, id, held, gen, sent, deliveries FROM messages ORDER BY queue, visible, id`,
		`CREATE TABLE moved (
			id    INTEGER PRIMARY KEY,
			queue INTEGER NOT NULL,
			sent  INTEGER NOT NULL,
			body  BLOB NOT NULL
		) STRICT`,
		`INSERT INTO moved SELECT id, queue, sent, body FROM messages ORDER BY id`,
		`DROP TABLE messages`,
		`ALTER TABLE moved RENAME TO messages`,
	},
	{ // before that, the wall clock of the process that looked decided what is due
		`CREATE TABLE clocks (
			boot  TEXT PRIMARY KEY,
			ahead INTEGER NOT NULL,
			seen  INTEGER NOT NULL
		) STRICT, WITHOUT ROWID`,
	},
}

// lockWait is how long another process may lock the file before a call gives up.
const lockWait = 10 * time.Second

// patient repeats try while another connection is in the way. SQLite's own waiting begins at a millisecond and grows.
// That starves this process beside one that takes the lock again at once. A short pause of random length is fair to
// both. patient gives up after lockWait, or when gone returns an error.
func patient(gone func() error, try func() error) error {
	var begin time.Time
	for {
		err := try()
		if err == nil || !busy(err) {
			return err
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		if waited := time.Since(begin); waited > lockWait {
			return fmt.Errorf("%w (for %v)", err, waited.Round(time.Second))
		}
		if err := gone(); err != nil {
			return err
		}
		time.Sleep(50*time.Microsecond + rand.N(200*time.Microsecond))
	}
}

// cause is patient's gone for a single caller.
func cause(ctx context.Context) func() error {
	return func() error { return context.Cause(ctx) }
}

// version returns the schema's version of a file of this package, 0 when the file is empty.
func (c *conn) version() (int, error) {
	if !c.inTransaction() {
		// In one transaction, or another process's first opening may come in between.
		if err := c.exec("BEGIN"); err != nil {
			return 0, err
		}
		defer c.exec("ROLLBACK")
	}
	id, err := c.oneInt("PRAGMA application_id")
	if err != nil {
		return 0, notDatabase(err)
	}
	version, err := c.oneInt("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	tables, err := c.oneInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, fmt.Errorf("%w: the file is the database of another program; choose another path", driver.ErrInvalid)
	case version > int64(len(migrations)):
		return 0, fmt.Errorf("%w: the file has schema version %d and this program knows up to %d; start a newer program", driver.ErrUnsupported, version, len(migrations))
	case version < 1 || tables == 0:
		return 0, fmt.Errorf("%w: the file is marked as this program's but has no schema; restore it from a backup or choose another path", driver.ErrInvalid)
	}
	return int(version), nil
}

func notDatabase(err error) error {
	if e, ok := err.(*Error); ok && e.primary() == sqlite3.SQLITE_NOTADB {
		return fmt.Errorf("%w: the file is not an SQLite database; choose another path: %w", driver.ErrInvalid, err)
	}
	return err
}

// prepareFile refuses a file that isn't this package's, and brings any other to the newest schema. Several processes
// may do so at the same time.
func prepareFile(ctx context.Context, c *conn) error {
	version := 0
	err := patient(cause(ctx), func() (err error) {
		version, err = c.version()
		return err
	})
	if err != nil {
		return err
	}
	// A migration needs temporary storage, and there may be no other folder to write in.
	setup := []string{"PRAGMA synchronous = FULL", "PRAGMA temp_store = MEMORY"}
	if version == 0 {
		// The vacuum mode must be set before there is anything in the file; later it would write, for nothing. With it,
		// free pages can be given back in small steps. It costs 2 % of a write.
		setup = append(setup, "PRAGMA auto_vacuum = INCREMENTAL")
	}
	if err = patient(cause(ctx), func() error { return c.exec(setup...) }); err != nil {
		return err
	}
	var mode string
	err = patient(cause(ctx), func() (err error) {
		mode, err = c.one("PRAGMA journal_mode = WAL")
		return err
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: this file system can't share memory between processes (the journal mode stays %q); put the file on a local disk", driver.ErrUnsupported, mode)
	}
	if version == len(migrations) {
		return nil
	}
	if err := patient(cause(ctx), func() error { return c.exec("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	// Another process may have done it meanwhile.
	if version, err = c.version(); err != nil {
		c.exec("ROLLBACK") // the first error tells more
		return err
	}
	return c.upgrade(version)
}

// upgrade runs the migrations after version in the transaction that is open, and ends it.
func (c *conn) upgrade(version int) (err error) {
	defer func() {
		if err != nil && c.inTransaction() {
			c.exec("ROLLBACK") // the first error tells more
		}
	}()
	for _, m := range migrations[version:] {
		if err := c.exec(m...); err != nil {
			return err
		}
	}
	return c.exec(
		"PRAGMA application_id = "+strconv.Itoa(applicationID),
		"PRAGMA user_version = "+strconv.Itoa(len(migrations)),
		"COMMIT")
}
