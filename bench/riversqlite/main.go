// Command riversqlite is the child of bench/peers that measures River on SQLite. River's driver for SQLite exists
// only in an older version, which can't be built together with the newest River. So it has a module of its own.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	_ "modernc.org/sqlite"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/peers/riverjobs"
	"github.com/millrace-go/millrace/bench/peers/statements"
)

func main() {
	os.Exit(child.Main([]child.System{system("river-sqlite", riverjobs.Tuned(500)), system("river-sqlite-defaults", riverjobs.Defaults())}))
}

func system(name string, config river.Config) child.System {
	return child.System{
		Name:    name,
		Modules: []string{"github.com/riverqueue/river/riverdriver/riversqlite", "modernc.org/sqlite"},
		Open: func(ctx context.Context, spec child.Spec) (child.Client, error) {
			db, operations, err := statements.Open(spec, "sqlite", "file:"+filepath.Join(spec.Dir, "river.db")+
				"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(1) // as River's documentation recommends
			return riverjobs.Open(ctx, riversqlite.New(db), config, operations)
		},
	}
}
