package azure

import (
	"bytes"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
)

// disturbed opens a store whose requests can be disturbed.
func disturbed(t *testing.T) (*opened, *faults) {
	t.Helper()
	return disturbedAt(t, testURL(t))
}

func disturbedAt(t *testing.T, url string) (*opened, *faults) {
	t.Helper()
	f := &faults{}
	s := openBy(t, url, func(next policy.Transporter) policy.Transporter {
		f.next = next
		return f
	})
	s.d.timing = timing{tryTime, time.Millisecond, 1 << 30}
	return s, f
}

// An act is an operation under test: prepare returns the call, and a check of what must be true after it.
type act struct {
	name  string
	never bool // the driver never repeats it
	sure  bool // repeated only after a request that certainly had no effect
	reads bool // reads after a lost answer, to learn the outcome

	choose func(*http.Request) bool // the request to disturb; nil for the first

	prepare func(t *testing.T, s *opened) (call func() error, after func(t *testing.T, err error))

	// silent checks the store after an answer that began but whose body never came, so that the SDK gave up.
	silent func(t *testing.T, s *opened)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// received makes a queue with one message and receives it.
func received(t *testing.T, s *opened) (*storage.Queue, storage.Delivery) {
	t.Helper()
	q := s.Queue("jobs")
	noError(t, q.Send(t.Context(), []storage.Message{{Body: []byte("job")}}))
	got := must[[]storage.Delivery](t)(q.Receive(t.Context(), 1, time.Minute))
	if len(got) != 1 {
		t.Fatalf("received %d", len(got))
	}
	return q, got[0]
}

func bodies(t *testing.T, q *storage.Queue) []string {
	t.Helper()
	var list []string
	for _, d := range must[[]storage.Delivery](t)(q.Receive(t.Context(), 32, time.Minute)) {
		list = append(list, string(d.Body))
	}
	return list
}

func acts() []act {
	return []act{
		{name: "send", silent: func(t *testing.T, s *opened) {
			if got := bodies(t, s.Queue("jobs")); !slices.Equal(got, []string{"a"}) {
				t.Errorf("the queue holds %q", got)
			}
		}, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q, d := received(t, s)
			noError(t, q.Delete(t.Context(), []storage.Receipt{d.Receipt}))
			return func() error { return q.Send(t.Context(), []storage.Message{{Body: []byte("a")}}) },
				func(t *testing.T, err error) {
					noError(t, err)
					got := bodies(t, q)
					if len(got) == 0 || len(got) > 2 || len(slices.Compact(got)) != 1 {
						t.Errorf("the queue holds %q; want the message, at most twice", got)
					}
				}
		}},
		{name: "receive", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q := s.Queue("jobs")
			noError(t, q.Send(t.Context(), []storage.Message{{Body: []byte("a")}}))
			var got []storage.Delivery
			return func() (err error) { got, err = q.Receive(t.Context(), 32, time.Second); return err },
				func(t *testing.T, err error) {
					noError(t, err)
					for len(got) == 0 && t.Context().Err() == nil { // it comes back
						got = must[[]storage.Delivery](t)(q.Receive(t.Context(), 32, time.Second))
					}
					if len(got) != 1 || string(got[0].Body) != "a" {
						t.Errorf("received %d messages; want the one", len(got))
					}
				}
		}},
		{name: "extend", never: true, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q, d := received(t, s)
			var next storage.Receipt
			return func() (err error) { next, err = q.Extend(t.Context(), d.Receipt, time.Minute); return err },
				func(t *testing.T, err error) {
					if err == nil {
						noError(t, q.Delete(t.Context(), []storage.Receipt{next}))
						return
					}
					if !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled) {
						t.Errorf("extend: %v", err)
					}
				}
		}},
		{name: "rewrite", sure: true, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q, d := received(t, s)
			return func() error { return q.Rewrite(t.Context(), d.Receipt, []byte("new"), 0) },
				func(t *testing.T, err error) {
					got := bodies(t, q)
					if err == nil && !slices.Equal(got, []string{"new"}) {
						t.Errorf("rewritten, and the queue holds %q", got)
					}
					if err != nil && !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled) {
						t.Errorf("rewrite: %v", err)
					}
				}
		}},
		{name: "delete messages", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q, d := received(t, s)
			return func() error { return q.Delete(t.Context(), []storage.Receipt{d.Receipt}) },
				func(t *testing.T, err error) {
					// After a lost answer nobody can know whose request deleted it.
					if err != nil && !errors.Is(err, storage.ErrReceiptStale) {
						t.Errorf("delete: %v", err)
					}
					if st := must[storage.Stats](t)(q.Stats(t.Context())); st.Ready != 0 || st.InFlight != 0 {
						t.Errorf("%+v", st)
					}
				}
		}},
		{name: "stats", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q, _ := received(t, s)
			return func() error { _, err := q.Stats(t.Context()); return err }, noErrorAfter
		}},
		{name: "stats peek", choose: func(req *http.Request) bool { return req.URL.Query().Has("peekonly") }, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q := s.Queue("jobs")
			noError(t, q.Send(t.Context(), []storage.Message{{Body: []byte("a")}}))
			var st storage.Stats
			return func() (err error) { st, err = q.Stats(t.Context()); return err }, func(t *testing.T, err error) {
				noError(t, err)
				if st.Ready != 1 {
					t.Errorf("%+v; want one ready", st)
				}
			}
		}},
		{name: "list blobs", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			must[storage.ETag](t)(s.Blobs("docs").Put(t.Context(), "a", nil, storage.Condition{}))
			return listing(s.Blobs("docs").List(t.Context(), ""))
		}},
		{name: "query rows", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			must[storage.ETag](t)(s.Table("rows").Put(t.Context(), "p", "a", nil, storage.Condition{}))
			return listing(s.Table("rows").Query(t.Context(), "p", storage.RowRange{}))
		}},
		{name: "create queue", choose: creates("/jobs"), prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			q := s.Queue("jobs")
			return func() error { return q.Send(t.Context(), []storage.Message{{Body: []byte("a")}}) }, func(t *testing.T, err error) {
				noError(t, err)
				if got := bodies(t, q); !slices.Equal(got, []string{"a"}) {
					t.Errorf("the queue holds %q", got)
				}
			}
		}},
		{name: "create container", choose: creates("/docs"), prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			return created(t, docsOf(s)["blob"])
		}},
		{name: "create table", choose: creates("/Tables"), silent: func(t *testing.T, s *opened) {
			d := docsOf(s)["row"] // not written, but it can be
			_, after := created(t, d)
			must[storage.ETag](t)(d.put(t, "first", storage.Condition{IfAbsent: true}))
			after(t, nil)
		}, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			return created(t, docsOf(s)["row"])
		}},
		{name: "put rows together", silent: func(t *testing.T, s *opened) {
			if r := must[storage.Row](t)(s.Table("rows").Get(t.Context(), "p", "b")); string(r.Data) != "2" {
				t.Errorf("row b holds %q", r.Data)
			}
		}, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			rows := []storage.RowPut{{Key: "a", Data: []byte("1")}, {Key: "b", Data: []byte("2")}}
			tab := s.Table("rows")
			noError(t, tab.PutBatch(t.Context(), "p", rows[:1]))
			return func() error { return tab.PutBatch(t.Context(), "p", rows) }, func(t *testing.T, err error) {
				noError(t, err)
				if r := must[storage.Row](t)(s.Table("rows").Get(t.Context(), "p", "b")); string(r.Data) != "2" {
					t.Errorf("row b holds %q", r.Data)
				}
			}
		}},
	}
}

