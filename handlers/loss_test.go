package handlers_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

type (
	// lossy is a value and a command, of which JSON keeps only a part.
	lossy struct{ Left, sold int }

	// lossyEvent is emitted, and never handled here.
	lossyEvent struct{ Left, sold int }

	// keepsNothing is a value of which JSON keeps nothing.
	keepsNothing struct{ sold int }

	// Tag is a command that holds a map.
	Tag struct {
		Tags map[string]int `json:"tags,omitempty"`
		Fail bool           `json:"fail,omitempty"`
	}

	// tagged is a value that takes over the map of a command.
	tagged struct {
		Tags map[string]int `json:"tags"`
	}
)

func (lossy) Kind() channel.Kind       { return "test.lossy.v1" }
func (lossyEvent) Kind() channel.Kind  { return "test.lossy-event.v1" }
func (Tag) Kind() channel.Kind         { return "test.tag.v1" }
func (x lossy) key() string            { return fmt.Sprint("k", x.sold) }
func (x lossyEvent) MessageID() string { return fmt.Sprint(x.sold) }
func (x keepsNothing) next(lossy) (keepsNothing, []channel.Message, error) {
	x.sold++
	return x, nil, nil
}

func lossyWorld(t *testing.T, log *worldtest.Log) (*channel.Channels, *handlers.Registry) {
	t.Helper()
	w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Logger: slog.New(log)},
		channel.Command[lossy]("lossy"), channel.Command[Tag]("tags"), channel.Event[lossyEvent]())
	return w.Channels, w.Registry
}

// The fields that a value, a command or an event loses are logged once, when it is registered.
func TestLossIsLoggedOnce(t *testing.T) {
	t.Parallel()
	log := worldtest.NewLog()
	c, h := lossyWorld(t, log)
	things, others := values.New(c, "things", values.Config[map[string]lossy]{}), values.New(c, "others", values.Config[map[string]lossy]{})
	handlers.Decide(h, things, lossy.key,
		func(v map[string]lossy, _ lossy) (map[string]lossy, []channel.Message, error) { return v, nil, nil }, lossyEvent{})
	handlers.Decide(h, others, func(Tag) string { return "k" },
		func(v map[string]lossy, _ Tag) (map[string]lossy, []channel.Message, error) { return v, nil, nil }, lossyEvent{})
	for _, kind := range []string{"lossy", "lossyEvent"} {
		if n := log.Count("type=handlers_test." + kind + " fields=[handlers_test." + kind + ".sold]"); n != 1 {
			t.Errorf("%s: got %d lines, want 1: %s", kind, n, log)
		}
	}
	if n := log.Count("WARN"); n != 3 { // the value, the command and the event
		t.Errorf("got %d lines, want 3: %s", n, log)
	}
	w := newWorld(t, handlers.Config{})
	w.Decide()
	if w.log.Count() > 0 {
		t.Errorf("where nothing gets lost: got %s", w.log)
	}
}

// A value of which nothing is kept is refused when its handler is registered, and not only logged.
func TestValueOfWhichNothingIsKept(t *testing.T) {
	t.Parallel()
	log := worldtest.NewLog()
	c, h := lossyWorld(t, log)
	handlers.Decide(h, values.New(c, "things", values.Config[keepsNothing]{}), lossy.key, keepsNothing.next)
	if err := h.Err(); err == nil || !strings.Contains(err.Error(), "handlers_test.keepsNothing.sold") {
		t.Errorf("got error %v, want one with the field", err)
	}
	if log.Count("keepsNothing") > 0 {
		t.Errorf("got %s, want the error alone", log)
	}
}

// A decision may put a map of its command into the value, and a later decision may change it there. When they are
// decided again, because another message has failed, the command is as it was sent.
func TestCommandIsAsSentWhenDecidedAgain(t *testing.T) {
	t.Parallel()
	c, h := lossyWorld(t, worldtest.NewLog())
	things := values.New(c, "things", values.Config[tagged]{})
	handlers.Decide(h, things, func(Tag) string { return "k" }, func(v tagged, m Tag) (tagged, []channel.Message, error) {
		switch {
		case m.Fail:
			return v, nil, errors.New("refused")
		case m.Tags != nil:
			v.Tags = m.Tags
		default:
			v.Tags["n"]++
		}
		return v, nil, nil
	})
	if err := h.Err(); err != nil {
		t.Fatal(err)
	}
	var ds []*handlers.Delivery
	for _, body := range []string{`{"tags":{"n":1}}`, `{}`, `{"fail":true}`} {
		d, err := h.Inside().Handlers.Resolve("tags", envelope(channel.NewID(), "test.tag.v1", body))
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
	g, _ := ds[0].Group()
	outs := handling.Handle(t.Context(), g, ds, nil)
	if outs[0].Err != nil || outs[1].Err != nil || outs[2].Err == nil {
		t.Errorf("got outcomes %v, want an error for the last alone", outs)
	}
	d, err := things.Get(t.Context(), "k", "")
	if err != nil || d.Value.Tags["n"] != 2 {
		t.Errorf("got %v, error %v; want n to be 2", d.Value, err)
	}
}
