package millracetest

import (
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process"
)

// Agents are functions that stand in for a plan's agents, by the names of the steps:
//
//	"charge":       func(context.Context, Order) (Receipt, error)        // the agent of Do
//	"undo charge":  func(context.Context, Order, Receipt) error          // its Undo
//	"price":        func(context.Context, Line) (Price, error)           // the agent of Each
//	"list price":   func(context.Context, Order, string) ([]Line, string, error) // of EachFrom
//	"reserve":      func(Reserve) channel.Message                        // answers the command of Ask; nil: never
//	"undo reserve": func(Release) channel.Message                        // gets the command of UndoAsk
//
// Other steps have their own agents, and commands without a function have no answer. A name that no step has, or a
// function of another type, is an error.
type Agents map[string]any

// Plan makes a program of a plan alone, for [Run] and [CrashEverywhere]. process.Open with the same name gives its
// instances. A plan together with the program's value objects needs no Plan: make it a [Program] as it is.
func Plan[S any](name string, plan func(*process.Plan[S]), agents Agents) Program {
	routes, register, err := process.Alone(wire.Inside{}, name, process.Version(1, plan), agents)
	if err != nil {
		err = fmt.Errorf("millracetest: %w", err)
	}
	return Program{
		Routes: func() (*channel.Routes, error) {
			if err != nil {
				return nil, err
			}
			return channel.NewRoutes(routes...)
		},
		Register: func(h *handlers.Registry) error { return register(h) },
	}
}
