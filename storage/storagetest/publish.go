package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/storage"
)

func publishTests() []test {
	return []test{
		{"ready when subscribe returns", subscriptionIsReady},
		{"to one of many", publishesOne},
		{"to one by their room", publishesByRoom},
		{"to each of many", publishesEach},
		{"to nobody", publishesNobody},
		{"to those that would take it", publishesWhoWouldTake},
		{"after close no more", hearsUntilClosed},
		{"concurrently", publishesConcurrently},
		{"data is the receiver's own", publishedDataIsOwn},
		{"data of any size up to the limit", tellSizes},
		{"a receiver that panics", earPanics},
		{"bad calls", tellBadly},
		{"a second store subscribes and publishes", publishesSecond},
		{"one over two stores", publishesOneOfTwoStores},
		{"close of the store", hearsUntilStoreCloses},
		{"unsupported where nothing rings", tellUnsupported},
	}
}

// A listener is a receiver that takes everything, or as much as it has room for.
type listener struct {
	room int // for each publication

	mu   sync.Mutex
	got  []string
	most []int // with which it was given something
}

func (l *listener) subscribe(data []byte, most int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.room
	if most > 0 {
		n = min(n, most)
		l.most = append(l.most, most)
		if n > 0 {
			l.got = append(l.got, string(data))
		}
	}
	clear(data)
	return n
}

func (l *listener) received() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

// subscribes has a listener subscribe to a topic until the test ends, or leaves the test out.
func (t *check) subscribes(s *storage.Store, topic string, room int) (*listener, *storage.Registration) {
	t.Helper()
	if !s.Rings() {
		t.leaveOut("nothing rings")
	}
	l := &listener{room: room}
	h, err := s.Subscribe(t.ctx, topic, l.subscribe)
	t.ok(err)
	t.Cleanup(h.Close)
	return l, h
}

func publish(t *check, s *storage.Store, topic, data string, one bool) int {
	t.Helper()
	n, err := s.Publish(t.ctx, topic, []byte(data), one)
	t.ok(err)
	return n
}

// published publishes, and wants a count.
func published(t *check, s *storage.Store, topic, data string, one bool, want int) {
	t.Helper()
	if n := publish(t, s, topic, data, one); n != want {
		t.Errorf("one %v: %d took it; want %d", one, n, want)
	}
}

func subscriptionIsReady(t *check) {
	for i := range 20 {
		topic := t.name("topic")
		l, _ := t.subscribes(t.s, topic, 1)
		published(t, t.s, topic, "a", i%2 == 0, 1)
		t.equal("received", l.received(), []string{"a"})
	}
}

func publishesOne(t *check) {
	topic := t.name("topic")
	a, _ := t.subscribes(t.s, topic, 1)
	b, _ := t.subscribes(t.s, topic, 1)
	other, _ := t.subscribes(t.s, t.name("topic"), 1)
	const publications = 60
	var want []string
	for i := range publications {
		want = append(want, fmt.Sprint(i))
		published(t, t.s, topic, fmt.Sprint(i), true, 1)
	}
	t.same("received by two", append(a.received(), b.received()...), want)
	if x, y := len(a.received()), len(b.received()); x == 0 || y == 0 { // by chance once in 2^59
		t.Errorf("of %d publications to one of two, one received %d and the other %d", publications, x, y)
	}
	t.equal("received on another topic", other.received(), nil)
	for _, most := range append(a.most, b.most...) {
		if most != 1 {
			t.Errorf("published to one, a receiver was given %d", most)
		}
	}
}

func publishesByRoom(t *check) {
	topic := t.name("topic")
	little, _ := t.subscribes(t.s, topic, 1)
	much, _ := t.subscribes(t.s, topic, 9)
	const publications = 200
	for range publications {
		published(t, t.s, topic, "a", true, 1)
	}
	if n := len(little.received()); n < 1 || n > publications*3/10 { // 20 are expected; by chance once in 10^9
		t.Errorf("a receiver with a tenth of the room received %d of %d", n, publications)
	}
	published(t, t.s, topic, "b", false, 10)
	if n := len(much.received()); n < publications*7/10 {
		t.Errorf("a receiver with nine tenths of the room received %d of %d", n, publications)
	}
}

func publishesEach(t *check) {
	topic := t.name("topic")
	a, _ := t.subscribes(t.s, topic, 1)
	b, _ := t.subscribes(t.s, topic, 3)
	c, _ := t.subscribes(t.s, topic, 1)
	published(t, t.s, topic, "a", false, 5)
	published(t, t.s, topic, "b", false, 5)
	for _, l := range []*listener{a, b, c} {
		t.equal("received", l.received(), []string{"a", "b"})
	}
}

