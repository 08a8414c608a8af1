package millracetest_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/millracetest"
)

// laned is the program with lanes and priorities.
func laned(m *mails) millracetest.Program {
	p := program(m)
	p.Routes = func() (*channel.Routes, error) {
		return channel.NewRoutes(
			channel.Command[place]("orders"), channel.Command[remind]("orders"),
			channel.Event[placed]("seats", "mails", "tallies"), channel.Event[reminded]("mails"),
			channel.Lanes("orders", 4), channel.Priorities("orders"), channel.Lanes("mails", 2), channel.Priorities("seats"),
		)
	}
	return p
}

// A program with lanes keeps all laws under all faults, on stores that are atomic and on others.
func TestSimulateWithLanes(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		sim.Start(laned(&mails{}))
		placeSome(t, sim)
	}, 1, 2)
}

// A test of a program with lanes waits for all its messages, and knows which are due later.
func TestRunWithLanes(t *testing.T) {
	t.Parallel()
	m := &mails{}
	millracetest.Run(t, laned(m), func(t *testing.T, app *millracetest.App) {
		app.Send(place{"a", 2}, place{"b", 3})
		app.Drain()
		app.Advance(73 * time.Hour)
		app.Drain()
		if len(m.sent) != 4 {
			t.Errorf("mails: got %q, want two for each order", m.sent)
		}
	})
}
