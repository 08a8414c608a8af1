package storage_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// script is a driver that lists its calls, and answers all of them with one error.
type script struct {
	atomic, rings, finds bool
	err                  error
	errs                 map[string]error // by operation, instead of err

	mu    sync.Mutex
	asked []string // under mu
}

func (s *script) do(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, op)
	name, _, _ := strings.Cut(op, ":")
	if err, ok := s.errs[name]; ok {
		return err
	}
	return s.err
}

// calls lists the driver's calls, and forgets them.
func (s *script) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *script) Props() driver.Props {
	return driver.Props{Driver: "script", MaxMessage: 4, MaxBlob: 5, MaxRow: 40_000, MaxReceive: 3, PollInterval: time.Second}
}
func (s *script) Queue(name string) driver.Queue { return scriptQueue{s, name} }
func (s *script) Blobs(name string) driver.Blobs { return scriptBlobs{s} }
func (s *script) Table(name string) driver.Table { return scriptTable{s} }
func (s *script) Requests() []driver.Requests    { return nil }
func (s *script) Close() error                   { return nil }
func (s *script) Committer() driver.Committer {
	if s.atomic {
		return s
	}
	return nil
}
func (s *script) Listener() driver.Listener {
	if s.rings {
		return s
	}
	return nil
}
func (s *script) Finder() driver.Finder {
	if s.finds {
		return s
	}
	return nil
}
func (s *script) Lister() driver.Lister           { return nil }
func (s *script) Peeker() driver.Peeker           { return s }
func (s *script) Inspector() driver.Inspector     { return nil }
func (s *script) PublicFiles() driver.PublicFiles { return nil }
func (s *script) Files() driver.Files             { return nil }
func (s *script) Peek(context.Context, string) iter.Seq2[driver.Peeked, error] {
	return scripted[driver.Peeked](s, "peek")
}
func (s *script) Find(context.Context, string, string) ([]driver.Delivery, error) {
	return nil, s.do("find")
}
func (s *script) Commit(context.Context, driver.Work) (driver.Committed, error) {
	return driver.Committed{}, s.do("commit")
}
func (s *script) Ring(topic string) { _ = s.do("ring: " + topic) }
func (s *script) Listen(topic string) driver.Subscription {
	_ = s.do("listen: " + topic)
	return scriptSubscription{s}
}

func (s *script) Subscribe(_ context.Context, topic string, _ driver.Receiver) (driver.Registration, error) {
	return nil, s.do("subscribe: " + topic)
}
func (s *script) Publish(_ context.Context, topic string, data []byte, one bool) (int, error) {
	return 0, s.do(fmt.Sprint("publish: ", topic, " ", len(data), one))
}

type scriptSubscription struct{ s *script }

func (x scriptSubscription) Rings() <-chan struct{} { return make(chan struct{}, 1) }
func (x scriptSubscription) Close()                 { _ = x.s.do("close") }
func (x scriptSubscription) Claim(most int, _ time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	_ = x.s.do(fmt.Sprint("claim: ", most))
	return make(chan struct{}), func(context.Context) ([]driver.Delivery, time.Time) { return nil, time.Time{} }
}

type scriptQueue struct {
	s    *script
	name string
}

func (q scriptQueue) Send(_ context.Context, m []driver.Message) error {
	return q.s.do(fmt.Sprint("send: ", len(m)))
}
func (q scriptQueue) Receive(_ context.Context, most int, _ time.Duration) ([]driver.Delivery, error) {
	return nil, q.s.do(fmt.Sprint("receive: ", most))
}
func (q scriptQueue) Extend(context.Context, driver.Receipt, time.Duration) (driver.Receipt, error) {
	return "", q.s.do("extend")
}
func (q scriptQueue) Rewrite(context.Context, driver.Receipt, []byte, time.Duration) error {
	return q.s.do("rewrite")
}
func (q scriptQueue) Delete(_ context.Context, rs []driver.Receipt) error {
	return q.s.do(fmt.Sprint("delete: ", len(rs)))
}
func (q scriptQueue) Stats(context.Context) (driver.Stats, error) {
	return driver.Stats{}, q.s.do("stats")
}

type scriptBlobs struct{ s *script }

