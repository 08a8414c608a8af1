package settings_test

import (
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Now is what each use of a setting costs.
func BenchmarkNow(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"))
	must(b, err)
	defer func() { must(b, s.Close()) }()
	n, err := settings.Open(b.Context(), s, name, defaults(), settings.Config{})
	must(b, err)
	defer func() { must(b, n.Close(b.Context())) }()
	sum := 0
	for b.Loop() {
		sum += n.Now().Seats
	}
	if sum == 0 {
		b.Error("nothing was read")
	}
}
