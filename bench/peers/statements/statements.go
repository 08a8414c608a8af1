// Package statements counts a program's statements to an embedded database, which has no such count itself.
package statements

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"

	"github.com/ngrok/sqlmw"

	"github.com/millrace-go/millrace/bench/peers/child"
)

// Open is sql.Open. For an idle system it also counts the statements; for other works the count would take time.
func Open(spec child.Spec, driverName, source string) (db *sql.DB, count func(context.Context) (int64, error), err error) {
	db, err = sql.Open(driverName, source)
	if err != nil || spec.Work != child.Idle {
		return db, func(context.Context) (int64, error) { return child.Unknown, nil }, err
	}
	c := &counter{}
	counted := &connector{sqlmw.Driver(db.Driver(), c), source}
	return sql.OpenDB(counted), func(context.Context) (int64, error) { return c.n.Load(), nil }, db.Close()
}

type connector struct {
	driver driver.Driver
	source string
}

func (c *connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.source) }
func (c *connector) Driver() driver.Driver                        { return c.driver }

// counter counts each statement, but not BEGIN and COMMIT.
type counter struct {
	sqlmw.NullInterceptor
	n atomic.Int64
}

func (c *counter) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	c.n.Add(1)
	return conn.ExecContext(ctx, query, args)
}

func (c *counter) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	c.n.Add(1)
	rows, err := conn.QueryContext(ctx, query, args)
	return ctx, rows, err
}

func (c *counter) StmtExecContext(ctx context.Context, stmt driver.StmtExecContext, _ string, args []driver.NamedValue) (driver.Result, error) {
	c.n.Add(1)
	return stmt.ExecContext(ctx, args)
}

func (c *counter) StmtQueryContext(ctx context.Context, stmt driver.StmtQueryContext, _ string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	c.n.Add(1)
	rows, err := stmt.QueryContext(ctx, args)
	return ctx, rows, err
}
