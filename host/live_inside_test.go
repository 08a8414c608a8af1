package host

import (
	"log/slog"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/throttle"
)

type letter struct{}

func (letter) Kind() channel.Kind { return "test.letter.v1" }
func (letter) Key() string        { return "a" }

// Settings in force have a part that this program can't use, such as a queue of another version of it. The other parts
// hold.
func TestAPartThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenStore(t, "?wake=off")
	routes, err := channel.NewRoutes(channel.Command[letter]("letters"))
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(store, routes, "test")
	if err != nil {
		t.Fatal(err)
	}
	var level slog.LevelVar
	l := &live{level: &level, work: &throttle.Level{}, log: slog.New(slog.DiscardHandler), channels: channels, changed: make(chan struct{})}
	l.put(Live{Log: "warn", Level: 1, Queues: map[string]LiveQueue{"letters": {Concurrency: 8}}})
	l.put(Live{
		Log: "debug", Level: 2, Guards: map[string]LiveGuard{"gone": {}},
		Queues: map[string]LiveQueue{"gone": {Concurrency: 64}, "letters": {Concurrency: 4}},
	})
	if l.work.Now() != 2 || level.Level() != slog.LevelDebug || l.now.Queues["letters"].Concurrency != 4 || len(l.now.Queues) != 1 || len(l.now.Guards) != 0 {
		t.Errorf("level %d, log %v, %+v", l.work.Now(), level.Level(), l.now)
	}
	l.put(Live{Log: "loud", Level: -1, Queues: map[string]LiveQueue{"letters": {Concurrency: -1}}})
	if l.work.Now() != 2 || level.Level() != slog.LevelDebug || l.now.Queues["letters"].Concurrency != 4 {
		t.Errorf("level %d, log %v, %+v", l.work.Now(), level.Level(), l.now)
	}
}
