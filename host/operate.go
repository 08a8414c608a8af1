package host

import (
	"context"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/operator"
	"github.com/millrace-go/millrace/ops/act"
)

// A Rebuild rebuilds a view from values, for the verb views rebuild. Package views has functions for both.
type Rebuild struct {
	From  string                                                // the collection of the values
	Clear func(context.Context, *channel.Channels) error        // empties the view
	Run   func(context.Context, *channel.Channels) (int, error) // returns the number of values read
}

// operate runs a verb of the operator's.
func operate(ctx context.Context, x Process, p Program) int {
	tool := operator.Program{
		Program: act.Program{Command: x.Command, Settings: p.Name, Routes: p.Routes, Alias: p.Alias, Rebuild: map[string]act.Rebuild{}},
		Store:   "data/" + p.Name + ".db", Drivers: p.drivers(),
	}
	for view, r := range p.Rebuild {
		tool.Rebuild[view] = act.Rebuild(r)
	}
	if p.Web == nil && p.Register == nil { // it only operates
		tool.Settings = ""
	}
	for _, v := range p.verbs() {
		tool.Others = append(tool.Others, [2]string{v.name, v.about})
	}
	if p.Register != nil {
		tool.Register = func(r *handlers.Registry) error {
			flags := boot.NewFlags(x.Command, "", x.Getenv)
			if p.Flags != nil {
				p.Flags(&Flags{flags.Of(boot.Prefix(p.Name))})
			}
			if err := flags.Parse(nil); err != nil { // the environment
				return &boot.UsageError{Err: err}
			}
			return p.Register(r)
		}
	}
	return operator.Run(ctx, boot.Process{Args: x.Args, Getenv: x.Getenv, Stdout: x.Stdout, Stderr: x.Stderr}, x.Stdin, tool)
}
