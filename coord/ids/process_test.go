package ids_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	envStore = "MILLRACE_IDS_STORE" // the store URL of a child
	table    = "numbers"
	most     = 50 // numbers in a range
)

func openURL(ctx context.Context, url string) (*storage.Store, error) {
	return storage.Drivers{sqlite.Driver, azure.Driver}.Open(ctx, url, storage.OpenConfig{})
}

// child is the program of another process: many goroutines put rows whose keys are numbers, until it is killed. It
// prints a line for each row, or what went wrong.
func child(url string) int {
	ctx := context.Background()
	s, err := openURL(ctx, url)
	var q *ids.Sequence
	if err == nil {
		q, err = ids.Open(s, name, ids.Config{Most: most})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				n, err := q.Next(ctx)
				if err == nil {
					_, err = s.Table(table).Put(ctx, "all", rowKey(n), nil, storage.Condition{IfAbsent: true})
				}
				switch {
				case errors.Is(err, storage.ErrExists):
					fmt.Printf("number %d is there already\n", n)
					return
				case err == nil:
					fmt.Println("ok") // one write, so lines don't mix
				}
			}
		})
	}
	all.Wait()
	return 1
}

func rowKey(n int64) string { return fmt.Sprintf("%019d", n) }

// Processes are killed again and again while they put numbers into a table: no number comes twice, and each killed
// process has lost at most two ranges and what its goroutines had in hand.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store   string
		place   func(t *testing.T) string
		numbers int
	}{
		{"sqlite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") + "?sync=normal" }, 10_000},
		{"azure", func(t *testing.T) string { return azuretest.Place(t, azurite, azure.Wipe) }, 400},
	} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			url := c.store + ":" + c.place(t)
			var (
				processes sync.WaitGroup
				mu        sync.Mutex
				put, died int
			)
			for i := range 3 {
				processes.Go(func() {
					for {
						mu.Lock()
						over := put >= c.numbers || t.Failed()
						mu.Unlock()
						if over {
							return
						}
						n := runChild(t, url, c.numbers/15+rand.IntN(c.numbers/15)+i)
						mu.Lock()
						put += n
						died++
						mu.Unlock()
					}
				})
			}
			processes.Wait()
			audit(t, url, put, died)
		})
	}
}

// runChild kills a child after it has put some numbers, and returns how many.
func runChild(t *testing.T, url string, lines int) (put int) {
	p := agreetest.Start(t, envStore+"="+url)
	for line := range p.Lines {
		if line != "ok" {
			t.Errorf("a child said: %s", line)
			break
		}
		if put++; put == lines+1 {
			break
		}
	}
	p.Kill()
	for range p.Lines { // what it had said by then
		put++
	}
	if put < lines {
		t.Errorf("a child ended by itself after %d of %d numbers", put, lines)
	}
	return put
}

func audit(t *testing.T, url string, put, died int) {
	s, err := openURL(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, last := 0, int64(0)
	for row, err := range s.Table(table).Query(t.Context(), "all", storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		if last, err = strconv.ParseInt(row.Key, 10, 64); err != nil {
			t.Fatal(err)
		}
		rows++
	}
	end := next(t, s)
	gaps := int(end) - 1 - rows
	t.Logf("%d numbers by %d processes, up to %d of %d, %d lost", rows, died, last, end-1, gaps)
	if rows < put || last >= end || gaps > died*2*most+died*16 {
		t.Errorf("%d rows of %d numbers put, the last is %d, the counter is at %d", rows, put, last, end)
	}
}