func (b scriptBlobs) Get(context.Context, string, driver.ETag) (driver.Blob, error) {
	return driver.Blob{}, b.s.do("get")
}
func (b scriptBlobs) Put(context.Context, string, []byte, driver.Condition) (driver.ETag, error) {
	return "etag", b.s.do("put")
}
func (b scriptBlobs) Delete(context.Context, string, driver.Condition) error {
	return b.s.do("delete blob")
}
func (b scriptBlobs) List(context.Context, string, string) iter.Seq2[driver.BlobInfo, error] {
	return scripted[driver.BlobInfo](b.s, "list")
}

type scriptTable struct{ s *script }

func (t scriptTable) Get(context.Context, string, string) (driver.Row, error) {
	return driver.Row{}, t.s.do("get row")
}
func (t scriptTable) Put(context.Context, string, string, []byte, driver.Condition) (driver.ETag, error) {
	return "etag", t.s.do("put row")
}
func (t scriptTable) Delete(context.Context, string, string, driver.Condition) error {
	return t.s.do("delete row")
}
func (t scriptTable) Query(context.Context, string, driver.RowRange) iter.Seq2[driver.Row, error] {
	return scripted[driver.Row](t.s, "query")
}
func (t scriptTable) PutBatch(_ context.Context, _ string, rows []driver.RowPut) error {
	return t.s.do(fmt.Sprint("put batch: ", len(rows)))
}
func (t scriptTable) DeleteBatch(_ context.Context, _ string, keys []string) error {
	return t.s.do(fmt.Sprint("delete batch: ", len(keys)))
}

// scripted is a listing that goes on after its error, as no listing may.
func scripted[T any](s *script, op string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := s.do(op); err != nil && !yield(none, err) {
			return
		}
		yield(none, nil)
	}
}

// A call is one call of a store.
type call struct {
	name string
	do   func(ctx context.Context, s *storage.Store) error
}

// at holds a call's places: queue, container and table have one name.
type at struct{ name, partition, key string }

// callsAt lists a good call of each method. Bad names and keys come with the place.
func callsAt(x at) []call {
	body := []byte("body")
	return []call{
		{"send", func(ctx context.Context, s *storage.Store) error {
			return s.Queue(x.name).Send(ctx, []storage.Message{{Body: body}})
		}},
		{"receive", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Queue(x.name).Receive(ctx, 1, time.Minute)
			return err
		}},
		{"extend", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Queue(x.name).Extend(ctx, "r", 0)
			return err
		}},
		{"rewrite", func(ctx context.Context, s *storage.Store) error {
			return s.Queue(x.name).Rewrite(ctx, "r", body, 0)
		}},
		{"delete", func(ctx context.Context, s *storage.Store) error {
			return s.Queue(x.name).Delete(ctx, []storage.Receipt{"r"})
		}},
		{"stats", func(ctx context.Context, s *storage.Store) error { _, err := s.Queue(x.name).Stats(ctx); return err }},
		{"peek", func(ctx context.Context, s *storage.Store) (last error) {
			for _, err := range s.Queue(x.name).Peek(ctx) {
				last = err
			}
			return last
		}},
		{"find key", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Queue(x.name).Find(ctx, x.key)
			return err
		}},
		{"get blob", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Blobs(x.name).Get(ctx, x.key, "")
			return err
		}},
		{"put blob", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Blobs(x.name).Put(ctx, x.key, body, storage.Condition{})
			return err
		}},
		{"delete blob", func(ctx context.Context, s *storage.Store) error {
			return s.Blobs(x.name).Delete(ctx, x.key, storage.Condition{})
		}},
		{"list", func(ctx context.Context, s *storage.Store) error { return only(s.Blobs(x.name).List(ctx, "")) }},
		{"get row", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Table(x.name).Get(ctx, x.partition, x.key)
			return err
		}},
		{"put row", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Table(x.name).Put(ctx, x.partition, x.key, body, storage.Condition{})
			return err
		}},
		{"delete row", func(ctx context.Context, s *storage.Store) error {
			return s.Table(x.name).Delete(ctx, x.partition, x.key, storage.Condition{})
		}},
		{"query", func(ctx context.Context, s *storage.Store) error {
			return only(s.Table(x.name).Query(ctx, x.partition, storage.RowRange{}))
		}},
		{"put batch", func(ctx context.Context, s *storage.Store) error {
			return s.Table(x.name).PutBatch(ctx, x.partition, []storage.RowPut{{Key: x.key}})
		}},
		{"delete batch", func(ctx context.Context, s *storage.Store) error {
			return s.Table(x.name).DeleteBatch(ctx, x.partition, []string{x.key})
		}},
		{"commit rows", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Commit(ctx, storage.Work{Rows: &storage.Rows{Table: x.name, Partition: x.partition, Puts: []storage.RowPut{{Key: x.key}}}})
			return err
		}},
		{"commit write", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Commit(ctx, storage.Work{Write: &storage.Write{Container: x.name, Key: x.key, Body: body}})
			return err
		}},
		{"commit send", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Commit(ctx, storage.Work{Send: []storage.Send{{Queue: x.name, Message: storage.Message{Body: body}}}})
			return err
		}},
		{"commit delete", func(ctx context.Context, s *storage.Store) error {
			_, err := s.Commit(ctx, storage.Work{Delete: []storage.Claim{{Queue: x.name, Receipt: "r"}}})
			return err
		}},
	}
}

