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

func tellTests() []test {
	return []test{
		{"ready when hear returns", hearIsReady},
		{"to one of many", tellsOne},
		{"to one by their room", tellsByRoom},
		{"to each of many", tellsEach},
		{"to nobody", tellsNobody},
		{"to those that would take it", tellsWhoWouldTake},
		{"after close no more", hearsUntilClosed},
		{"concurrently", tellsConcurrently},
		{"data is the ear's own", toldDataIsOwn},
		{"data of any size up to the limit", tellSizes},
		{"an ear that panics", earPanics},
		{"bad calls", tellBadly},
		{"a second store hears and tells", tellsSecond},
		{"one over two stores", tellsOneOfTwoStores},
		{"close of the store", hearsUntilStoreCloses},
		{"unsupported where nothing rings", tellUnsupported},
	}
}

// A listener is an ear that takes everything, or as much as it has room for.
type listener struct {
	room int // for each telling

	mu   sync.Mutex
	got  []string
	most []int // with which it was given something
}

func (l *listener) hear(data []byte, most int) int {
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

func (l *listener) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

// hears has a listener hear a topic until the test ends, or leaves the test out.
func (t *check) hears(s *storage.Store, topic string, room int) (*listener, *storage.Registration) {
	t.Helper()
	if !s.Rings() {
		t.leaveOut("nothing rings")
	}
	l := &listener{room: room}
	h, err := s.Subscribe(t.ctx, topic, l.hear)
	t.ok(err)
	t.Cleanup(h.Close)
	return l, h
}

func tell(t *check, s *storage.Store, topic, data string, one bool) int {
	t.Helper()
	n, err := s.Publish(t.ctx, topic, []byte(data), one)
	t.ok(err)
	return n
}

// told tells, and wants a count.
func told(t *check, s *storage.Store, topic, data string, one bool, want int) {
	t.Helper()
	if n := tell(t, s, topic, data, one); n != want {
		t.Errorf("one %v: %d took it; want %d", one, n, want)
	}
}

func hearIsReady(t *check) {
	for i := range 20 {
		topic := t.name("topic")
		l, _ := t.hears(t.s, topic, 1)
		told(t, t.s, topic, "a", i%2 == 0, 1)
		t.equal("heard", l.heard(), []string{"a"})
	}
}

func tellsOne(t *check) {
	topic := t.name("topic")
	a, _ := t.hears(t.s, topic, 1)
	b, _ := t.hears(t.s, topic, 1)
	other, _ := t.hears(t.s, t.name("topic"), 1)
	const tells = 60
	var want []string
	for i := range tells {
		want = append(want, fmt.Sprint(i))
		told(t, t.s, topic, fmt.Sprint(i), true, 1)
	}
	t.same("heard by two", append(a.heard(), b.heard()...), want)
	if x, y := len(a.heard()), len(b.heard()); x == 0 || y == 0 { // by chance once in 2^59
		t.Errorf("of %d tellings to one of two, one heard %d and the other %d", tells, x, y)
	}
	t.equal("heard on another topic", other.heard(), nil)
	for _, most := range append(a.most, b.most...) {
		if most != 1 {
			t.Errorf("told to one, an ear was given %d", most)
		}
	}
}

func tellsByRoom(t *check) {
	topic := t.name("topic")
	little, _ := t.hears(t.s, topic, 1)
	much, _ := t.hears(t.s, topic, 9)
	const tells = 200
	for range tells {
		told(t, t.s, topic, "a", true, 1)
	}
	if n := len(little.heard()); n < 1 || n > tells*3/10 { // 20 are expected; by chance once in 10^9
		t.Errorf("an ear with a tenth of the room heard %d of %d", n, tells)
	}
	told(t, t.s, topic, "b", false, 10)
	if n := len(much.heard()); n < tells*7/10 {
		t.Errorf("an ear with nine tenths of the room heard %d of %d", n, tells)
	}
}

func tellsEach(t *check) {
	topic := t.name("topic")
	a, _ := t.hears(t.s, topic, 1)
	b, _ := t.hears(t.s, topic, 3)
	c, _ := t.hears(t.s, topic, 1)
	told(t, t.s, topic, "a", false, 5)
	told(t, t.s, topic, "b", false, 5)
	for _, l := range []*listener{a, b, c} {
		t.equal("heard", l.heard(), []string{"a", "b"})
	}
}

func tellsNobody(t *check) {
	topic := t.name("topic")
	t.hears(t.s, t.name("topic"), 1)
	told(t, t.s, topic, "a", true, 0)
	told(t, t.s, topic, "a", false, 0)
	l, _ := t.hears(t.s, topic, 1)
	t.equal("heard of what was told before", l.heard(), nil)
}

func tellsWhoWouldTake(t *check) {
	topic := t.name("topic")
	full, _ := t.hears(t.s, topic, 0)
	told(t, t.s, topic, "a", true, 0)
	told(t, t.s, topic, "a", false, 0)
	l, _ := t.hears(t.s, topic, 1)
	for range 20 {
		told(t, t.s, topic, "b", true, 1)
	}
	told(t, t.s, topic, "c", false, 1)
	if n := len(l.heard()); n != 21 || len(full.heard()) != 0 {
		t.Errorf("heard %d, and %d by an ear without room; want 21 and none", n, len(full.heard()))
	}
	// An ear may refuse what it would have taken when it was asked.
	fickle, err := t.s.Subscribe(t.ctx, topic, func(_ []byte, most int) int { return max(0, 1-most) })
	t.ok(err)
	defer fickle.Close()
	for range 20 {
		told(t, t.s, topic, "d", true, 1)
	}
}

func hearsUntilClosed(t *check) {
	topic := t.name("topic")
	closed, h := t.hears(t.s, topic, 1)
	open, _ := t.hears(t.s, topic, 1)
	told(t, t.s, topic, "a", false, 2)
	select {
	case <-h.Lost():
		t.Error("a Hearing is lost that works")
	default:
	}
	h.Close()
	h.Close()
	told(t, t.s, topic, "b", false, 1)
	told(t, t.s, topic, "c", true, 1)
	t.equal("heard until Close", closed.heard(), []string{"a"})
	t.equal("heard", open.heard(), []string{"a", "b", "c"})
}

func tellsConcurrently(t *check) {
	topic := t.name("topic")
	var list []*listener
	for range 3 {
		l, _ := t.hears(t.s, topic, 1)
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
					t.Errorf("heard by %d, error %v", n, err)
				}
				other, err := t.s.Subscribe(t.ctx, topic, func([]byte, int) int { return 0 })
				if err != nil {
					t.Errorf("hear: %v", err)
					return
				}
				other.Close()
			}
		})
	}
	all.Wait()
	var got []string
	for _, l := range list {
		got = append(got, l.heard()...)
	}
	t.same("heard", got, want)
}

