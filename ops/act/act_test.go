package act_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// heard is a sink that keeps what it is told.
type heard struct {
	said  []string
	fails error
}

func (h *heard) Table(string, []string) error { return h.fails }
func (h *heard) Row(_ any, cells []any) error {
	h.said = append(h.said, fmt.Sprint(cells...))
	return h.fails
}
func (h *heard) Thing(any, []act.Part, string) error                   { return h.fails }
func (h *heard) Draw(any, func(int, func(string) string) string) error { return h.fails }
func (h *heard) Say(_ any, text string) error {
	h.said = append(h.said, text)
	return h.fails
}
func (h *heard) Note(text string) error         { h.said = append(h.said, "Note: "+text); return nil }
func (h *heard) Next(string, string, string)    {}
func (h *heard) Begin(string, int) act.Progress { return nobody{} }
func (h *heard) End() error                     { return h.fails }

type nobody struct{}

func (nobody) Add(int) {}
func (nobody) End()    {}

// A bell is what the acts of these tests ring.
type bell struct {
	rung   int
	fails  error
	during func()
}

type bellInput struct {
	name, secret string
	times        int
	tags         []string
	body         []byte
}

// ring is an act that changes something.
func (b *bell) ring() *act.Act {
	return act.New(act.Act{Noun: "bells", Verb: "ring", Role: act.Operator, Why: act.Must, Sure: act.May, About: "ring a bell"}, func(in *bellInput) []act.Field {
		in.times = 1
		return []act.Field{
			act.Text(&in.name, "name", "the bell").At("NAME"), act.Number(&in.times, "times", "so `OFTEN`", 1, 9), act.Texts(&in.tags, "tag", "a tag"),
			act.Text(&in.secret, "secret", "a secret").Hidden(), act.Content(&in.body, "body", "a body", 10),
		}
	}, func(_ context.Context, c *act.Call, in *bellInput) error {
		if b.during != nil {
			b.during()
		}
		if c.DryRun {
			return c.Say(nil, "Would ring %s.", in.name)
		}
		b.rung += in.times
		if b.fails != nil {
			return b.fails
		}
		return c.Say(nil, "Rang %s.", in.name)
	})
}

// request is a request with fields: "name=value".
func request(t *testing.T, a *act.Act, fields ...string) *act.Request {
	t.Helper()
	r := a.Request()
	for _, x := range fields {
		name, text, _ := strings.Cut(x, "=")
		if err := r.Field(name).Set(text); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func call(t *testing.T, s *storage.Store, id string) (*act.Call, *heard) {
	t.Helper()
	desk, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	h := new(heard)
	c := act.NewCall(desk, "ada@host", h)
	c.ID, c.From = id, "host"
	return c, h
}

// entries are those of the audit log.
func entries(t *testing.T, s *storage.Store) (all []audit.Entry) {
	t.Helper()
	for e, err := range audit.Of(s).List(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Law: the log says what is meant before the effect, and how it ended after. It has no content and nothing hidden.
func TestLawTheLogComesFirst(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	var b bell
	b.during = func() {
		all := entries(t, s)
		if len(all) != 1 || all[0].Done() || all[0].Act != "bells ring" || all[0].Who != "ada@host" || all[0].Why != "dinner" || all[0].Said || all[0].From != "host" {
			t.Errorf("during the act: got %+v", all)
		}
	}
	c, h := call(t, s, "")
	if err := request(t, b.ring(), "name=it's big", "times=2", "tag=a", "tag=b", "secret=xyzzy", "body=xyzzy", "why=dinner").Do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	all := entries(t, s)
	if len(all) != 1 || !all[0].Done() || all[0].Failed || all[0].Result != "Rang it's big." || all[0].On != `'it'\''s big' --times 2 --tag a --tag b --secret '…' --body '…'` || all[0].ID != c.ID {
		t.Errorf("got %+v", all)
	}
	if !slices.Equal(h.said, []string{"Rang it's big."}) {
		t.Errorf("told %q", h.said)
	}
	b.during, b.fails = nil, errors.New("the rope is torn")
	c, _ = call(t, s, "")
	worldtest.WantErr(t, request(t, b.ring(), "name=big", "why=x", "by=bob").Do(t.Context(), c), b.fails)
	if e := entries(t, s)[0]; !e.Failed || e.Result != "the rope is torn" || e.Who != "bob" || !e.Said {
		t.Errorf("got %+v", e)
	}
}

// Law: the log has no text of a program's code, also where the person who does the act reads the text.
func TestLawTheLogHasNoTextOfCode(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	ada, bob := errors.New("Ada is ill"), errors.New("Bob is ill")
	for _, x := range []struct {
		fails       func(c *act.Call) error
		told, noted string
		is          error
	}{
		{fails: func(c *act.Call) error { return fmt.Errorf("folding: %w. Try again", c.OfCode(ada)) }, told: "folding: hidden text of 10 characters (#*). Try again", noted: "folding: hidden text of 10 characters (#*). Try again", is: ada},
		{fails: func(c *act.Call) error { return act.UsageOf("name", "%w", c.OfGiven(ada, "somebody is ill")) }, told: "Ada is ill", noted: "somebody is ill", is: ada},
		{fails: func(c *act.Call) error {
			return errors.Join(c.OfGiven(ada, "one"), fmt.Errorf("or: %w", c.OfGiven(bob, "two")))
		}, told: "Ada is ill\nor: Bob is ill", noted: "one or: two", is: bob},
		{fails: func(c *act.Call) error { return c.OfCode(fmt.Errorf("outcome unknown: %w", ada)) }, told: "outcome unknown: hidden text of 10 characters (#*)", noted: "outcome unknown: hidden text of 10 characters (#*)", is: ada},
	} {
		c, _ := call(t, s, "")
		c.ID = audit.NewID()
		ring := act.New(act.Act{Noun: "bells", Verb: "ring", Role: act.Operator}, nil, func(_ context.Context, c *act.Call, _ *act.None) error { return x.fails(c) })
		err := ring.Request().Do(t.Context(), c)
		worldtest.WantErr(t, err, x.is)
		log, err2 := audit.Of(s).Get(t.Context(), c.ID)
		worldtest.WantErr(t, err2, nil)
		mark := regexp.MustCompile(`#[0-9a-f]{8}`)
		worldtest.Want(t, "told", mark.ReplaceAllString(err.Error(), "#*"), x.told)
		worldtest.Want(t, "noted", mark.ReplaceAllString(log.Result, "#*"), x.noted)
		if c.OfCode(nil) != nil || c.OfGiven(nil, "x") != nil {
			t.Error("no error became one")
		}
	}
}

// Law: without its row nothing is done. An act whose end can't be noted is done, and says so.
func TestLawWithoutTheLogNothingIsDone(t *testing.T) {
	t.Parallel()
	for at, want := range map[int]string{1: "so it is not done", 2: "the act is done, and the audit log doesn't say so"} {
		n := 0
		s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put row" {
				if n++; n == at {
					return op.Fail(storage.ErrUnavailable)
				}
			}
			return do()
		})
		var b bell
		c, _ := call(t, s, "")
		err := request(t, b.ring(), "name=big", "why=x").Do(t.Context(), c)
		if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), want) || b.rung != at-1 {
			t.Errorf("row %d fails: got %v, and it rang %d times; want %q", at, err, b.rung, want)
		}
	}
}

