package limit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// All processes that run this send ten mails a second together.
func ExampleRate() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()

	mails, err := limit.NewRate(store, "smtp", 10, limit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mails.Leave(ctx)
	for _, to := range []string{"ada", "bob"} {
		if err := mails.Wait(ctx); err != nil {
			return
		}
		fmt.Println("mail to", to)
	}
	fmt.Println("of", mails.Share(), "a second")
	// Output:
	// mail to ada
	// mail to bob
	// of 10 a second
}

// All processes that run this make at most five calls at a time together.
func ExampleSlots() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()

	bank, err := limit.NewSlots(store, "bank", 5, limit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bank.Leave(ctx)
	if err := bank.Wait(ctx); err != nil {
		return
	}
	fmt.Println("one of", bank.Share())
	bank.Give()
	// Output: one of 5
}