func publishesNobody(t *check) {
	topic := t.name("topic")
	t.subscribes(t.s, t.name("topic"), 1)
	published(t, t.s, topic, "a", true, 0)
	published(t, t.s, topic, "a", false, 0)
	l, _ := t.subscribes(t.s, topic, 1)
	t.equal("received of what was published before", l.received(), nil)
}

func publishesWhoWouldTake(t *check) {
	topic := t.name("topic")
	full, _ := t.subscribes(t.s, topic, 0)
	published(t, t.s, topic, "a", true, 0)
	published(t, t.s, topic, "a", false, 0)
	l, _ := t.subscribes(t.s, topic, 1)
	for range 20 {
		published(t, t.s, topic, "b", true, 1)
	}
	published(t, t.s, topic, "c", false, 1)
	if n := len(l.received()); n != 21 || len(full.received()) != 0 {
		t.Errorf("received %d, and %d by a receiver without room; want 21 and none", n, len(full.received()))
	}
	// A receiver may refuse what it would have taken when it was asked.
	fickle, err := t.s.Subscribe(t.ctx, topic, func(_ []byte, most int) int { return max(0, 1-most) })
	t.ok(err)
	defer fickle.Close()
	for range 20 {
		published(t, t.s, topic, "d", true, 1)
	}
}

func hearsUntilClosed(t *check) {
	topic := t.name("topic")
	closed, h := t.subscribes(t.s, topic, 1)
	open, _ := t.subscribes(t.s, topic, 1)
	published(t, t.s, topic, "a", false, 2)
	select {
	case <-h.Lost():
		t.Error("a Registration is lost that works")
	default:
	}
	h.Close()
	h.Close()
	published(t, t.s, topic, "b", false, 1)
	published(t, t.s, topic, "c", true, 1)
	t.equal("received until Close", closed.received(), []string{"a"})
	t.equal("received", open.received(), []string{"a", "b", "c"})
}

func publishesConcurrently(t *check) {
	topic := t.name("topic")
	var list []*listener
	for range 3 {
		l, _ := t.subscribes(t.s, topic, 1)
		list = append(list, l)
	}
	var (
		all  sync.WaitGroup
		want []string
	)
	for g := range 4 {
		for i := range 10 {
			want = append(want, fmt.Sprint(g, i))
		}
		all.Go(func() {
			for i := range 10 {
				if n, err := t.s.Publish(t.ctx, topic, []byte(fmt.Sprint(g, i)), true); n != 1 || err != nil {
					t.Errorf("received by %d, error %v", n, err)
				}
				other, err := t.s.Subscribe(t.ctx, topic, func([]byte, int) int { return 0 })
				if err != nil {
					t.Errorf("subscribe: %v", err)
					return
				}
				other.Close()
			}
		})
	}
	all.Wait()
	var got []string
	for _, l := range list {
		got = append(got, l.received()...)
	}
	t.same("received", got, want)
}

func publishedDataIsOwn(t *check) {
	topic := t.name("topic")
	var (
		mu   sync.Mutex
		kept [][]byte
	)
	for range 2 {
		h, err := subscribesWith(t, topic, func(data []byte, most int) int {
			mu.Lock()
			defer mu.Unlock()
			if most == 0 {
				clear(data)
				return 1
			}
			kept = append(kept, data)
			return 1
		})
		t.ok(err)
		defer h.Close()
	}
	data := []byte("data")
	for _, one := range []bool{true, false} {
		_, err := t.s.Publish(t.ctx, topic, data, one)
		t.ok(err)
		t.bytesEqual("what was published", data, []byte("data"))
	}
	clear(data)
	mu.Lock()
	defer mu.Unlock()
	if len(kept) != 3 {
		t.Fatalf("%d were published; want one and two", len(kept))
	}
	for _, b := range kept {
		t.bytesEqual("received", b, []byte("data"))
		clear(b[:cap(b)])
	}
}

// subscribesWith is Subscribe in the shared store, or leaves the test out.
func subscribesWith(t *check, topic string, receiver storage.Receiver) (*storage.Registration, error) {
	t.Helper()
	if !t.s.Rings() {
		t.leaveOut("nothing rings")
	}
	return t.s.Subscribe(t.ctx, topic, receiver)
}

func tellSizes(t *check) {
	topic := t.name("topic")
	var want []string
	l, _ := t.subscribes(t.s, topic, 1)
	for i, n := range []int{0, 1, storage.MaxPublish - 1, storage.MaxPublish} {
		data := filled(n, byte(i))
		want = append(want, string(data))
		published(t, t.s, topic, string(data), i%2 == 0, 1)
	}
	for _, n := range []int{storage.MaxPublish + 1, 1 << 20} {
		_, err := t.s.Publish(t.ctx, topic, bytes.Repeat([]byte(secret), n/len(secret)+1), false)
		t.fails(err, storage.ErrTooLarge, topic)
	}
	t.equal("received", l.received(), want)
}

