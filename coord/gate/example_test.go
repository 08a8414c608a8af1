package gate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Three nodes are ready and wait. They go when the gate opens.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()

	var nodes sync.WaitGroup
	for range 3 {
		nodes.Go(func() {
			if err := gate.At(store, "season-2027").Wait(ctx); err == nil {
				fmt.Println("go")
			}
		})
	}
	g := gate.At(store, "season-2027")
	_ = g.Open(ctx, gate.Note{By: "ada", Why: "results are in"})
	nodes.Wait()
	fmt.Println("a node that comes later:", g.Wait(ctx))
	// Output:
	// go
	// go
	// go
	// a node that comes later: <nil>
}

// A page says when bookings open, and a listing shows why.
func ExampleGate_OpenAt() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()

	g := gate.At(store, "season-2027")
	start := time.Now().Add(time.Hour)
	_ = g.OpenAt(ctx, start, gate.Note{By: "ada", Why: "bookings for the new season"})
	state, _ := g.State(ctx)
	fmt.Println(state.Open, state.OpensAt.Equal(start))
	_ = g.Close(ctx, gate.Note{By: "bob", Why: "prices are wrong"})
	for info, err := range gate.List(ctx, store) {
		fmt.Println(info.Name, info.Open, info.OpensAt.IsZero(), info.By, info.Why, err)
	}
	// Output:
	// false true
	// season-2027 false true bob prices are wrong <nil>
}
