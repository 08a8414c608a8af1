package doorbell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func takesOne([]byte, int) int { return 1 }

func subscribe(t *testing.T, s *Doorbell, topic string, receiver storage.Receiver) *storage.Registration {
	t.Helper()
	h, err := s.Subscribe(t.Context(), topic, receiver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// published tells until so many have received it: a busy process may be too slow to answer in time.
func published(t *testing.T, s *Doorbell, topic, data string, one bool, want int) {
	t.Helper()
	until(t, fmt.Sprintf("a publication to be received by %d", want), func() bool {
		n, err := s.Publish(t.Context(), topic, []byte(data), one)
		if n > want || err != nil {
			t.Fatalf("one %v: received by %d, error %v; want %d", one, n, err, want)
		}
		return n == want
	})
}

func isLost(h *storage.Registration) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}

// The cost of Subscribe and Publish: a topic that isn't in the row yet costs a write of it before Subscribe returns,
// and a publication costs one query.
func TestPublishRequests(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var registration, asking storagetest.Calls
	a := put(t, storagetest.Intercept(plain(t, path), registration.Hook), loopback(), usualPace())
	b := put(t, storagetest.Intercept(plain(t, path), asking.Hook), loopback(), usualPace())
	for i, topic := range []string{"first", "first", "second", "second"} {
		h := subscribe(t, a, topic, takesOne)
		if got, want := registration.Count("put row"), 1+i/2; got != want {
			t.Errorf("Subscribe %d: %d rows written so far; want %d", i+1, got, want)
		}
		if l := listeners(t, put(t, plain(t, path), loopback(), usualPace()), 1)[0]; !slices.Contains(l.Received, topic) {
			t.Errorf("the row has topics %q when Subscribe of %s returns", l.Received, topic)
		}
		if i == 1 {
			h.Close()
		}
	}
	for i := range 5 {
		published(t, b, "first", "a", i%2 == 0, 1)
	}
	if got, all := asking.Count("query"), asking.Count(); got != all || got < 5 {
		t.Errorf("5 publications made %d queries and %d requests in all; want one each", got, all)
	}
	before := registration.Count()
	published(t, a, "second", "a", false, 2)
	if got := registration.Count() - before; got != 1 {
		t.Errorf("a publication to the own receivers made %d requests; want one, for those of others", got)
	}
}

// Subscribe fails if others couldn't find this process: there is no socket, or the row can't be written. It works
// later.
func TestHearFails(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.db")
	var broken atomic.Bool
	inner := storagetest.Intercept(plain(t, path), func(_ context.Context, op storagetest.Op, do func() error) error {
		if broken.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	s := put(t, inner, Config{Listen: taken.LocalAddr().String()}, usualPace())
	for _, why := range []string{"address already in use", "made up by a test", ""} {
		h, err := s.Subscribe(t.Context(), "topic", takesOne)
		switch {
		case why == "":
			if err != nil {
				t.Fatal(err)
			}
			h.Close()
		case !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), why):
			t.Errorf("error %v; want %s", err, why)
		}
		if why == "address already in use" {
			taken.Close()
			broken.Store(true)
			continue
		}
		broken.Store(false)
	}
	broken.Store(true)
	if n, err := s.Publish(t.Context(), "topic", nil, false); n != 0 || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Publish without the table: %d, error %v", n, err)
	}
}

// A Registration is lost when the row couldn't be written for so long that others take this process for dead.
func TestLostWithTheTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := polling(t)
		h := subscribe(t, x.Doorbell, "topic", takesOne)
		x.down.Store(true)
		time.Sleep(x.own.dir.pace.trust() - time.Second)
		if isLost(h) {
			t.Error("lost while others still believe the row")
		}
		time.Sleep(2*x.own.dir.pace.retry + time.Second)
		if !isLost(h) {
			t.Error("not lost though others don't believe the row any more")
		}
		if _, err := x.Subscribe(t.Context(), "topic", takesOne); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Subscribe: error %v", err)
		}
		x.down.Store(false)
		again := subscribe(t, x.Doorbell, "topic", takesOne)
		time.Sleep(time.Hour)
		if isLost(again) {
			t.Error("lost though the table works again")
		}
	})
}

// A Registration is lost when this process finds its row missing. Subscribe writes it again, and that Registration
// stays.
func TestLostWithTheRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := polling(t)
		h := subscribe(t, x.Doorbell, "topic", takesOne)
		if _, err := x.Publish(t.Context(), "other", nil, false); err != nil || isLost(h) {
			t.Fatalf("lost %v while the row is there, error %v", isLost(h), err)
		}
		if err := x.Table(tableName).Delete(t.Context(), partition, x.own.dir.id, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Publish(t.Context(), "other", nil, false); err != nil || !isLost(h) {
			t.Errorf("lost %v after a read without the row, error %v", isLost(h), err)
		}
		again := subscribe(t, x.Doorbell, "topic", takesOne)
		if !x.stands() {
			t.Error("Subscribe returned before the row was written again")
		}
		if _, err := x.Publish(t.Context(), "other", nil, false); err != nil || isLost(again) {
			t.Errorf("lost again %v, error %v", isLost(again), err)
		}
	})
}

