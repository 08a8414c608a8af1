package values_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// collectionOf is a collection as in one process, with a cache of its own.
func collectionOf[V any](t testing.TB, s *storage.Store, cfg values.Config[V]) *values.Collection[V] {
	t.Helper()
	return values.New(worldtest.New(t, s, worldtest.Config{}).Channels, "things", cfg)
}

// changed makes changes of functions, each with a message of its own.
func changed[V any](t testing.TB, folds ...func(V) (V, error)) []values.Change[V] {
	t.Helper()
	changes := make([]values.Change[V], len(folds))
	for i, f := range folds {
		e := worldtest.Envelope(newID(), Add{})
		changes[i] = values.Change[V]{Envelope: &e, Fold: func(v V) (V, []channel.Message, error) {
			v, err := f(v)
			return v, nil, err
		}}
	}
	return changes
}

// noted is a value that holds a map.
type noted struct {
	N     int            `json:"n"`
	Notes map[string]int `json:"notes,omitempty"`
}

// set makes a change of a function that can't fail.
func set[V any](f func(V) V) func(V) (V, error) {
	return func(v V) (V, error) { return f(v), nil }
}

func valueOf[V any](t testing.TB, s *storage.Store) V {
	t.Helper()
	d, err := collectionOf(t, s, values.Config[V]{}).Get(t.Context(), "k", "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Value
}

// counter would sell three at most, if JSON kept how many it has sold.
type counter struct{ sold int }

func (c counter) sell() (counter, error) {
	if c.sold < 3 {
		c.sold++
	}
	return c, nil
}

// A type of which JSON keeps nothing is refused: it would work until the first restart.
func TestTypeOfWhichNothingIsKept(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	c := collectionOf(t, s, values.Config[counter]{})
	const want = "JSON keeps no field of values_test.counter (values_test.counter.sold)"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("check: got error %v, want one with %q", err, want)
	}
	if err := c.Apply(t.Context(), "k", changed(t, counter.sell), nil)[0].Err; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("apply: got error %v, want one with %q", err, want)
	}
	if _, err := c.Get(t.Context(), "k", ""); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("get: got error %v, want one with %q", err, want)
	}
	if err := collectionOf(t, s, values.Config[map[string][]counter]{}).Check(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("within others: got error %v, want one with %q", err, want)
	}
}

// The values of a law test: each shows something else that only memory has.
type (
	loose map[string]any

	memo struct {
		N    int
		Memo int `json:"-"`
	}
	emptied struct {
		N    int
		Tags []string       `json:",omitempty"`
		By   map[string]int `json:",omitempty"`
	}
	timed  struct{ At time.Time }
	shared struct{ A, B map[string]int }
	lists  struct{ All, Some []int }
	boxed  struct{ X any }
	half   struct {
		Left int
		sold int
	}
)

// A decision sees its value as the stored document gives it back. It makes no difference whether messages come together
// or one by one, whether the document is in memory, and whether another message of the fold has failed.
func TestDecisionsSeeWhatIsStored(t *testing.T) {
	t.Parallel()
	t.Run("numbers in anything", func(t *testing.T) {
		seeSame(t, func(v loose) loose {
			if v == nil {
				v = loose{}
			}
			n, _ := v["n"].(float64)
			v["n"] = int(n) + 1
			v["list"] = []int{int(n)}
			return v
		}, func(v loose) string { return fmt.Sprintf("%T %T %v", v["n"], v["list"], v) })
	})
	t.Run("a box", func(t *testing.T) {
		seeSame(t, func(boxed) boxed { return boxed{half{Left: 1, sold: 2}} }, func(v boxed) string { return fmt.Sprintf("%#v", v) })
	})
	t.Run("left out", func(t *testing.T) {
		seeSame(t, func(v memo) memo { return memo{v.N + 1, v.Memo + 1} }, func(v memo) string { return fmt.Sprint(v) })
	})
	t.Run("not exported", func(t *testing.T) {
		seeSame(t, func(v half) half { return half{v.Left + 1, v.sold + 1} }, func(v half) string { return fmt.Sprint(v) })
	})
	t.Run("empty or nil", func(t *testing.T) {
		seeSame(t, func(v emptied) emptied { return emptied{v.N + 1, make([]string, v.N%2), map[string]int{}} },
			func(v emptied) string { return fmt.Sprint(v.Tags == nil, v.By == nil, v.N) })
	})
	t.Run("times", func(t *testing.T) {
		zone := time.FixedZone("CET", 3600)
		seeSame(t, func(v timed) timed { return timed{time.Date(2026, 12, 24, 0, 0, 0, 0, zone)} },
			func(v timed) string { return fmt.Sprintf("%v %#v", v.At.Location(), v.At) })
	})
	t.Run("one map twice", func(t *testing.T) {
		seeSame(t, func(v shared) shared {
			if v.A == nil {
				m := map[string]int{}
				return shared{m, m}
			}
			v.A["n"]++
			return v
		}, func(v shared) string { return fmt.Sprint(v) })
	})
	t.Run("room behind a list", func(t *testing.T) {
		seeSame(t, func(v lists) lists {
			if v.All == nil {
				all := []int{1, 2, 3}
				return lists{all, all[:1]}
			}
			v.Some = append(v.Some, 9)
			return v
		}, func(v lists) string { return fmt.Sprint(v) })
	})
}

