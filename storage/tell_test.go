package storage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

func hears([]byte, int) int { return 1 }

// Package storage refuses bad tellings before the driver sees them, and says what is wrong.
func TestBadTellingsNeverReachTheDriver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *script, s *storage.Store) {
		hear := func(topic string, ear storage.Receiver) error {
			_, err := s.Subscribe(t.Context(), topic, ear)
			return err
		}
		tell := func(topic string, size int) error {
			_, err := s.Publish(t.Context(), topic, make([]byte, size), true)
			return err
		}
		for name, x := range map[string]struct{ got, want error }{
			"no ear":             {hear("topic", nil), storage.ErrInvalid},
			"a bad name to hear": {hear("A", hears), storage.ErrInvalid},
			"a bad name to tell": {tell("", 1), storage.ErrInvalid},
			"too much":           {tell("topic", storage.MaxPublish+1), storage.ErrTooLarge},
			"too much, bad name": {tell("A", storage.MaxPublish+1), storage.ErrInvalid},
		} {
			refused(t, d, name, x.got, x.want)
		}
		if err := tell("topic", 2000); !strings.Contains(err.Error(), "2000") || !strings.Contains(err.Error(), "1280") {
			t.Errorf("error %v; want both sizes", err)
		}
	})
}

// A store that doesn't ring hears and tells nothing, and says how to get that.
func TestTellingsNeedRings(t *testing.T) {
	t.Parallel()
	s := storage.New(&script{})
	_, err := s.Subscribe(t.Context(), "topic", hears)
	_, also := s.Publish(t.Context(), "topic", nil, false)
	for _, err := range []error{err, also} {
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "topic topic") || !strings.Contains(err.Error(), "open it with a doorbell") {
			t.Errorf("error %v", err)
		}
	}
	d := &script{rings: true}
	s = storage.New(d)
	if _, err := s.Publish(t.Context(), "topic", make([]byte, storage.MaxPublish), true); err != nil {
		t.Error(err)
	}
	if got, want := d.calls(), []string{"tell: topic 1280 true"}; !slices.Equal(got, want) {
		t.Errorf("the driver was asked %q; want %q", got, want)
	}
}