func earPanics(t *check) {
	topic := t.name("topic")
	h, err := subscribesWith(t, topic, func([]byte, int) int { panic(secret) })
	t.ok(err)
	defer h.Close()
	l, _ := t.subscribes(t.s, topic, 1)
	published(t, t.s, topic, "a", true, 1)
	published(t, t.s, topic, "b", false, 1)
	t.equal("received", l.received(), []string{"a", "b"})
}

func tellBadly(t *check) {
	topic := t.name("topic")
	l, _ := t.subscribes(t.s, topic, 1)
	for _, name := range []string{"", "Bad_Name", "\x00"} {
		_, err := t.s.Subscribe(t.ctx, name, l.subscribe)
		t.fails(err, storage.ErrInvalid, "topic")
		_, err = t.s.Publish(t.ctx, name, []byte(secret), true)
		t.fails(err, storage.ErrInvalid, "topic")
	}
	_, err := t.s.Subscribe(t.ctx, topic, nil)
	t.fails(err, storage.ErrInvalid, topic)
	cause := errors.New("enough")
	ended, cancel := context.WithCancelCause(t.ctx)
	cancel(cause)
	_, err = t.s.Subscribe(ended, topic, l.subscribe)
	t.fails(err, cause, topic)
	_, err = t.s.Publish(ended, topic, []byte(secret), false)
	t.fails(err, cause, topic)
	t.equal("received", l.received(), nil)
}

// reaches publishes to each from s. Each listener must receive it, and the answers must say so, perhaps at another try:
// a process may be too slow to answer in time.
func reaches(t *check, s *storage.Store, topic, data string, list ...*listener) {
	t.Helper()
	n := publish(t, s, topic, data, false)
	if n > len(list) {
		t.Errorf("%d took it; want %d", n, len(list))
	}
	for _, l := range list {
		t.eventually("each subscribes what is published", func() bool {
			return strings.Contains(strings.Join(l.received(), "\n"), data)
		})
	}
	t.eventually("each answers", func() bool { return n == len(list) || publish(t, s, topic, data, false) == len(list) })
}

func publishesSecond(t *check) {
	a := t.own()
	topic := t.name("topic")
	first, _ := t.subscribes(a, topic, 1)
	b := t.again(a)
	reaches(t, b, topic, "from b", first) // a store without receivers publishes, too
	second, h := t.subscribes(b, topic, 1)
	reaches(t, a, topic, "from a", first, second)
	reaches(t, b, topic, "from b again", first, second)
	h.Close()
	reaches(t, a, topic, "without b", first)
	if got := strings.Join(second.received(), "\n"); strings.Contains(got, "without b") {
		t.Error("a closed Registration receives what another store publishes")
	}
}

func publishesOneOfTwoStores(t *check) {
	a := t.own()
	topic := t.name("topic")
	near, _ := t.subscribes(a, topic, 1)
	b := t.again(a)
	far, _ := t.subscribes(b, topic, 1)
	big := string(filled(storage.MaxPublish-8, 1))
	const publications = 40
	took := 0
	for i := range publications {
		took += publish(t, a, topic, fmt.Sprintf("%8d", i)+big, true)
	}
	got := append(near.received(), far.received()...)
	times := map[string]int{}
	for _, data := range got {
		times[data]++
	}
	if took != len(got) || len(times) != len(got) {
		t.Errorf("%d of %d took it, %d were received, %d of them different; want all the same", took, publications, len(got), len(times))
	}
	if len(near.received()) == 0 || len(far.received()) == 0 { // by chance once in 2^39
		t.Errorf("the own receiver received %d, the one in the other store %d", len(near.received()), len(far.received()))
	}
	published(t, b, t.name("topic"), "a", true, 0)
}

func hearsUntilStoreCloses(t *check) {
	s := t.own()
	topic := t.name("topic")
	l, h := t.subscribes(s, topic, 1)
	t.ok(s.Close())
	t.within("waiting for the loss that Close brings", func() { <-h.Lost() })
	_, err := s.Subscribe(t.ctx, topic, l.subscribe)
	t.fails(err, storage.ErrUnavailable, topic)
	_, err = s.Publish(t.ctx, topic, []byte(secret), true)
	t.fails(err, storage.ErrUnavailable, topic)
	h.Close()
	t.equal("received", l.received(), nil)
}

func tellUnsupported(t *check) {
	if t.s.Rings() {
		t.leaveOut("it rings")
	}
	topic := t.name("topic")
	_, err := t.s.Subscribe(t.ctx, topic, func([]byte, int) int { return 1 })
	t.fails(err, storage.ErrUnsupported, topic)
	if !strings.Contains(err.Error(), "doorbell") {
		t.Errorf("error %v; want that it says how to get what is missing", err)
	}
	_, err = t.s.Publish(t.ctx, topic, []byte(secret), true)
	t.fails(err, storage.ErrUnsupported, topic)
}
