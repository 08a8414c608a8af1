package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/throttle"
)

// Shop are settings with the quota of a rate limiter. In a program of package host they embed host.Live, too.
type Shop struct {
	PerMinute int64 `json:"perMinute"`
}

func (s Shop) quotas() []throttle.Quota {
	return []throttle.Quota{{Name: "burst", Amount: s.PerMinute, Per: time.Minute}}
}

// Check refuses what the rate limiter would refuse.
func (s Shop) Check() error { return throttle.CheckQuotas(s.quotas()) }

// A rate limiter follows a setting while it is open.
func ExampleFollow() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()
	live, err := settings.Open(ctx, store, "shop", Shop{PerMinute: 2}, settings.Config{}) // or host.Settings
	if err != nil {
		panic(err)
	}
	defer live.Close(ctx)
	limiter, err := throttle.NewRateLimiter("orders", throttle.Config{})
	if err != nil {
		panic(err)
	}
	set := make(chan error, 1)
	host.Follow(live, func(now Shop) { set <- limiter.Set(now.quotas(), nil) })

	ask := func(account string) {
		let := 0
		for range 9 {
			if p, err := limiter.Admit(ctx, throttle.Call{Tenant: account}); err == nil {
				p.End(throttle.Spent)
				let++
			}
		}
		fmt.Println(let, "of 9 are let through")
	}
	fmt.Println(<-set)
	ask("ada")
	_, err = live.Propose(ctx, settings.By("ada", "Black Friday"), func(s *Shop) { s.PerMinute = 5 })
	fmt.Println(err, <-set)
	ask("bob")
	_, err = live.Propose(ctx, settings.By("ada", "a typing error"), func(s *Shop) { s.PerMinute = -5 })
	fmt.Println(err != nil)
	ask("eve")
	// Output:
	// <nil>
	// 2 of 9 are let through
	// <nil> <nil>
	// 5 of 9 are let through
	// true
	// 5 of 9 are let through
}