// creates chooses the request that creates a missing container or table.
func creates(path string) func(*http.Request) bool {
	return func(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, path) }
}

// created writes the first document of a container or table. No other caller may have written it by then.
func created(t *testing.T, d doc) (func() error, func(*testing.T, error)) {
	return func() error { _, err := d.put(t, "first", storage.Condition{IfAbsent: true}); return err }, func(t *testing.T, err error) {
		noError(t, err)
		if got, _, err := d.get(t); err != nil || got != "first" {
			t.Errorf("holds %q, %v", got, err)
		}
	}
}

// listing reads a listing that has one item.
func listing[T any](items iter.Seq2[T, error]) (func() error, func(*testing.T, error)) {
	n := 0
	return func() error {
			for _, err := range items {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		}, func(t *testing.T, err error) {
			noError(t, err)
			if n != 1 {
				t.Errorf("%d items; want 1", n)
			}
		}
}

func noErrorAfter(t *testing.T, err error) { t.Helper(); noError(t, err) }

// doc is a blob or a row: both have the same guarantees.
type doc struct {
	get    func(t *testing.T) (string, storage.ETag, error)
	put    func(t *testing.T, body string, cond storage.Condition) (storage.ETag, error)
	remove func(t *testing.T, cond storage.Condition) error
}

func docsOf(s *opened) map[string]doc {
	b, tab := s.Blobs("docs"), s.Table("rows")
	return map[string]doc{
		"blob": {
			get: func(t *testing.T) (string, storage.ETag, error) {
				x, err := b.Get(t.Context(), "doc", "")
				return string(x.Body), x.ETag, err
			},
			put: func(t *testing.T, body string, cond storage.Condition) (storage.ETag, error) {
				return b.Put(t.Context(), "doc", []byte(body), cond)
			},
			remove: func(t *testing.T, cond storage.Condition) error { return b.Delete(t.Context(), "doc", cond) },
		},
		"row": {
			get: func(t *testing.T) (string, storage.ETag, error) {
				x, err := tab.Get(t.Context(), "p", "doc")
				return string(x.Data), x.ETag, err
			},
			put: func(t *testing.T, body string, cond storage.Condition) (storage.ETag, error) {
				return tab.Put(t.Context(), "p", "doc", []byte(body), cond)
			},
			remove: func(t *testing.T, cond storage.Condition) error { return tab.Delete(t.Context(), "p", "doc", cond) },
		},
	}
}

// docActs are the operations on documents. All are repeated, and their outcome is known in the end.
func docActs(kind string) []act {
	written := func(body string) func(s *opened, tag *storage.ETag) func(*testing.T, error) {
		return func(s *opened, tag *storage.ETag) func(*testing.T, error) {
			return func(t *testing.T, err error) {
				noError(t, err)
				got, now, err := docsOf(s)[kind].get(t)
				if err != nil || got != body || now != *tag {
					t.Errorf("holds %q with %s, %v; want %q with the ETag that was returned, %s", got, now, err, body, *tag)
				}
			}
		}
	}
	gone := func(t *testing.T, s *opened, err error) {
		noError(t, err)
		if got, _, err := docsOf(s)[kind].get(t); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("holds %q, %v; want nothing", got, err)
		}
	}
	return []act{
		{name: kind + " get", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			d := docsOf(s)[kind]
			must[storage.ETag](t)(d.put(t, "body", storage.Condition{}))
			var got string
			return func() (err error) { got, _, err = d.get(t); return err }, func(t *testing.T, err error) {
				noError(t, err)
				if got != "body" {
					t.Errorf("got %q", got)
				}
			}
		}},
		{name: kind + " put", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			d, tag := docsOf(s)[kind], new(storage.ETag)
			must[storage.ETag](t)(d.put(t, "old", storage.Condition{}))
			return func() (err error) { *tag, err = d.put(t, "new", storage.Condition{}); return err }, written("new")(s, tag)
		}},
		{name: kind + " put if absent", reads: true, silent: func(t *testing.T, s *opened) {
			if got, _, err := docsOf(s)[kind].get(t); err != nil || got != "new" {
				t.Errorf("holds %q, %v", got, err)
			}
		}, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			d, tag := docsOf(s)[kind], new(storage.ETag)
			must[storage.ETag](t)(d.put(t, "old", storage.Condition{})) // creates the container
			noError(t, d.remove(t, storage.Condition{}))
			return func() (err error) { *tag, err = d.put(t, "new", storage.Condition{IfAbsent: true}); return err }, written("new")(s, tag)
		}},
		{name: kind + " put if match", reads: true, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			d, tag := docsOf(s)[kind], new(storage.ETag)
			old := must[storage.ETag](t)(d.put(t, "old", storage.Condition{}))
			return func() (err error) { *tag, err = d.put(t, "new", storage.Condition{IfMatch: old}); return err }, written("new")(s, tag)
		}},
		{name: kind + " delete", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			d := docsOf(s)[kind]
			must[storage.ETag](t)(d.put(t, "old", storage.Condition{}))
			return func() error { return d.remove(t, storage.Condition{}) }, func(t *testing.T, err error) { gone(t, s, err) }
		}},
		{name: kind + " delete if match", reads: kind == "blob", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			d := docsOf(s)[kind]
			old := must[storage.ETag](t)(d.put(t, "old", storage.Condition{}))
			return func() error { return d.remove(t, storage.Condition{IfMatch: old}) }, func(t *testing.T, err error) { gone(t, s, err) }
		}},
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, a := range slices.Concat(acts(), docActs("blob"), docActs("row"), fileActs()) {
		for _, x := range allFaults() {
			t.Run(a.name+"/"+x.name, func(t *testing.T) {
				t.Parallel()
				s, f := disturbed(t)
				call, after := a.prepare(t, s)
				f.arm(aimed{fault: x, choose: a.choose})
				err := call()
				log, pause := f.made()
				if x.throttled != errors.Is(err, storage.ErrThrottled) && a.never {
					t.Errorf("throttled by the service: %v; error: %v", x.refused, err)
				}
				repeats := !a.never && (!a.sure || x.refused)
				if x.name == "slow body" && len(slices.Compact(slices.Clone(log))) == len(log) {
					// Either there was no body to wait for, or the SDK gave up: it doesn't repeat a POST whose answer has begun.
					switch {
					case err == nil || a.never || a.sure:
						after(t, err)
					case !errors.Is(err, storage.ErrUnavailable) || storage.LostRace(err) || a.silent == nil:
						t.Errorf("%v", err)
					default:
						a.silent(t, s)
					}
					return
				}
				if repeated := len(slices.Compact(slices.Clone(log))) < len(log); repeated != repeats {
					t.Errorf("repeated: %v; want %v: %q", repeated, repeats, log)
				}
				if x.name == "503" && repeats && pause < time.Second {
					t.Errorf("repeated after %v, though the service asked for 1 s", pause)
				}
				if repeats && a.sure && err != nil {
					t.Errorf("repeated after a refusal: %v", err)
				}
				if len(log) > 4 {
					t.Errorf("%d requests: %q", len(log), log)
				}
				after(t, err)
			})
		}
	}
}

