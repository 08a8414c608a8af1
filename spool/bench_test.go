package spool

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// BenchmarkSend compares a Send through channels with a spool that isn't needed to one without.
func BenchmarkSend(b *testing.B) {
	for _, with := range []bool{false, true} {
		name := "without"
		if with {
			name = "with"
		}
		b.Run(name, func(b *testing.B) {
			store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "b.db")+"?wake=off")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			r, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts))
			if err != nil {
				b.Fatal(err)
			}
			c, err := channel.New(store, r, "/web")
			if err != nil {
				b.Fatal(err)
			}
			if with {
				s, err := Open(b.Context(), filepath.Join(b.TempDir(), "b.spool"), c, Config{})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				c = s.Channels()
			}
			adds := worldtest.SenderOf[worldtest.Add](b, c)
			b.ReportAllocs()
			for b.Loop() {
				if err := adds.Send(b.Context(), worldtest.Add{To: "a", Amount: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUnneeded is what a spool that isn't needed adds to a Send.
func BenchmarkUnneeded(b *testing.B) {
	s := &Spool{index: &index{}}
	try := func(context.Context) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Send(b.Context(), nil, try); err != nil {
			b.Fatal(err)
		}
	}
}
