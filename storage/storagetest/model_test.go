package storagetest_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// model is the smallest driver that keeps the laws: maps under a mutex. It shows that the suite can be passed, and
// that the suite fails a store that breaks a law: bug names one deliberate fault (see broken_test.go).
type model struct {
	*place
	closed atomic.Bool
}

// place is the state that several openings share.
type place struct {
	bug    string
	coarse bool // whole seconds, like Azure Storage

	mu     sync.Mutex // guards all fields below
	seq    int64      // numbers receipts and ETags
	queues map[string][]*message
	docs   map[string]map[string]*document // by "blobs NAME", "rows NAME" and key
	perKey map[string]int64                // for a bug: ETags numbered by key
	subs   map[string][]*modelSubscription // by topic
	claims map[string][]*modelClaim        // by queue
	sends  int                             // calls of send
	calls  atomic.Int64                    // calls that have ended; needs no lock

	earsMu    sync.Mutex // a bug may hold mu for ever
	receivers []*modelRegistration
}

type message struct {
	body       []byte
	receipt    storage.Receipt
	deliveries int
	sent, from time.Time // from is when it becomes receivable
	delayed    bool
	key        string
	received   bool // since it was sent or rewritten
}

type document struct {
	body []byte
	etag storage.ETag
	when time.Time
}

func newPlace(bug string) *place {
	return &place{bug: bug, queues: map[string][]*message{}, docs: map[string]map[string]*document{}, perKey: map[string]int64{}, subs: map[string][]*modelSubscription{}, claims: map[string][]*modelClaim{}}
}

func (p *place) open() *model { return &model{place: p} }

func (p *place) store() *storage.Store { return storage.New(p.open()) }

// has reports whether the model has one of these bugs.
func (p *place) has(bugs ...string) bool { return slices.Contains(bugs, p.bug) }

// letIn releases the lock where a correct store wouldn't, until others have made a few calls.
func (p *place) letIn() {
	p.mu.Unlock()
	p.awaitCalls()
	p.mu.Lock()
}

// awaitCalls returns when others have made a few calls. A busy machine may not run them at once, so a number of turns
// of the scheduler isn't enough. Without others it returns after a while.
func (p *place) awaitCalls() {
	seen, over := p.calls.Load(), time.Now().Add(20*time.Millisecond)
	for yield(); p.calls.Load() < seen+4 && time.Now().Before(over); {
		yield()
	}
}

// yield lets other goroutines run.
func yield() {
	for range 1000 {
		runtime.Gosched()
	}
}

func (m *model) Props() storage.Props {
	p := storage.Props{Driver: "model", MaxMessage: 48 << 10, MaxBlob: 1 << 20, MaxRow: 32 << 10, MaxReceive: 32, PollInterval: time.Second}
	if m.has("props without a limit") {
		p.MaxRow = 0
	}
	return p
}

func (m *model) Queue(name string) driver.Queue  { return modelQueue{m, name} }
func (m *model) Blobs(name string) driver.Blobs  { return modelBlobs{m, name} }
func (m *model) Table(name string) driver.Table  { return modelTable{m, name} }
func (m *model) Committer() driver.Committer     { return m }
func (m *model) Listener() driver.Listener       { return m }
func (m *model) Finder() driver.Finder           { return m }
func (m *model) Lister() driver.Lister           { return m }
func (m *model) Peeker() driver.Peeker           { return m }
func (m *model) Inspector() driver.Inspector     { return nil }
func (m *model) PublicFiles() driver.PublicFiles { return nil }
func (m *model) Files() driver.Files             { return nil }
func (m *model) Requests() []driver.Requests     { return nil }

func (m *model) Close() error {
	if m.closed.Swap(true) && m.has("second close fails") {
		return storage.ErrUnavailable
	}
	m.deafen()
	return nil
}