// A Registration is lost when the row was not renewed in time, because the process stood still: others sent it nothing.
func TestLostByStandingStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := put(t, plain(t, filepath.Join(t.TempDir(), "test.db")), loopback(), usualPace()).own
		p := s.row
		p.key, p.at = keyOf(1), netip.MustParseAddrPort("127.0.0.1:9")
		time.Sleep(time.Hour)
		first, err := s.receivers.Subscribe("topic", takesOne)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			still time.Duration
			lost  bool
		}{{0, false}, {4 * time.Minute, false}, {5 * time.Minute, false}, {7 * time.Minute, true}} {
			time.Sleep(c.still)
			p.update()
			select {
			case <-first.Lost():
				if !c.lost {
					t.Errorf("lost after %v", c.still)
				}
			default:
				if c.lost {
					t.Errorf("not lost after %v", c.still)
				}
			}
		}
	})
}

// Many calls of Subscribe at the same time share the writes of the row.
func TestHearsShareWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := polling(t)
		x.slow.Store(true)
		before := x.calls.Count("put row")
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if _, err := x.Subscribe(t.Context(), fmt.Sprint("topic-", i), takesOne); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := x.calls.Count("put row") - before; n > 2 {
			t.Errorf("%d writes of the row; want one, and one for those that came meanwhile", n)
		}
	})
}

// A listener that has never answered is named in the error: nothing may pass between the two. The next publication
// doesn't wait for it for long. One that answers again is waited for, and when it has crashed later, that is no error.
func TestSilentListener(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	dead := socket(t)
	writeRow(t, b, "dead", func(r *row) {
		r.Addresses, r.Received = []string{dead.LocalAddr().String()}, []string{"topic"}
	})
	subscribe(t, a, "topic", takesOne)
	for range 3 {
		published(t, b, "topic", "a", true, 1)
		until(t, "a publication to be received by 1", func() bool {
			n, err := b.Publish(t.Context(), "topic", []byte("a"), false)
			if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "1 process listens at "+dead.LocalAddr().String()+" and can't be reached") {
				t.Fatalf("received by %d, error %v; want one that says that a process can't be reached", n, err)
			}
			return n == 1
		})
	}
	silent := func() []string {
		b.own.asks.mu.Lock()
		defer b.own.asks.mu.Unlock()
		var list []string
		for id := range b.own.asks.silent {
			list = append(list, id)
		}
		return list
	}
	if got := silent(); !slices.Contains(got, "dead") {
		t.Errorf("silent are %q", got)
	}
	answered := make(chan struct{})
	go func() { // it lives again
		defer close(answered)
		buf := make([]byte, maxPublication)
		for {
			n, from, err := dead.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if r, ok := readDatagram(buf[:n], newMAC(keyOf(1))); ok {
				dead.WriteToUDPAddrPort(appendAnswer(nil, newMAC(keyOf(1)), r.request.ID, 7), from)
			}
		}
	}()
	published(t, b, "topic", "a", false, 8)
	if got := silent(); slices.Contains(got, "dead") {
		t.Errorf("silent are %q after an answer", got)
	}
	dead.Close()
	<-answered
	published(t, b, "topic", "a", false, 1)
}

// A listener that was silent is waited for briefly. Now and then one publication gives it the full time, because its
// path may be slow, and an answer ends that.
func TestSilentListenerGetsTheFullTimeAgain(t *testing.T) {
	t.Parallel()
	var a asks
	l := listener{id: "slow"}
	var id pubsub.ID
	now := time.Hour
	for i, c := range []struct {
		after    time.Duration // since the last one
		hurry    bool
		answered bool
	}{
		{0, false, false}, {0, true, false}, {silentFor - 1, true, false}, {1, false, false}, {0, true, false},
		{silentFor - 1, true, false}, {1, false, true}, {0, false, false}, {0, true, true}, {0, false, true},
	} {
		now += c.after
		a.begin([]listener{l}, false)
		if _, hurry := a.add(id, l, now); hurry != c.hurry {
			t.Errorf("publication %d: hurry %v; want %v", i, hurry, c.hurry)
		}
		if c.answered {
			a.answered(l.id)
		} else {
			a.unanswered(l.id, now)
		}
		a.remove(id)
	}
}

// publications returns a store that subscribes to "topic" and waits for a queue, with what it received, and a stranger
// that knows its row.
func publications(t *testing.T) (s *Doorbell, received *atomic.Int64, x *stranger) {
	t.Helper()
	s, _, _, x = listening(t)
	received = new(atomic.Int64)
	subscribe(t, s, "topic", func(_ []byte, most int) int {
		if most > 0 {
			received.Add(1)
		}
		return 1
	})
	return s, received, x
}