// only reads a listing and returns its error, which must come last and once.
func only[T any](seq iter.Seq2[T, error]) error {
	var failed error
	for _, err := range seq {
		if failed != nil {
			return fmt.Errorf("the listing goes on after its error %v", failed)
		}
		failed = err
	}
	return failed
}

var goodPlace = at{"place", "p", "k"}

// onBoth runs a test on a store whose commits are atomic, and on a store that does them step by step.
func onBoth(t *testing.T, test func(t *testing.T, d *script, s *storage.Store)) {
	t.Helper()
	for _, atomic := range []bool{false, true} {
		t.Run(fmt.Sprint("atomic ", atomic), func(t *testing.T) {
			t.Parallel()
			d := &script{atomic: atomic, rings: true, finds: true}
			test(t, d, storage.New(d))
		})
	}
}

// refused demands an error of a kind with operation and resource, and no call of the driver.
func refused(t *testing.T, d *script, name string, err, kind error) {
	t.Helper()
	var e *storage.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) || e.Op == "" || e.Resource == "" {
		t.Errorf("%s: got %v, want a *storage.Error of %q", name, err, kind)
	}
	if asked := d.calls(); len(asked) > 0 {
		t.Errorf("%s: the driver was asked %q", name, asked)
	}
}

func TestBadNamesAndKeysNeverReachTheDriver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *script, s *storage.Store) {
		hasKey := func(name string) bool {
			return strings.Contains(name, "blob") || strings.Contains(name, "row") || strings.Contains(name, "batch") || name == "commit write" || name == "find key"
		}
		hasPartition := func(name string) bool {
			return strings.Contains(name, "row") || strings.Contains(name, "batch") || name == "query"
		}
		for _, bad := range []string{"", "A", "a\x00", strings.Repeat("k", 257)} {
			for _, c := range callsAt(at{bad, "p", "k"}) {
				refused(t, d, c.name+" at a bad name", c.do(t.Context(), s), storage.ErrInvalid)
			}
			if bad == "A" { // a good key
				continue
			}
			for _, c := range callsAt(at{"place", "p", bad}) {
				if hasKey(c.name) {
					refused(t, d, c.name+" at a bad key", c.do(t.Context(), s), storage.ErrInvalid)
				}
			}
			for _, c := range callsAt(at{"place", bad, "k"}) {
				if hasPartition(c.name) {
					refused(t, d, c.name+" at a bad partition", c.do(t.Context(), s), storage.ErrInvalid)
				}
			}
			sub := s.Listen(bad)
			_, _, ok := sub.Claim(1, time.Minute)
			s.Ring(bad)
			sub.Close()
			if asked := d.calls(); ok || sub.Rings() != nil || len(asked) > 0 {
				t.Errorf("topic %q: claims %v, rings %v, the driver was asked %q", bad, ok, sub.Rings() != nil, asked)
			}
		}
	})
}

func TestAnEndedContextNeverReachesTheDriver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *script, s *storage.Store) {
		cause := errors.New("had enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for _, c := range callsAt(goodPlace) {
			refused(t, d, c.name, c.do(ctx, s), cause)
		}
		err := s.Queue("place").Send(ctx, []storage.Message{{Delay: -1}})
		refused(t, d, "content and context", err, storage.ErrInvalid)
	})
}