// do runs f under the lock, unless the store is closed or the context has ended.
func (m *model) do(ctx context.Context, op string, f func() error) error {
	var err error
	if m.closed.Load() && !m.has("works after close") {
		err = storage.ErrUnavailable
	}
	if err == nil && ctx.Err() != nil && !m.has("ignores the context") {
		if err = context.Cause(ctx); m.has("hides the cause") {
			err = ctx.Err()
		}
	}
	if err == nil {
		m.mu.Lock()
		err = f()
		m.mu.Unlock()
		m.calls.Add(1)
	}
	if m.has("uses a body after a cancelled call") && op == "send" && err == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	if err != nil && m.has("wraps twice") {
		inner := &storage.Error{Op: op, Resource: "something", Err: err}
		err = &storage.Error{Op: op, Resource: "something", Err: inner}
	}
	return err
}

func (p *place) next() string {
	p.seq++
	return strconv.FormatInt(p.seq, 10)
}

func (p *place) copied(b []byte, alias string) []byte {
	if p.has(alias) {
		return b
	}
	return append(make([]byte, 0, len(b)), b...)
}

func (p *place) at(d time.Duration) time.Time {
	if p.coarse && d > 0 {
		return time.Now().Add(d).Truncate(time.Second)
	}
	return time.Now().Add(d)
}

// Commit implements driver.Committer.
func (m *model) Commit(ctx context.Context, w storage.Work) (done storage.Committed, err error) {
	if m.has("hangs half-way when cancelled") {
		defer func() {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		}()
	}
	err = m.do(ctx, "commit", func() error {
		sendAll := func() {
			for _, s := range w.Send {
				m.add(s.Queue, s.Message)
			}
		}
		putRows := func() {
			for _, r := range w.Rows.Puts {
				_, _ = m.put(modelTable{m, w.Rows.Table}.shelf(w.Rows.Partition), r.Key, r.Data, storage.Condition{})
			}
		}
		if m.has("commit sends before the condition") {
			sendAll()
		}
		if w.Rows != nil && m.has("commit puts rows before the condition") {
			putRows()
		}
		if x := w.Write; x != nil {
			etag, err := m.put("blobs "+x.Container, x.Key, x.Body, x.If)
			if err != nil {
				if m.has("commit deletes whatever the condition") {
					for _, c := range w.Delete {
						m.remove(c.Queue, []storage.Receipt{c.Receipt})
					}
				}
				return err
			}
			done.ETag = etag
		}
		if x := w.Rows; x != nil && !m.has("commit forgets the rows") {
			putRows()
		}
		if m.has("commit is visible half-way") {
			m.letIn()
		}
		if m.has("hangs half-way when cancelled") {
			m.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
			m.mu.Lock()
			if ctx.Err() != nil {
				return nil
			}
		}
		switch p := m.place; {
		case m.has("commit sends before the condition"):
		case m.has("commit forgets the last send"):
			for _, s := range w.Send[:max(0, len(w.Send)-1)] {
				p.add(s.Queue, s.Message)
			}
		default:
			sendAll()
		}
		for _, c := range w.Delete {
			dead := m.remove(c.Queue, []storage.Receipt{c.Receipt})
			if len(dead) > 0 && m.has("commit fails on a dead receipt") {
				return storage.ErrReceiptStale
			}
			if len(dead) > 0 && !m.has("commit tells of no dead receipt") {
				done.Stale = append(done.Stale, c)
			}
		}
		return nil
	})
	return done, err
}

