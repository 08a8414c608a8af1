package millracetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// An agent of another type is one fault, with the type that it must have.
func TestAgentsOfAnotherType(t *testing.T) {
	t.Parallel()
	_, err := millracetest.Plan("trips", airline{}.book, millracetest.Agents{"sell": 7, "label": func() {}}).Routes()
	if err == nil {
		t.Fatal("they are taken")
	}
	text := err.Error()
	for _, want := range []string{`the agent "sell" is a int; want a func(context.Context, millracetest_test.trip) (string, error)`, `the agent "label" is a func(); want a func(`} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %q", text, want)
		}
	}
	if strings.Contains(text, "nil") {
		t.Errorf("got %s, want nothing about nil", text)
	}
}

// An answer that the plan doesn't hear goes to the poison queue, and its reason names those that it does.
func TestOddAnswer(t *testing.T) {
	t.Parallel()
	p := millracetest.Plan("trips", airline{}.book, millracetest.Agents{"reserve": func(c takeSeat) channel.Message { return freeSeat(c) }})
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		if err := process.Open[trip](app.Channels(), "trips").Start(t.Context(), "ada", trip{Seat: "12a"}); err != nil {
			t.Fatal(err)
		}
		app.Advance(time.Minute)
		all := app.Poison()
		const want = "the function that stands in for the step reserve answers with kit.freeseat.v1; the plan hears kit.checkedin.v1, kit.seattaken.v1"
		if len(all) != 1 || !strings.Contains(all[0].Error, want) || strings.Contains(all[0].Error, "routes") {
			t.Errorf("poison queues: got %+v, want one entry that says: %s", all, want)
		}
	})
}