// Another writer may write between a write whose answer is lost and its repeat. Then nobody can know the outcome.
func TestLostAnswerAndAnotherWriter(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"blob", "row"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, f := disturbed(t)
			d := docsOf(s)[kind]
			old := must[storage.ETag](t)(d.put(t, "old", storage.Condition{}))
			lose := named("answer lost").do
			f.arm(aimed{fault: fault{do: func(f *faults, req *http.Request) (*http.Response, error) {
				resp, err := lose(f, req)
				must[storage.ETag](t)(d.put(t, "theirs", storage.Condition{}))
				return resp, err
			}}})
			_, err := d.put(t, "mine", storage.Condition{IfMatch: old})
			if !errors.Is(err, storage.ErrUnavailable) || storage.LostRace(err) {
				t.Errorf("put: %v; want an unknown outcome", err)
			}
			if got, _, err := d.get(t); err != nil || got != "theirs" {
				t.Errorf("holds %q, %v", got, err)
			}
		})
	}
}

// A call whose tries are never answered returns ErrUnavailable in bounded time, and tells no secret.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, x := range allFaults() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s, f := disturbed(t)
			_, d := received(t, s)
			if x.name == "503" { // without its Retry-After of one second
				x.do = func(_ *faults, req *http.Request) (*http.Response, error) {
					return respond(req, 503, "ServerBusy"), nil
				}
			}
			want := storage.ErrUnavailable
			if x.throttled {
				want = storage.ErrThrottled
			}
			f.arm(aimed{fault: x, always: true})
			err := s.Queue("jobs").Rewrite(t.Context(), d.Receipt, bytes.Repeat([]byte("x"), 10), 0)
			if x.name != "slow body" && !errors.Is(err, want) {
				t.Errorf("rewrite: %v; want %v", err, want)
			}
			_, err = s.Blobs("docs").Get(t.Context(), "doc", "")
			if !errors.Is(err, want) && !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("get: %v; want %v", err, want)
			}
			if log, _ := f.made(); len(log) > 1+2*maxTries*maxTries {
				t.Errorf("%d requests", len(log))
			}
			for _, secret := range []string{devKey, "sig=", "http://"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells %q: %v", secret, err)
				}
			}
		})
	}
}
