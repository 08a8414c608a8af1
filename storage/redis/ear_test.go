package redis

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// The end of a subscription waits for the server, on the connection that also brings the answers of other processes.
// Neither may wait for the other one.
func TestReceiversLeaveWhileAnswersCome(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	url := server.URL(redistest.Fresh())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Subscribe(ctx, "stays", func([]byte, int) int { return 1 }); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for range 200 {
				if n, err := a.Publish(ctx, "stays", []byte("x"), false); n != 1 || err != nil {
					t.Errorf("%d took it: %v", n, err)
					return
				}
			}
		})
		all.Go(func() {
			for range 200 {
				r, err := a.Subscribe(ctx, fmt.Sprint("goes-", n), func([]byte, int) int { return 1 })
				if err != nil {
					t.Error(err)
					return
				}
				r.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("they wait for each other")
	}
}

// A connection for rings that can't be opened again is away, and the log tells why, once for each reason.
func TestTheConnectionForRingsStaysAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	var log journal
	s, inner := openLogged(t, server.URL("app"), log.logger())
	server.Do(t, "ACL", "SETUSER", "default", "resetchannels") // the server ends connections that have channels
	until(t, "some openings have failed", func() bool {
		return strings.Contains(server.Do(t, "ACL", "LOG"), "count\n5\n")
	})
	if got := inner.ear.heard(); got != 0 {
		t.Errorf("a connection that can't be opened is there for %v", got)
	}
	_, err := s.Subscribe(t.Context(), "topic", func([]byte, int) int { return 1 })
	wantError(t, err, storage.ErrUnavailable, errAway.Error())
	if n := strings.Count(log.String(), "can't be opened"); n != 1 || !strings.Contains(log.String(), "NOPERM") {
		t.Errorf("the log tells %d times why, want once, with the server's reason:\n%s", n, log.String())
	}
	server.Do(t, "ACL", "SETUSER", "default", "allchannels")
	until(t, "the connection is back", func() bool { return inner.ear.heard() > 0 })
}

// A consumer whose channel couldn't be told to a slow server has it on the next connection.
func TestAChannelThatCouldNotBeTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	_, inner := openStore(t, server.URL("app"))
	channel := inner.e.Key(ringChannel + "jobs")
	inner.ear.turn <- struct{}{} // as while the server confirms the channels of others
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	inner.ear.listen(ctx, channel)
	<-inner.ear.turn
	until(t, "the server knows the channel", func() bool {
		return server.Do(t, "PUBSUB", "NUMSUB", channel) == channel+"\n1"
	})
}

// A connection for rings that was cut rings all consumers once it is back, because a message may have been sent
// meanwhile.
func TestLawAConnectionThatIsBackRingsAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	at := newLink(t, server)
	s, inner := openStore(t, at.url("app"))
	other, _ := openStore(t, server.URL("app"))
	var subs []<-chan struct{}
	for _, topic := range []string{"jobs", "idle"} {
		inner.ear.turn <- struct{}{} // so that the first ring and that of the confirmation aren't folded
		sub := s.Listen(topic)
		defer sub.Close()
		wantRing(t, sub.Rings(), "of the beginning")
		<-inner.ear.turn
		wantRing(t, sub.Rings(), "of the confirmation")
		subs = append(subs, sub.Rings())
	}
	must(t, os.Remove(string(at)))
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	until(t, "the connection is lost", func() bool { return inner.ear.heard() == 0 })
	must(t, other.Queue("jobs").Send(t.Context(), texts("sent meanwhile")))
	for _, rings := range subs {
		select {
		case <-rings:
			t.Error("rung while the connection was away")
		default:
		}
	}
	at.point(t, server)
	for _, rings := range subs {
		wantRing(t, rings, "of the connection that is back")
	}
	if d := receiveOne(t, s.Queue("jobs"), time.Minute); string(d.Body) != "sent meanwhile" {
		t.Errorf("got message %q", d.Body)
	}
}

func wantRing(t *testing.T, rings <-chan struct{}, which string) {
	t.Helper()
	select {
	case <-rings:
	case <-time.After(patience):
		t.Fatalf("waited %v for the ring %s", patience, which)
	}
}
