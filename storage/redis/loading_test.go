package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A server that still reads its file says that it has no append-only file. It is unavailable then, and not wrong.
func TestAServerThatReadsItsFileIsUnavailable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Settings: []string{"--key-load-delay", "50"}})
	url := server.URL(redistest.Fresh())
	server.Do(t, "EVAL", "for n = 1, 8000 do redis.call('SET', 'key ' .. n, n) end", "0") // it answers after each 1,024
	server.Kill(t)
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		server.Restart(t)
	}()
	read := 0
	for open := false; !open; {
		s, err := Open(t.Context(), url)
		switch {
		case err == nil:
			open = true
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		case !errors.Is(err, storage.ErrUnavailable):
			t.Errorf("got %v, want %v", err, storage.ErrUnavailable)
			open = true
		case strings.Contains(err.Error(), "reads its file"):
			read++
		}
	}
	<-restarted
	if read == 0 {
		t.Error("the server has read its file before anybody could ask; it must be slower")
	}
}
