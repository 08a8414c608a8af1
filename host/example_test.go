package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
)

// Pack is a command.
type Pack struct{ Item string }

// Kind is the stable name on the wire.
func (Pack) Kind() channel.Kind { return "shop.pack.v1" }

// A main function calls host.Main with the Program. The example calls host.Run, so that it can stop the program.
func ExampleProgram() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())

	var greeting *string
	code := host.Run(ctx, host.Process{Args: []string{"-store", "sqlite:" + filepath.Join(dir, "shop.db"), "-admin", "off"}}, host.Program{
		Name:  "shop",
		Flags: func(f *host.Flags) { greeting = f.String("greeting", "Packed:", "the `WORDS` before an item") },
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(channel.Command[Pack]("parcels"))
		},
		Register: func(h *handlers.Registry) error {
			handlers.React(h, "parcels", func(_ context.Context, p Pack) error {
				fmt.Println(*greeting, p.Item)
				stop()
				return nil
			})
			return nil
		},
		Start: func(ctx context.Context, a *host.App) error {
			a.OnClose(func() error {
				fmt.Println("closed")
				return nil
			})
			return a.Channels.Send(ctx, Pack{"teapot"})
		},
	})
	fmt.Println("exit code", code)
	// Output:
	// Packed: teapot
	// closed
	// exit code 0
}
