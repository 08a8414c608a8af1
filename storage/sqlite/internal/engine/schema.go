package engine

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

// A Schema says what a program's files hold.
type Schema struct {
	// ApplicationID marks a file as the program's, in its header.
	ApplicationID int

	// Migrations lead from one schema to the next, the first from an empty file. PRAGMA user_version counts those that
	// were done.
	Migrations [][]string

	// Keep refuses a file with an older schema. Without it, such a file is brought to the newest one.
	Keep bool

	// Others says what files with other marks are.
	Others map[int]string
}

// version returns the schema's version of a file of this program, 0 when the file is empty.
func (x Schema) version(c *Conn) (int, error) {
	if !c.InTransaction() {
		// In one transaction, or another process's first opening may come in between.
		if err := c.Exec("BEGIN"); err != nil {
			return 0, err
		}
		defer c.Exec("ROLLBACK")
	}
	id, err := c.OneInt("PRAGMA application_id")
	if err != nil {
		return 0, notDatabase(err)
	}
	version, err := c.OneInt("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	tables, err := c.OneInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != int64(x.ApplicationID):
		return 0, fmt.Errorf("%w: the file is %s; choose another path", driver.ErrInvalid, cmp.Or(x.Others[int(id)], "the database of another program"))
	case version > int64(len(x.Migrations)):
		return 0, fmt.Errorf("%w: the file has schema version %d and this program knows up to %d; start a newer program", driver.ErrUnsupported, version, len(x.Migrations))
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

// prepare refuses a file that isn't this program's, and brings any other to the newest schema. Several processes
// may do so at the same time.
func (x Schema) prepare(ctx context.Context, c *Conn) error {
	version := 0
	err := Retry(ctx, func() (err error) {
		version, err = x.version(c)
		return err
	})
	if err != nil {
		return err
	}
	if x.Keep && version < len(x.Migrations) {
		return fmt.Errorf("%w: the file has schema version %d, and this command knows %d, which the programs that use the file now might not know: use the command of their version, "+
			"or start them in the newer one, which brings the file up", driver.ErrUnsupported, version, len(x.Migrations))
	}
	// A migration needs temporary storage, and there may be no other folder to write in.
	setup := []string{"PRAGMA synchronous = FULL", "PRAGMA temp_store = MEMORY"}
	if version == 0 {
		// The vacuum mode must be set before there is anything in the file; later it would write, for nothing. With it,
		// free pages can be given back in small steps. It costs 2 % of a write.
		setup = append(setup, "PRAGMA auto_vacuum = INCREMENTAL")
	}
	if err = Retry(ctx, func() error { return c.Exec(setup...) }); err != nil {
		return err
	}
	var mode string
	err = Retry(ctx, func() (err error) {
		mode, err = c.One("PRAGMA journal_mode = WAL")
		return err
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: this file system can't share memory between processes (the journal mode stays %q); put the file on a local disk", driver.ErrUnsupported, mode)
	}
	if version == len(x.Migrations) {
		return nil
	}
	if err := Retry(ctx, func() error { return c.Exec("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	// Another process may have done it meanwhile.
	if version, err = x.version(c); err != nil {
		c.Exec("ROLLBACK") // the first error tells more
		return err
	}
	return x.upgrade(c, version)
}

// upgrade runs the migrations after version in the transaction that is open, and ends it.
func (x Schema) upgrade(c *Conn, version int) (err error) {
	defer func() {
		if err != nil && c.InTransaction() {
			c.Exec("ROLLBACK") // the first error tells more
		}
	}()
	for _, m := range x.Migrations[version:] {
		if err := c.Exec(m...); err != nil {
			return err
		}
	}
	return c.Exec(
		"PRAGMA application_id = "+strconv.Itoa(x.ApplicationID),
		"PRAGMA user_version = "+strconv.Itoa(len(x.Migrations)),
		"COMMIT")
}