func toldDataIsOwn(t *check) {
	topic := t.name("topic")
	var (
		mu   sync.Mutex
		kept [][]byte
	)
	for range 2 {
		h, err := hearsWith(t, topic, func(data []byte, most int) int {
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
		t.bytesEqual("what was told", data, []byte("data"))
	}
	clear(data)
	mu.Lock()
	defer mu.Unlock()
	if len(kept) != 3 {
		t.Fatalf("%d were told; want one and two", len(kept))
	}
	for _, b := range kept {
		t.bytesEqual("heard", b, []byte("data"))
		clear(b[:cap(b)])
	}
}

// hearsWith is Hear in the shared store, or leaves the test out.
func hearsWith(t *check, topic string, ear storage.Receiver) (*storage.Registration, error) {
	t.Helper()
	if !t.s.Rings() {
		t.leaveOut("nothing rings")
	}
	return t.s.Subscribe(t.ctx, topic, ear)
}

func tellSizes(t *check) {
	topic := t.name("topic")
	var want []string
	l, _ := t.hears(t.s, topic, 1)
	for i, n := range []int{0, 1, storage.MaxPublish - 1, storage.MaxPublish} {
		data := filled(n, byte(i))
		want = append(want, string(data))
		told(t, t.s, topic, string(data), i%2 == 0, 1)
	}
	for _, n := range []int{storage.MaxPublish + 1, 1 << 20} {
		_, err := t.s.Publish(t.ctx, topic, bytes.Repeat([]byte(secret), n/len(secret)+1), false)
		t.fails(err, storage.ErrTooLarge, topic)
	}
	t.equal("heard", l.heard(), want)
}

func earPanics(t *check) {
	topic := t.name("topic")
	h, err := hearsWith(t, topic, func([]byte, int) int { panic(secret) })
	t.ok(err)
	defer h.Close()
	l, _ := t.hears(t.s, topic, 1)
	told(t, t.s, topic, "a", true, 1)
	told(t, t.s, topic, "b", false, 1)
	t.equal("heard", l.heard(), []string{"a", "b"})
}

func tellBadly(t *check) {
	topic := t.name("topic")
	l, _ := t.hears(t.s, topic, 1)
	for _, name := range []string{"", "Bad_Name", "\x00"} {
		_, err := t.s.Subscribe(t.ctx, name, l.hear)
		t.fails(err, storage.ErrInvalid, "topic")
		_, err = t.s.Publish(t.ctx, name, []byte(secret), true)
		t.fails(err, storage.ErrInvalid, "topic")
	}
	_, err := t.s.Subscribe(t.ctx, topic, nil)
	t.fails(err, storage.ErrInvalid, topic)
	cause := errors.New("enough")
	ended, cancel := context.WithCancelCause(t.ctx)
	cancel(cause)
	_, err = t.s.Subscribe(ended, topic, l.hear)
	t.fails(err, cause, topic)
	_, err = t.s.Publish(ended, topic, []byte(secret), false)
	t.fails(err, cause, topic)
	t.equal("heard", l.heard(), nil)
}

// reaches tells each from s. Each listener must hear it, and the answers must say so, perhaps at another try: a process
// may be too slow to answer in time.
func reaches(t *check, s *storage.Store, topic, data string, list ...*listener) {
	t.Helper()
	n := tell(t, s, topic, data, false)
	if n > len(list) {
		t.Errorf("%d took it; want %d", n, len(list))
	}
	for _, l := range list {
		t.eventually("each hears what is told", func() bool {
			return strings.Contains(strings.Join(l.heard(), "\n"), data)
		})
	}
	t.eventually("each answers", func() bool { return n == len(list) || tell(t, s, topic, data, false) == len(list) })
}

func tellsSecond(t *check) {
	a := t.own()
	topic := t.name("topic")
	first, _ := t.hears(a, topic, 1)
	b := t.again(a)
	reaches(t, b, topic, "from b", first) // a store that hears nothing tells, too
	second, h := t.hears(b, topic, 1)
	reaches(t, a, topic, "from a", first, second)
	reaches(t, b, topic, "from b again", first, second)
	h.Close()
	reaches(t, a, topic, "without b", first)
	if got := strings.Join(second.heard(), "\n"); strings.Contains(got, "without b") {
		t.Error("a closed Hearing hears what another store tells")
	}
}

func tellsOneOfTwoStores(t *check) {
	a := t.own()
	topic := t.name("topic")
	near, _ := t.hears(a, topic, 1)
	b := t.again(a)
	far, _ := t.hears(b, topic, 1)
	big := string(filled(storage.MaxPublish-8, 1))
	const tells = 40
	took := 0
	for i := range tells {
		took += tell(t, a, topic, fmt.Sprintf("%8d", i)+big, true)
	}
	got := append(near.heard(), far.heard()...)
	times := map[string]int{}
	for _, data := range got {
		times[data]++
	}
	if took != len(got) || len(times) != len(got) {
		t.Errorf("%d of %d took it, %d were heard, %d of them different; want all the same", took, tells, len(got), len(times))
	}
	if len(near.heard()) == 0 || len(far.heard()) == 0 { // by chance once in 2^39
		t.Errorf("the own ear heard %d, the one in the other store %d", len(near.heard()), len(far.heard()))
	}
	told(t, b, t.name("topic"), "a", true, 0)
}

func hearsUntilStoreCloses(t *check) {
	s := t.own()
	topic := t.name("topic")
	l, h := t.hears(s, topic, 1)
	t.ok(s.Close())
	t.within("waiting for the loss that Close brings", func() { <-h.Lost() })
	_, err := s.Subscribe(t.ctx, topic, l.hear)
	t.fails(err, storage.ErrUnavailable, topic)
	_, err = s.Publish(t.ctx, topic, []byte(secret), true)
	t.fails(err, storage.ErrUnavailable, topic)
	h.Close()
	t.equal("heard", l.heard(), nil)
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
