package statements

import (
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/millrace-go/millrace/bench/peers/child"
)

func TestStatementsAreCounted(t *testing.T) {
	source := "file:" + filepath.Join(t.TempDir(), "test.db")
	for work, want := range map[child.Work]int64{child.Drain: child.Unknown, child.Idle: 5} {
		db, count, err := Open(child.Spec{Work: work}, "sqlite", source)
		if err != nil {
			t.Fatal(err)
		}
		stmt, err := db.Prepare("SELECT ?1")
		if err != nil {
			t.Fatal(err)
		}
		var n int
		for range 2 {
			if err := stmt.QueryRow(1).Scan(&n); err != nil || n != 1 {
				t.Fatalf("got %d, %v", n, err)
			}
		}
		_, err1 := stmt.Exec(1)
		_, err2 := db.Exec("PRAGMA user_version = 1")
		err3 := db.QueryRow("SELECT 2").Scan(&n)
		if err1 != nil || err2 != nil || err3 != nil || n != 2 {
			t.Fatal(n, err1, err2, err3)
		}
		if got, err := count(t.Context()); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", work, got, err, want)
		}
		stmt.Close()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
