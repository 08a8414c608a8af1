package millracetest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
)

type buy struct {
	Item string   `json:"item"`
	N    int      `json:"n"`
	Tags []string `json:"tags,omitempty"`
}

func (buy) Kind() channel.Kind { return "kit.buy.v1" }

type bought struct {
	Item string `json:"item"`
	N    int    `json:"n"`
}

func (bought) Kind() channel.Kind { return "kit.bought.v1" }

type stock struct {
	Left  int            `json:"left"`
	Items map[string]int `json:"items,omitempty"`
	Any   any            `json:"any,omitempty"`
	calls int
	Memo  int `json:"-"`
}

var errNone = errors.New("none is left")

func (s stock) buy(c buy) (stock, []channel.Message, error) {
	if c.N > s.Left {
		return s, nil, errNone
	}
	s.Left -= c.N
	return s, []channel.Message{bought{c.Item, c.N}, channel.After(time.Minute, bought{c.Item, 0})}, nil
}

// witness is a test that keeps its failures.
type witness struct {
	testing.TB
	said []string
}

func (w *witness) Helper()                   {}
func (w *witness) Errorf(f string, a ...any) { w.said = append(w.said, fmt.Sprintf(f, a...)) }
func (w *witness) Fatalf(f string, a ...any) {
	w.Errorf(f, a...)
	panic(w)
}
func (w *witness) Fatal(a ...any) { w.Fatalf("%s", fmt.Sprint(a...)) }

// complaints returns what a test says that fails.
func complaints(t *testing.T, f func(t testing.TB)) string {
	w := &witness{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(w) {
				panic(v)
			}
		}()
		f(w)
	}()
	return strings.Join(w.said, "\n")
}

func TestDecisionsThatHold(t *testing.T) {
	t.Parallel()
	d := Decide(t, stock.buy)
	o := d.Given(stock{Left: 3}).When(buy{Item: "tea", N: 2}).
		Then(bought{"tea", 2}, channel.After(time.Minute, bought{"tea", 0})).
		ThenValue(stock{Left: 1})
	d.Given(o.Value()).When(buy{N: 2}).ThenError(errNone)
	d.Given(stock{Left: 3, Items: map[string]int{}, Memo: 7}).When(buy{N: 1, Tags: []string{}}).ThenValue(stock{Left: 2})
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	Decide(t, func(s stock, c buy) (stock, []channel.Message, error) {
		return s, []channel.Message{channel.At(at.In(time.FixedZone("east", 3600)), c)}, nil
	}).Given(stock{}).When(buy{N: 1}).Then(channel.At(at, buy{N: 1}))
}