// Law: an act that is begun again under its ID is done once. One that has not ended is done again, and another act
// under the ID is refused.
func TestLawAnIDIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	id := audit.NewID()
	var b bell
	b.during = func() { panic("the process dies") }
	do := func(fields ...string) (*heard, error) {
		c, h := call(t, s, id)
		return h, request(t, b.ring(), append(fields, "why=x")...).Do(t.Context(), c)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = do("name=big")
	}()
	b.during = nil
	for range 3 {
		if _, err := do("name=big"); err != nil {
			t.Fatal(err)
		}
	}
	worldtest.Want(t, "rings", b.rung, 1)
	h, err := do("name=big")
	if err != nil || len(h.said) != 1 || !strings.HasPrefix(h.said[0], "Note: This was done before, ") || !strings.HasSuffix(h.said[0], ": Rang big.") {
		t.Errorf("got %q, %v", h.said, err)
	}
	_, err = do("name=small")
	worldtest.WantErr(t, err, audit.ErrOtherAct)
	worldtest.Want(t, "rings", b.rung, 1)
}

// Law: a dry run and an act that only reads leave no row, and a dry run changes nothing.
func TestLawADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	var b bell
	c, h := call(t, s, "")
	if err := request(t, b.ring(), "name=big", "why=x", "dry-run=true").Do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	look := act.New(act.Act{Noun: "bells", Verb: "list", Role: act.Viewer, About: "list bells"}, nil, func(_ context.Context, c *act.Call, _ *act.None) error {
		return c.Say(nil, "No bells.")
	})
	c2, _ := call(t, s, "")
	if err := look.Request().Do(t.Context(), c2); err != nil {
		t.Fatal(err)
	}
	if b.rung != 0 || len(entries(t, s)) != 0 || h.said[0] != "Would ring big." {
		t.Errorf("rang %d times, told %q, and the log has %+v", b.rung, h.said, entries(t, s))
	}
}