// seeSame lets five messages do the same in several ways, and compares the values that they saw.
func seeSame[V any](t *testing.T, do func(V) V, see func(V) string) {
	t.Parallel()
	const n = 5
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var want []string
		for _, way := range []struct {
			name                   string
			together, fresh, fails bool
		}{
			{name: "each after a restart", fresh: true},
			{name: "one by one"}, {name: "together", together: true}, {name: "together with one that fails", together: true, fails: true},
		} {
			var saw []string
			c := collectionOf(t, s, values.Config[V]{})
			folds := make([]func(V) (V, error), n)
			for i := range folds {
				folds[i] = func(v V) (V, error) {
					saw = append(saw[:min(i, len(saw))], see(v))
					return do(v), nil
				}
			}
			if way.fails {
				folds = slices.Insert(folds, 3, func(v V) (V, error) { do(v); return v, errors.New("refused") })
			}
			for changes := changed(t, folds...); len(changes) > 0; {
				step := 1
				if way.together {
					step = len(changes)
				}
				for _, err := range errsOf(c.Apply(t.Context(), "k", changes[:step], nil)) {
					if err != nil && !way.fails {
						t.Fatal(err)
					}
				}
				if changes = changes[step:]; way.fresh {
					c = collectionOf(t, s, values.Config[V]{})
				}
			}
			if want == nil {
				want = saw
			}
			if !slices.Equal(saw, want) {
				t.Errorf("%s: got\n%q, want\n%q", way.name, saw, want)
			}
			if err := c.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// blind can be encoded, and never decoded.
type blind struct{ N int }

func (*blind) UnmarshalJSON([]byte) error { return errors.New("blind") }

// A value that can't be read again is not written.
func TestValueThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		c := collectionOf(t, s, values.Config[map[string]*blind]{})
		add := func(key string, b *blind) func(map[string]*blind) (map[string]*blind, error) {
			return set(func(v map[string]*blind) map[string]*blind {
				if v == nil {
					v = map[string]*blind{}
				}
				v[key] = b
				return v
			})
		}
		errs := errsOf(c.Apply(t.Context(), "k", changed(t, add("a", nil), add("b", &blind{}), add("c", nil)), nil))
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("got errors %v, want one for the second alone", errs)
		}
		if got := valueOf[map[string]*blind](t, s); len(got) != 2 {
			t.Errorf("got %v, want a and c", got)
		}
	})
}

// Text that JSON can't hold fails its message alone. The error names the member and repeats nothing of the content.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		c := collectionOf(t, s, values.Config[noted]{})
		note := func(text string) func(noted) (noted, error) {
			return set(func(v noted) noted {
				notes := map[string]int{text: 1}
				for k := range v.Notes {
					notes[k] = 1
				}
				return noted{N: v.N + 1, Notes: notes}
			})
		}
		errs := errsOf(c.Apply(t.Context(), "k", changed(t, note("café"), note("caf\xe9"), note("\ufffd"), note("caf\xe8")), nil))
		for i, err := range errs {
			if bad := i%2 == 1; bad != (err != nil) || bad && (!strings.Contains(err.Error(), "UTF-8 in member notes") || strings.Contains(err.Error(), "caf")) {
				t.Errorf("message %d: got error %v", i, err)
			}
		}
		if got := valueOf[noted](t, s); got.N != 2 || got.Notes["café"] != 1 || got.Notes["\ufffd"] != 1 {
			t.Errorf("got %v, want the two that are UTF-8", got)
		}
		for _, key := range []string{"caf\xe9", "caf\xe8"} {
			worldtest.WantErr(t, c.Apply(t.Context(), key, changed(t, note("a")), nil)[0].Err, storage.ErrInvalid)
			if _, err := c.Get(t.Context(), key, ""); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("get: got error %v, want %v", err, storage.ErrInvalid)
			}
		}
	})
}

// BenchmarkApply folds messages into a document in memory. Its value is or isn't known to come back as it is.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 100} {
		benchmarkApply(b, fmt.Sprintf("numbers/%d", n), n, func(v memo0) memo0 { v.N++; return v })
		benchmarkApply(b, fmt.Sprintf("references/%d", n), n, func(v noted) noted {
			v.N++
			if v.Notes == nil {
				v.Notes = map[string]int{"a": 1, "b": 2, "c": 3}
			}
			return v
		})
		benchmarkApply(b, fmt.Sprintf("anything/%d", n), n, func(v loose) loose {
			x, _ := v["n"].(float64)
			return loose{"n": x + 1, "a": "a", "b": []any{}}
		})
		benchmarkApply(b, fmt.Sprintf("large/%d", n), n, func(v large) large {
			if v.By == nil {
				v.By = map[string]entry{}
				for i := range 200 {
					v.By[fmt.Sprint(i)] = entry{"Ada", "ada@example.com", i}
				}
			}
			v.N++
			return v
		})
	}
}

type (
	memo0 struct{ N int }
	entry struct {
		Name, Email string
		Quantity    int
	}
	large struct {
		N  int
		By map[string]entry
	}
)

func benchmarkApply[V any](b *testing.B, name string, n int, f func(V) V) {
	b.Run(name, func(b *testing.B) {
		c := collectionOf(b, worldtest.OpenStore(b, worldtest.Virtual), values.Config[V]{})
		folds := slices.Repeat([]func(V) (V, error){set(f)}, n)
		changes := changed(b, folds...)
		b.ReportAllocs()
		for b.Loop() {
			for i := range changes {
				e := *changes[i].Envelope
				e.ID = newID()
				changes[i].Envelope = &e
			}
			if err := errors.Join(errsOf(c.Apply(b.Context(), "k", changes, nil))...); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/message")
	})
}