// id returns the key of a stored document.
func (p *place) id(key string) string {
	switch p.bug {
	case "keys without case":
		return strings.ToLower(key)
	case "keys composed":
		return strings.ReplaceAll(key, "e\u0301", "\u00e9")
	case "keys decoded":
		return strings.NewReplacer("%2F", "/", "%2f", "/", "%20", " ").Replace(key)
	case "keys trimmed":
		return strings.TrimRight(key, ". ")
	case "keys cut":
		return key[:min(len(key), 255)]
	case "keys with the other slash":
		return strings.ReplaceAll(key, `\`, "/")
	}
	return key
}

// put writes a document. mu is held.
func (p *place) put(shelf, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	old := p.docs[shelf][p.id(key)]
	switch {
	case p.has("put ignores conditions"):
	case cond.IfAbsent && old != nil && !p.has("put ignores if-absent"):
		return "", storage.ErrExists
	case p.has("any etag matches the star") && cond.IfMatch == "*" && old != nil:
	case p.has("if-match creates") && old == nil:
	case cond.IfMatch != "" && (old == nil || old.etag != cond.IfMatch) && !p.has("put ignores if-match"):
		if p.has("tells bodies in errors") {
			return "", fmt.Errorf("%w: %.40s", storage.ErrPrecondition, body)
		}
		return "", storage.ErrPrecondition
	}
	if p.has("puts race") {
		p.letIn()
	}
	etag := p.next()
	switch p.bug {
	case "etags of content":
		etag = fmt.Sprintf("%x", body)
	case "etags by key":
		if old == nil {
			p.perKey[shelf+key] = 0
		}
		p.perKey[shelf+key]++
		etag = strconv.FormatInt(p.perKey[shelf+key], 10)
	case "no etags":
		etag = ""
	}
	if p.docs[shelf] == nil {
		p.docs[shelf] = map[string]*document{}
	}
	p.docs[shelf][p.id(key)] = &document{body: p.copied(body, "keeps what is put"), etag: storage.ETag(etag), when: time.Now()}
	return storage.ETag(etag), nil
}

func (p *place) get(shelf, key string) (*document, error) {
	d := p.docs[shelf][p.id(key)]
	if d == nil {
		if p.has("missing is empty") {
			return &document{}, nil
		}
		return nil, storage.ErrNotFound
	}
	return d, nil
}

func (p *place) drop(shelf, key string, cond storage.Condition) error {
	d := p.docs[shelf][p.id(key)]
	switch {
	case d == nil && p.has("deleting nothing is fine"):
	case d == nil && p.has("deleting nothing is a lost race") && cond.IfMatch != "":
		return storage.ErrPrecondition
	case d == nil:
		return storage.ErrNotFound
	case p.has("delete ignores conditions"):
	case cond.IfMatch != "" && cond.IfMatch != d.etag:
		return storage.ErrPrecondition
	}
	delete(p.docs[shelf], p.id(key))
	return nil
}

// sorted lists the keys of a shelf that f accepts, in order. mu is held.
func (p *place) sorted(shelf string, f func(key string) bool) []string {
	keys := slices.Sorted(maps.Keys(p.docs[shelf]))
	switch p.bug {
	case "lists without order":
		keys = slices.Collect(maps.Keys(p.docs[shelf]))
	case "lists in UTF-16 order":
		slices.SortFunc(keys, func(a, b string) int { return slices.Compare(utf16(a), utf16(b)) })
	case "lists without case":
		slices.SortStableFunc(keys, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	case "lists one page":
		keys = keys[:min(len(keys), 1000)]
	}
	return slices.DeleteFunc(keys, func(k string) bool { return !f(k) })
}

// page is how many items a listing reads at a time.
const page = 100

// listing yields in pages what read returns from a key on.
func listing[T any](ctx context.Context, m *model, limit int, read func(from string) ([]T, string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		n, from := 0, ""
		for {
			var items []T
			var last string
			read1 := func() error { items, last = read(from); return nil }
			if err := m.do(ctx, "list", read1); err != nil {
				if m.has("listings hide cancellation") && n > 0 {
					return
				}
				yield(none, err)
				return
			}
			for _, it := range items {
				if n++; limit > 0 && n > limit && !m.has("query ignores the limit") || !yield(it, nil) {
					return
				}
				if ctx.Err() != nil && !m.has("ignores the context") {
					break
				}
			}
			if len(items) < page && (ctx.Err() == nil || m.has("ignores the context")) {
				return
			}
			if from = last + "\x00"; m.has("pages overlap") {
				from = last
				if len(items) < 2 {
					return
				}
			}
		}
	}
}

func utf16(s string) []uint16 {
	var out []uint16
	for _, r := range s {
		if r >= 0x10000 {
			r -= 0x10000
			out = append(out, uint16(0xd800+r>>10), uint16(0xdc00+r&0x3ff))
			continue
		}
		out = append(out, uint16(r))
	}
	return out
}