func TestBadContentNeverReachesTheDriver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *script, s *storage.Store) {
		ctx := t.Context()
		q, b, tab := s.Queue("place"), s.Blobs("place"), s.Table("place")
		receive := func(most int, v time.Duration) error { _, err := q.Receive(ctx, most, v); return err }
		extend := func(v time.Duration) error { _, err := q.Extend(ctx, "r", v); return err }
		put := func(size int, c storage.Condition) error {
			_, err := b.Put(ctx, "k", make([]byte, size), c)
			return err
		}
		putRow := func(size int, c storage.Condition) error {
			_, err := tab.Put(ctx, "p", "k", make([]byte, size), c)
			return err
		}
		commit := func(w storage.Work) error { _, err := s.Commit(ctx, w); return err }
		both := storage.Condition{IfAbsent: true, IfMatch: "e"}
		rows := func(n, size int) (rows []storage.RowPut, keys []string) {
			for i := range n {
				keys = append(keys, fmt.Sprint(i))
				rows = append(rows, storage.RowPut{Key: keys[i], Data: make([]byte, size)})
			}
			return rows, keys
		}
		many, manyKeys := rows(storage.MaxBatchRows+1, 0)
		large, _ := rows(100, storage.MaxBatchBytes/100+1)
		good := storage.Message{Body: []byte("1234"), Delay: storage.MaxDelay, Key: "key"}
		for name, x := range map[string]struct{ got, want error }{
			"message":         {q.Send(ctx, []storage.Message{good, {Body: []byte("12345")}}), storage.ErrTooLarge},
			"early delay":     {q.Send(ctx, []storage.Message{good, {Delay: -1}}), storage.ErrInvalid},
			"key":             {q.Send(ctx, []storage.Message{good, {Key: "a\n"}}), storage.ErrInvalid},
			"late delay":      {q.Send(ctx, []storage.Message{good, {Delay: storage.MaxDelay + 1}}), storage.ErrInvalid},
			"no message":      {receive(0, time.Minute), storage.ErrInvalid},
			"short receive":   {receive(1, storage.MinVisibility-1), storage.ErrInvalid},
			"long receive":    {receive(1, storage.MaxVisibility+1), storage.ErrInvalid},
			"short extend":    {extend(1), storage.ErrInvalid},
			"negative extend": {extend(-1), storage.ErrInvalid},
			"long extend":     {extend(storage.MaxVisibility + 1), storage.ErrInvalid},
			"rewritten body":  {q.Rewrite(ctx, "r", make([]byte, 5), 0), storage.ErrTooLarge},
			"rewritten delay": {q.Rewrite(ctx, "r", nil, -1), storage.ErrInvalid},
			"blob":            {put(6, storage.Condition{}), storage.ErrTooLarge},
			"conditions":      {put(0, both), storage.ErrInvalid},
			"blob deletion":   {b.Delete(ctx, "k", storage.Condition{IfAbsent: true}), storage.ErrInvalid},
			"row":             {putRow(40_001, storage.Condition{}), storage.ErrTooLarge},
			"row conditions":  {putRow(0, both), storage.ErrInvalid},
			"row deletion":    {tab.Delete(ctx, "p", "k", storage.Condition{IfAbsent: true}), storage.ErrInvalid},
			"large row":       {tab.PutBatch(ctx, "p", []storage.RowPut{{Key: "a"}, {Key: "b", Data: make([]byte, 40_001)}}), storage.ErrTooLarge},
			"many rows":       {tab.PutBatch(ctx, "p", many), storage.ErrInvalid},
			"large batch":     {tab.PutBatch(ctx, "p", large), storage.ErrInvalid},
			"key twice":       {tab.PutBatch(ctx, "p", []storage.RowPut{{Key: "a"}, {Key: "a"}}), storage.ErrInvalid},
			"many deleted":    {tab.DeleteBatch(ctx, "p", manyKeys), storage.ErrInvalid},
			"deleted twice":   {tab.DeleteBatch(ctx, "p", []string{"a", "a"}), storage.ErrInvalid},
			"commit write":    {commit(storage.Work{Write: &storage.Write{Container: "docs", Key: "k", Body: make([]byte, 6)}}), storage.ErrTooLarge},
			"commit if":       {commit(storage.Work{Write: &storage.Write{Container: "docs", Key: "k", If: both}}), storage.ErrInvalid},
			"commit row":      {commit(storage.Work{Rows: &storage.Rows{Table: "rows", Partition: "p", Puts: []storage.RowPut{{Key: "a", Data: make([]byte, 40_001)}}}}), storage.ErrTooLarge},
			"commit rows":     {commit(storage.Work{Rows: &storage.Rows{Table: "rows", Partition: "p", Puts: []storage.RowPut{{Key: "a"}, {Key: "a"}}}}), storage.ErrInvalid},
			"commit send": {commit(storage.Work{Write: &storage.Write{Container: "docs", Key: "k"},
				Send: []storage.Send{{Queue: "queue", Message: storage.Message{Body: make([]byte, 5)}}}}), storage.ErrTooLarge},
			"commit claim": {commit(storage.Work{Write: &storage.Write{Container: "docs", Key: "k"}, Delete: []storage.Claim{{Queue: "Q"}}}), storage.ErrInvalid},
		} {
			refused(t, d, name, x.got, x.want)
		}
		if err := q.Send(ctx, []storage.Message{good, {Delay: -1}}); !strings.Contains(err.Error(), "message 2 of 2") {
			t.Errorf("got %v, want the bad message named", err)
		}
		sub := s.Listen("queue")
		d.calls()
		for _, v := range []time.Duration{0, storage.MinVisibility - 1, storage.MaxVisibility + 1} {
			if _, _, ok := sub.Claim(1, v); ok {
				t.Errorf("a claim for %v", v)
			}
		}
		if _, _, ok := sub.Claim(0, time.Minute); ok || len(d.calls()) > 0 {
			t.Error("a bad claim reached the driver")
		}
	})
}

