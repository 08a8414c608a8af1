package settings_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Two nodes have the same settings. One of them refuses what it can't do, and then nobody has it.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()

	type Kitchen struct {
		Cooks int `json:"cooks"`
	}
	web, _ := settings.Open(ctx, store, "kitchen", Kitchen{Cooks: 2}, settings.Config{Name: "web"})
	defer web.Close(ctx)
	oven, _ := settings.Open(ctx, store, "kitchen", Kitchen{Cooks: 2}, settings.Config{Name: "oven"})
	defer oven.Close(ctx)
	oven.Changing(func(_ context.Context, _, to Kitchen) error {
		if to.Cooks > 3 {
			return errors.New("there is room for three cooks")
		}
		return nil
	})

	for _, cooks := range []int{4, 3} {
		e, err := web.Propose(ctx, settings.By("ada", "Black Friday"), func(k *Kitchen) { k.Cooks = cooks })
		fmt.Println(e.Version, e.Result, err)
		fmt.Println(web.Now().Cooks, "cooks")
	}
	// Output:
	// 1 refused settings: propose a change of kitchen: version 1: refused by oven: this program: there is room for three cooks
	// 2 cooks
	// 2 in force <nil>
	// 3 cooks
}