// Each fault of a decision or of what it decides has a text that shows it.
func TestDecisionsThatFail(t *testing.T) {
	t.Parallel()
	n := 0
	as := func(f func(s stock, c buy) (stock, []channel.Message, error)) func(testing.TB) *Outcome[stock] {
		return func(t testing.TB) *Outcome[stock] {
			return Decide(t, f).Given(stock{Left: 3, Items: map[string]int{"tea": 1}}).When(buy{Item: "tea", N: 1})
		}
	}
	for name, c := range map[string]struct {
		fails func(t testing.TB)
		want  []string
	}{
		"another message": {
			func(t testing.TB) {
				Decide(t, stock.buy).Given(stock{Left: 3}).When(buy{Item: "tea", N: 2}).Then(bought{"tea", 1})
			},
			[]string{"emitted messages (- want, + got)", `-   "n": 1`, `+   "n": 2`, "  kit.bought.v1 (millracetest.bought) {", "+ kit.bought.v1 (millracetest.bought) after 1m0s {"},
		},
		"no message": {
			func(t testing.TB) { Decide(t, stock.buy).Given(stock{Left: 3}).When(buy{Item: "tea", N: 2}).Then() },
			[]string{"- (nothing)", `+   "item": "tea",`},
		},
		"another delay": {
			func(t testing.TB) {
				Decide(t, stock.buy).Given(stock{Left: 3}).When(buy{N: 1}).Then(bought{N: 1}, channel.After(time.Hour, bought{}))
			},
			[]string{"- kit.bought.v1 (millracetest.bought) after 1h0m0s {", "+ kit.bought.v1 (millracetest.bought) after 1m0s {"},
		},
		"another value": {
			func(t testing.TB) {
				Decide(t, stock.buy).Given(stock{Left: 3}).When(buy{N: 1}).ThenValue(stock{Left: 1})
			},
			[]string{"value (- want, + got)", `-   "left": 1`, `+   "left": 2`},
		},
		"success for an error": {
			func(t testing.TB) { Decide(t, stock.buy).Given(stock{Left: 3}).When(buy{N: 1}).ThenError(errNone) },
			[]string{`the decision succeeds, want the error "none is left"`, "kit.bought.v1"},
		},
		"another error": {
			func(t testing.TB) {
				Decide(t, stock.buy).Given(stock{}).When(buy{N: 1}).ThenError(errors.New("closed"))
			},
			[]string{`error: got "none is left", want "closed"`},
		},
		"an error for success": {
			func(t testing.TB) { Decide(t, stock.buy).Given(stock{}).When(buy{N: 1}).Then() },
			[]string{"the decision fails: none is left"},
		},
		"a count from outside": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) { n++; s.Left = n; return s, nil, nil })(t)
			},
			[]string{"not pure", "first, + later", `-   "left": `},
		},
		"the order of a map": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) {
					for k := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 4} {
						return s, []channel.Message{bought{Item: k}}, nil
					}
					return s, nil, nil
				})(t)
			},
			[]string{"not pure", `"item": `},
		},
		"a map that is changed on failure": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) { s.Items["tea"] = 9; return s, nil, errNone })(t)
			},
			[]string{"has changed its value", `-     "tea": 1`, `+     "tea": 9`},
		},
		"a number that comes back as another type": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) { s.Any = []any{3}; return s, nil, nil })(t)
			},
			[]string{"the decided value holds something that JSON doesn't give back: millracetest.stock.Any[0] is 3, and comes back as 3 (float64)"},
		},
		"a field that isn't stored": {
			func(t testing.TB) { Decide(t, stock.buy).Given(stock{calls: 1}).When(buy{}) },
			[]string{"the given value holds", "stock.calls is 1, and comes back as 0"},
		},
		"a nil emission": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) { return s, []channel.Message{nil}, nil })(t)
			},
			[]string{"emission 1 of 1 is nil"},
		},
		"a nil pointer": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) {
					return s, []channel.Message{(*bought)(nil)}, nil
				})(t)
			},
			[]string{"emission 1 of 1 is nil"},
		},
		"an emission in eleven years": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) {
					return s, []channel.Message{channel.After(11*channel.MaxDelay/10, bought{})}, nil
				})(t)
			},
			[]string{"want at most ten years"},
		},
		"a message that can't be sent": {
			func(t testing.TB) {
				as(func(s stock, _ buy) (stock, []channel.Message, error) {
					return s, []channel.Message{bought{Item: "\xff"}}, nil
				})(t)
			},
			[]string{"an emission can't be stored"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := complaints(t, c.fails)
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("got\n%s\nwant a line with %q", said, want)
				}
			}
		})
	}
}

// A decision sees values and commands of its own, so one case may be decided many times, and changes nothing of the
// test's.
func TestGivenStaysAsItIs(t *testing.T) {
	t.Parallel()
	given := stock{Left: 3, Items: map[string]int{"tea": 1}}
	d := Decide(t, func(s stock, c buy) (stock, []channel.Message, error) {
		s.Items[c.Item]++
		c.Tags[0] = "changed"
		return s, nil, nil
	})
	command := buy{Item: "tea", Tags: []string{"a"}}
	for range 2 {
		d.Given(given).When(command).ThenValue(stock{Left: 3, Items: map[string]int{"tea": 2}})
	}
	if given.Items["tea"] != 1 || command.Tags[0] != "a" {
		t.Errorf("got %v and %v, want the test's values as they were", given, command)
	}
}

// An error whose methods panic, as those of a nil pointer that is returned as an error, is a failure like any other.
func TestADecisionFailsWithANilPointer(t *testing.T) {
	t.Parallel()
	decide := func(s stock, _ buy) (stock, []channel.Message, error) {
		var none *fs.PathError
		return s, nil, none
	}
	said := complaints(t, func(t testing.TB) { Decide(t, decide).Given(stock{}).When(buy{}).Then() })
	if want := "the decision fails: a nil *fs.PathError"; !strings.Contains(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}