func TestGoodCallsReachTheDriver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *script, s *storage.Store) {
		ctx := t.Context()
		for _, c := range callsAt(goodPlace) {
			if err := c.do(ctx, s); err != nil || len(d.calls()) != 1 {
				t.Errorf("%s: got %v and not one call of the driver", c.name, err)
			}
		}
		q, tab := s.Queue("place"), s.Table("place")
		rows := make([]storage.RowPut, 2*storage.MaxBatchRows+1)
		keys := make([]string, len(rows))
		for i := range rows {
			keys[i] = fmt.Sprint(i)
			rows[i].Key = keys[i]
		}
		for i := range 60 {
			rows[i].Data = make([]byte, 40_000) // 52 of them are a batch
		}
		for name, x := range map[string]struct {
			do   func() error
			want []string
		}{
			"nothing": {func() error {
				return errors.Join(q.Send(ctx, nil), q.Delete(ctx, nil), tab.PutBatch(ctx, "p", nil), tab.DeleteBatch(ctx, "p", nil))
			}, nil},
			"much":        {func() error { _, err := q.Receive(ctx, 1<<40, time.Minute); return err }, []string{"receive: 3"}},
			"no rows":     {func() error { return errors.Join(tab.PutRows(ctx, "p", nil), tab.DeleteRows(ctx, "p", nil)) }, nil},
			"many rows":   {func() error { return tab.PutRows(ctx, "p", rows) }, []string{"put batch: 52", "put batch: 100", "put batch: 49"}},
			"many keys":   {func() error { return tab.DeleteRows(ctx, "p", keys) }, []string{"delete batch: 100", "delete batch: 100", "delete batch: 1"}},
			"any row key": {func() error { return only(tab.Query(ctx, "p", storage.RowRange{From: "\x00", To: "\xff"})) }, []string{"query"}},
			"longest": {func() error {
				_, err := q.Extend(ctx, "r", storage.MaxVisibility)
				return errors.Join(err, q.Rewrite(ctx, "r", make([]byte, 4), storage.MaxDelay))
			}, []string{"extend", "rewrite"}},
			"a topic": {func() error {
				sub := s.Listen("topic")
				sub.Claim(10, time.Minute)
				s.Ring("topic")
				sub.Close()
				return nil
			}, []string{"listen: topic", "claim: 3", "ring: topic", "close"}},
		} {
			if err := x.do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := d.calls(); !slices.Equal(got, x.want) {
				t.Errorf("%s: the driver was asked %q, want %q", name, got, x.want)
			}
		}
	})
}

func TestWithoutAListenerNothingRings(t *testing.T) {
	t.Parallel()
	s := storage.New(&script{})
	sub := s.Listen("queue")
	s.Ring("queue")
	_, _, ok := sub.Claim(1, time.Minute)
	sub.Close()
	if s.Rings() || sub.Rings() != nil || ok {
		t.Errorf("rings %v, has a channel %v, claims %v; want nothing of it", s.Rings(), sub.Rings() != nil, ok)
	}
}

func TestWithoutAFinderNothingIsFound(t *testing.T) {
	t.Parallel()
	s := storage.New(&script{})
	_, err := s.Queue("queue").Find(t.Context(), "key")
	if s.Finds() || !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("finds %v, error %v; want false and %v", s.Finds(), err, storage.ErrUnsupported)
	}
}
