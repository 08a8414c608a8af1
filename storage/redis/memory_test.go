package redis

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// usedMemory is what the server says that its data take.
func usedMemory(t *testing.T, s *redistest.Server) int {
	t.Helper()
	_, rest, _ := strings.Cut(s.Do(t, "INFO", "memory"), "used_memory:")
	value, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A waiting message takes its body and 100 bytes at most, as long as the body is shorter than the server's allocator
// rounds up.
func TestMemoryOfWaitingMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Settings: []string{"--activedefrag", "no", "--appendonly", "no"}})
	s, err := Open(t.Context(), server.URL(redistest.Fresh())+"&durable=no")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, body := range []int{1, 200, 450} {
		q := s.Queue("bodies-of-" + strconv.Itoa(body))
		batch := slices.Repeat([]storage.Message{{Body: make([]byte, body)}}, 500)
		if err := q.Send(t.Context(), batch); err != nil { // the script and the queue itself take some memory
			t.Fatal(err)
		}
		before := usedMemory(t, server)
		const batches = 40
		for range batches {
			if err := q.Send(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		each := (usedMemory(t, server) - before) / (batches * len(batch))
		t.Logf("a message with %d bytes takes %d", body, each)
		if each < body || each > body+100 {
			t.Errorf("a message with %d bytes takes %d, want %d at most", body, each, body+100)
		}
	}
}