// publication makes a valid publication, later than the one before.
func (x *stranger) publication(r pubsub.Request) []byte {
	x.at = max(x.at+1, time.Now().UnixMicro())
	return appendRing(nil, newMAC(x.l.Key), ring{sender: 1, at: x.at, request: &r})
}

// answer waits for the next datagram.
func (x *stranger) answer() []byte {
	x.t.Helper()
	x.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 2000)
	n, err := x.conn.Read(buf)
	if err != nil {
		x.t.Fatal(err)
	}
	return buf[:n]
}

// A listener answers a datagram that is signed with its key and fresh, once, by a smaller one. It answers nothing else.
func TestAnswersAreFewAndSmall(t *testing.T) {
	t.Parallel()
	s, received, x := publications(t)
	good := x.publication(pubsub.Request{Kind: pubsub.GiveOne, ID: pubsub.ID{1}, Topic: "topic", Data: []byte("data")})
	x.shout(good)
	first := x.answer()
	id, n, ok := readAnswer(first, func(pubsub.ID) []byte { return x.l.Key })
	if id != (pubsub.ID{1}) || n != 1 || !ok || len(first) >= len(good) {
		t.Errorf("answer %x: %x, %d, %v, %d bytes to %d", first, id, n, ok, len(first), len(good))
	}
	if smallest := x.publication(pubsub.Request{Kind: pubsub.Ask, Topic: "abc"}); len(smallest) <= answerSize {
		t.Errorf("a publication of %d bytes has an answer of %d", len(smallest), answerSize)
	}
	request := &pubsub.Request{Kind: pubsub.GiveAll, ID: pubsub.ID{2}, Topic: "topic"}
	hour := time.Hour.Microseconds()
	for _, b := range [][]byte{
		good, // a replay
		appendRing(nil, newMAC(keyOf(9)), ring{sender: 1, at: x.at + 1, request: request}),            // forged
		appendRing(nil, newMAC(x.l.Key), ring{sender: 2, at: x.at - hour, request: request}),          // late
		appendRing(nil, newMAC(x.l.Key), ring{sender: 2, at: x.at + 1, request: new(pubsub.Request)}), // no request
		first, // an answer
		make([]byte, maxPublication+1),
		{kindPublication},
		x.ring("queue"),
	} {
		x.shout(b)
	}
	x.settled(s)
	// A repeated request is answered again, and given once.
	x.shout(x.publication(pubsub.Request{Kind: pubsub.GiveOne, ID: pubsub.ID{1}, Topic: "topic", Data: []byte("data")}))
	if again := x.answer(); !slices.Equal(again, first) {
		t.Errorf("the next answer is %x; want the one to the repeated request, %x", again, first)
	}
	if n := received.Load(); n != 1 {
		t.Errorf("it was received %d times", n)
	}
	if got := s.Counts(); got.Repeated != 1 || got.Refused != 6 {
		t.Errorf("counts %+v; want the replay repeated, and 6 refused", got)
	}
}

// Answers that were not made with the listener's key count nothing.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	b := put(t, plain(t, filepath.Join(t.TempDir(), "test.db")), loopback(), quick())
	conn := socket(t)
	writeRow(t, b, "liar", func(r *row) {
		r.Addresses, r.Received = []string{conn.LocalAddr().String()}, []string{"topic"}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, maxPublication)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			r, ok := readDatagram(buf[:n], newMAC(keyOf(1)))
			if !ok {
				t.Error("a datagram that isn't signed")
				continue
			}
			other := pubsub.ID{1}
			for _, answer := range [][]byte{
				appendAnswer(nil, newMAC(keyOf(2)), r.request.ID, 1),
				appendAnswer(nil, newMAC(keyOf(1)), other, 1),
				append(appendAnswer(nil, newMAC(keyOf(1)), r.request.ID, 1), 0),
				{kindAnswer}, nil,
			} {
				conn.WriteToUDPAddrPort(answer, from)
			}
		}
	}()
	for _, one := range []bool{true, false} {
		if n, err := b.Publish(t.Context(), "topic", nil, one); n != 0 || !errors.Is(err, pubsub.ErrUnreached) {
			t.Errorf("one %v: received by %d, error %v; want nobody, and that the liar can't be reached", one, n, err)
		}
	}
	conn.Close()
	<-done
}

// openRinging opens a store that doesn't ring, and puts a doorbell over it.
func openRinging(ctx context.Context, url string) (*Doorbell, error) {
	s, err := storage.Drivers{sqlite.Driver, azure.Driver}.Open(ctx, url, storage.OpenConfig{})
	if err != nil {
		return nil, err
	}
	return Over(storagetest.Plain(s), loopback())
}

// subscriber is another process, which prints what it receives. It ends with its standard input.
func subscriber(url string) int {
	s, err := openRinging(context.Background(), url)
	if err == nil {
		_, err = s.Subscribe(context.Background(), "topic", func(data []byte, most int) int {
			if most > 0 {
				fmt.Println(string(data))
			}
			return 1
		})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