// Law: a request is checked before the store is asked for anything.
func TestLawARequestIsCheckedFirst(t *testing.T) {
	t.Parallel()
	var b bell
	destroy := act.New(act.Act{Noun: "bells", Verb: "melt", Role: act.Admin, Sure: act.Must, About: "melt a bell"}, nil, func(context.Context, *act.Call, *act.None) error {
		t.Error("it was done")
		return nil
	})
	for want, r := range map[string]*act.Request{
		"add --why TEXT":                    request(t, b.ring(), "name=big"),
		"add --yes to do it":                destroy.Request(),
		"want --yes or --dry-run, not both": request(t, destroy, "yes=true", "dry-run=true"),
	} {
		err := r.Do(t.Context(), act.NewCall(&act.Desk{}, "ada", new(heard)))
		if bad := (*act.UsageError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A field that doesn't like its text says what it wants, and names no secret.
func TestFields(t *testing.T) {
	t.Parallel()
	var b bell
	var at time.Time
	var d time.Duration
	var yes bool
	for want, set := range map[string]func() error{
		"the value is empty":              func() error { return b.ring().Request().Field("name").Set("") },
		"want a number from 1 to 9":       func() error { return b.ring().Request().Field("times").Set("10") },
		"want a number from 1 to 9 ":      func() error { return b.ring().Request().Field("times").Set("x") },
		"more than 10 bytes":              func() error { return b.ring().Request().Field("body").Set("01234567890") },
		"want at most 256 bytes":          func() error { return b.ring().Request().Field("why").Set("a\x1bb") },
		"want a time such as 2026":        func() error { return act.Moment(&at, "at", "then").Set("tomorrow") },
		"from 1s to 10m":                  func() error { return act.Duration(&d, "for", "so long", time.Second, 10*time.Minute).Set("11m") },
		"want true or false":              func() error { return act.Flag(&yes, "yes", "yes").Set("perhaps") },
		"want one of a, b":                func() error { return act.Text(new(string), "x", "x").OneOf("a", "b").Set("c") },
		"want NAME":                       func() error { return b.ring().Request().Args(nil) },
		`unknown argument "more"`:         func() error { return b.ring().Request().Args([]string{"big", "more"}) },
		"unknown argument (12 bytes, not": func() error { return b.ring().Request().Args([]string{"big", "a=secret;b=x"}) },
		"an argument is empty":            func() error { return b.ring().Request().Args([]string{""}) },
	} {
		if err := set(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	r := b.ring().Request()
	if got := r.Places(); got != "NAME" {
		t.Errorf("got places %q", got)
	}
	if f := r.Field("times"); f.Default != "1" || f.Kind != act.KindNumber {
		t.Errorf("got %+v", f)
	}
	if err := act.Moment(&at, "at", "then").Set("2026-12-24T18:00:00Z"); err != nil || !at.Equal(time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", at, err)
	}
}

// A sink that fails ends the act: what it told could not be written.
func TestASinkThatFailsEndsTheAct(t *testing.T) {
	t.Parallel()
	var b bell
	c, h := call(t, worldtest.OpenStore(t, ""), "")
	h.fails = errors.New("the disk is full")
	worldtest.WantErr(t, request(t, b.ring(), "name=big", "why=x").Do(t.Context(), c), h.fails)
}

// Words for people are short, and shells get quotes where they need them.
func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		act.Age(90 * time.Second): "1m30s", act.Age(26 * time.Hour): "26h0m", act.Age(72 * time.Hour): "3d", act.Age(-time.Second): "0s",
		act.Count(1, "key"): "1 key", act.Count(2, "key"): "2 keys", act.Ago(time.Time{}): act.Unknown,
		act.ShellWord("a/b"): "a/b", act.ShellWord("it's"): `'it'\''s'`, act.ShellWord(""): "''",
		act.Cell(nil): act.Unknown, act.Cell(""): act.Unknown, act.Cell(3): "3",
		act.Short(strings.Repeat("é", 200)): strings.Repeat("é", 100) + "…",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A hint is a command line, and the fields of its act's form.
func TestHints(t *testing.T) {
	t.Parallel()
	a := act.New(act.Act{Noun: "jars", Verb: "open", About: "open jars", Role: act.Operator, Why: act.May}, func(in *struct {
		shelf string
		jars  []string
	}) []act.Field {
		return []act.Field{act.Text(&in.shelf, "shelf", "the shelf").At("SHELF"), act.Texts(&in.jars, "jars", "the jars").At("JAR")}
	}, func(context.Context, *act.Call, *struct {
		shelf string
		jars  []string
	}) error {
		return nil
	})
	h := act.Hint{Act: "jars open", Args: []string{"top", "plum jam", "$(id)"}, Flags: map[string]string{"why": "lunch", "dry": "true"}, Open: "--with SPOON"}
	if got, want := h.Line("kitchen"), `kitchen jars open top 'plum jam' '$(id)' --dry --why lunch --with SPOON`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(h.With(a)), "map[dry:[true] jars:[plum jam $(id)] shelf:[top] why:[lunch]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
