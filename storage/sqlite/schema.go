package sqlite

import "github.com/millrace-go/millrace/storage/sqlite/internal/engine"

// These mark files in their headers: those of stores ("Mill") and those of spools ("Msp!").
const (
	applicationID = 0x4d696c6c
	spoolID       = 0x4d737021
)

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
//     either. A message that can be found by its key also has hidden: its place in due, as long as nobody receives it.
//   - keys leads to the messages that have a key. An index of messages would slow down every deletion of a message. So
//     rows of keys outlive their messages: Find looks whether the message with that id still has the key, and each new
//     key removes some rows without a message.
//   - clocks holds how far the file's time is ahead of the monotonic clock of a boot, and the latest time that was
//     written down (see clock). visible is by the file's time. sent and modified are by the wall clock, for people.
//   - rows are small and many, so they are one tree. Blobs are large, so their keys have a tree of their own, for a
//     quick listing.
var migrations = [][]string{
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
	{ // before that, no message had a key
		`ALTER TABLE messages ADD COLUMN key TEXT`,
		`ALTER TABLE messages ADD COLUMN hidden INTEGER`,
		`CREATE TABLE keys (
			id    INTEGER PRIMARY KEY,
			queue INTEGER NOT NULL,
			key   TEXT NOT NULL
		) STRICT`,
		`CREATE INDEX keys_key ON keys (queue, key)`,
	},
}

// These are what the engine needs to know of it. A spool's file differs from a store's in its mark alone.
var (
	storeSchema = engine.Schema{ApplicationID: applicationID, Migrations: migrations,
		Others: map[int]string{spoolID: "a spool, which keeps messages while a store is away, and no store"}}
	spoolSchema = engine.Schema{ApplicationID: spoolID, Migrations: migrations,
		Others: map[int]string{applicationID: "a store, and no spool"}}
)
