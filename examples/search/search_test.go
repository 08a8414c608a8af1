package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

func program() millracetest.Program {
	return millracetest.Program{Routes: routes, Register: register}
}

// offered returns the offer of a bicycle, and its steps.
func offered(t *testing.T, app *millracetest.App) (process.Snapshot[Offer], *process.Stream) {
	t.Helper()
	offers := process.Open[Offer](app.Channels(), "offer")
	if err := offers.Start(t.Context(), "bicycle", bicycle); err != nil {
		t.Fatal(err)
	}
	app.Drain()
	s, err := offers.Get(t.Context(), "bicycle")
	if err != nil {
		t.Fatal(err)
	}
	look, err := process.Look(app.Store(), "offer", "/test")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := look.Stream(t.Context(), "bicycle")
	if err != nil {
		t.Fatal(err)
	}
	return s, stream
}

// Two searches find parts, and one is aborted. The last one to end gathers: the offer goes on in that moment.
func TestOffer(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, program(), func(t *testing.T, app *millracetest.App) {
		s, stream := offered(t, app)
		slices.Sort(s.State.Things)
		if s.Status != process.Completed || fmt.Sprint(s.State.Things) != "[frame wheels]" || s.State.Euros != 216 || s.State.Number == 0 {
			t.Errorf("got %+v; want an offer of a frame and wheels, for 216 euros", s)
		}
		lines := map[string]process.Line{}
		for _, x := range stream.Lines {
			if x.Depth <= 2 {
				lines[x.Name] = x
			}
		}
		if x := lines["search 2"]; x.Status != process.Aborted || x.Msg != "nobody makes brakes" {
			t.Errorf("the search for brakes: got %s, %q; want an aborted one", x.Status, x.Msg)
		}
		last := lines["search 1"].Timestamp
		if split, next := lines["search"], lines["publish"]; !split.Timestamp.Equal(last) || !next.Created.Equal(last) || split.Failed != 1 {
			t.Errorf("the last search ended at %v; got a split that ended at %v with %d failed, and a next step from %v", last, split.Timestamp, split.Failed, next.Created)
		}
	})
}

// The offer is the same, whatever fails.
func TestOfferUnderFaults(t *testing.T) {
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		sim.Start(program())
		offers := process.Open[Offer](sim.Channels(), "offer")
		for i := range 3 {
			sim.Send(offers.Starting(fmt.Sprint("o", i), bicycle))
			sim.Advance(time.Duration(sim.Rand.IntN(20)) * time.Second)
		}
		sim.Settle()
		for i := range 3 {
			s, err := offers.Get(t.Context(), fmt.Sprint("o", i))
			if err != nil || s.Status != process.Completed || s.State.Euros != 216 || len(s.State.Things) != 2 {
				t.Errorf("offer %d: got %+v, %v; want two things for 216 euros", i, s, err)
			}
		}
	}, 1, 2)
}

// The picture of the documentation is the one that the program makes.
func TestPicture(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../docs/search.svg")
	if err != nil {
		t.Fatal(err)
	}
	millracetest.Run(t, program(), func(t *testing.T, app *millracetest.App) {
		_, stream := offered(t, app)
		if got := picture(stream); got != string(want) {
			t.Errorf("docs/search.svg is another picture than the program's. Make it anew: go run ./examples/search -svg > docs/search.svg\n%s", got)
		}
	})
}

// The program runs, and prints a picture in XML.
func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out, true); err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; n++ {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 100 {
		t.Errorf("got a picture of %d tokens; want at least 100:\n%s", n, &out)
	}
}
