package ids_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Each accepted order gets a number that a customer can read on the phone.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "ids")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "example.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	orders, err := ids.Open(store, "orders", ids.Config{First: 1041})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		n, err := orders.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("No.", ids.Format(n))
	}
	if err := orders.Close(ctx); err != nil { // numbers 1043 to 1050 are free again
		log.Fatal(err)
	}

	n, err := ids.Parse("1042-9")
	fmt.Println(n, err)
	_, err = ids.Parse("1024-9")
	fmt.Println(err)
	// Output:
	// No. 1041-0
	// No. 1042-9
	// 1042 <nil>
	// ids: parse "1024-9": invalid argument: the check digit doesn't fit: a digit was mistyped
}
