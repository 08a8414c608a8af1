package redis

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// Without enough replicas a change has an unknown outcome, and the error says so. Calls that wait for replicas keep
// neither each other nor the reads waiting until the connection breaks.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	plain, _ := openStore(t, server.URL("app"))
	s, _ := openStore(t, server.URL("app")+"&wait=1")
	must(t, plain.Queue("jobs").Send(t.Context(), texts(make([]string, 40)...)))
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			_, err := s.Queue("jobs").Receive(t.Context(), 1, time.Minute)
			wantError(t, err, storage.ErrUnavailable, "the outcome is unknown")
		})
		all.Go(func() {
			if _, err := s.Blobs("docs").Get(t.Context(), "a", ""); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("a read while changes wait for replicas: %v, want %v", err, storage.ErrNotFound)
			}
		})
	}
	all.Wait()
	err := s.Queue("jobs").Send(t.Context(), texts("x"))
	wantError(t, err, storage.ErrUnavailable, "the outcome is unknown")
}

// The server's own demand for replicas comes before anything is written.
func TestTheServerDemandsReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, _ := openStore(t, server.URL("app"))
	server.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	err := s.Queue("jobs").Send(t.Context(), texts("x"))
	wantError(t, err, storage.ErrUnavailable, "min-replicas-to-write")
	server.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	if st, err := s.Queue("jobs").Stats(t.Context()); err != nil || st.Ready != 0 {
		t.Errorf("%d messages are there (%v), want none", st.Ready, err)
	}
}

// Sentinels have passwords of their own.
func TestSentinelsWithAPassword(t *testing.T) {
	master := redistest.Start(t, redistest.Config{})
	sentinels := redistest.StartSentinels(t, 1, master, "main")
	sentinels.All[0].Do(t, "ACL", "SETUSER", "default", "resetpass", ">"+secret)
	if s, err := Open(t.Context(), sentinels.URL("app")); err == nil {
		must(t, s.Close())
		t.Error("a store was opened without the sentinels' password")
	}
	t.Setenv(sentinelPasswordVariable, secret)
	refused(t, strings.Replace(sentinels.URL("app"), "/main?", "/other?", 1), storage.ErrUnavailable, "no master of the name", "SENTINEL MASTERS")
	s, _ := openStore(t, sentinels.URL("app"))
	must(t, s.Queue("jobs").Send(t.Context(), texts("x")))
}
