package valet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/values"
)

// A grantWorld is a grant, the bytes, and all that is on its way to it. The test visits all worlds that can come about:
// messages come in any order and twice, a check dies after any of its steps, and whoever has a key of the store puts
// other bytes at any moment.
type grantWorld struct {
	File     File
	Flight   []string  // messages, as their kind and JSON
	Checks   []running // checks that have read the bytes
	Inbox    int       // which bytes lie there; 0: none
	Store    int       // which bytes were copied; 0: none
	Uploaded int       // events
	Rejected int       // events
	Twice    int       // messages that may still come twice
	Puts     int       // times that somebody may still put bytes
	Asks     int       // times that the holder may still complete
	Revoke   bool      // somebody may still revoke the grant
	Release  bool      // an operator may still release it
	Verdicts [2]State
	Bad      int // the bytes that were copied without a verdict for them
}

// A running check is one between its reading and its copy.
type running struct {
	Message string
	Round   int
	Bytes   int
	Force   bool
	Copies  bool // it has begun the copy, so the bytes may go away
}

// verdictOf is what a scanner says of the bytes that came first, second and so on.
func (w grantWorld) verdictOf(bytes int) State { return w.Verdicts[bytes-1] }

func messageText(m channel.Message) string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(m.Kind()) + " " + string(b)
}

func read[M any](text string) M {
	var m M
	_, body, _ := strings.Cut(text, " ")
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		panic(err)
	}
	return m
}

// with returns the world after messages were emitted.
func (w grantWorld) with(messages []channel.Message) grantWorld {
	w.Flight = slices.Clone(w.Flight)
	for _, m := range messages {
		switch m := wire.Unwrap(m).(type) {
		case Uploaded:
			w.Uploaded++
		case Rejected:
			w.Rejected++
		case forget: // the document is deleted long after all else
		case mark: // it lists the file for people, and nothing depends on the list
		default:
			if text := messageText(m); !slices.Contains(w.Flight, text) {
				w.Flight = append(w.Flight, text)
			}
		}
	}
	slices.Sort(w.Flight)
	return w
}

func (w grantWorld) without(message string) grantWorld {
	w.Flight = slices.DeleteFunc(slices.Clone(w.Flight), func(m string) bool { return m == message })
	return w
}

// decided returns the world after a message was decided.
func (w grantWorld) decided(text string) grantWorld {
	var f File
	var out []channel.Message
	var err error
	switch kind, _, _ := strings.Cut(text, " "); channel.Kind(kind) {
	case complete{}.Kind():
		f, out, err = w.File.complete(read[complete](text))
	case expire{}.Kind():
		f, out, err = w.File.expire(read[expire](text))
	case settle{}.Kind():
		f, out, err = w.File.settle(read[settle](text))
	case revoke{}.Kind():
		f, out, err = w.File.revoke(read[revoke](text))
	case release{}.Kind():
		f, out, err = w.File.release(read[release](text))
	case cleanUp{}.Kind():
		return w.cleaned(read[cleanUp](text))
	default:
		panic(text)
	}
	if errors.Is(err, values.ErrUnchanged) {
		return w
	}
	w.File = f
	return w.with(out)
}

// cleaned follows Valet.cleanUp.
func (w grantWorld) cleaned(m cleanUp) grantWorld {
	if w.File.State != StateClean && !w.File.State.Ended() {
		return w
	}
	if w.Inbox = 0; w.File.State != StateClean && m.All {
		w.Store = 0
	}
	return w
}

// begun is the first half of a check, and its end where there is nothing to copy: see Valet.judge.
func (w grantWorld) begun(text string) grantWorld {
	m := read[check](text)
	verdict := settle{ID: w.File.ID, Round: m.Round}
	switch f := w.File; {
	case f.State.Ended():
		return w.without(text).with(cleanAll(f.ID, m.Round))
	case f.State != StateArrived || f.Round != m.Round:
		return w.without(text)
	case w.Inbox == 0 && f.Force:
		return w // an error, so it is tried again; the bytes of what is held stay
	case w.Inbox == 0:
		verdict.State = StateGranted
	case f.Force && fmt.Sprint(w.Inbox) != f.ETag:
		verdict.State, verdict.ETag = StateHeld, fmt.Sprint(w.Inbox)
	case w.verdictOf(w.Inbox) != StateClean && !f.Force:
		verdict.State = w.verdictOf(w.Inbox)
		if verdict.State == StateHeld {
			verdict.ETag = fmt.Sprint(w.Inbox)
		}
	default:
		w.Checks = append(slices.Clone(w.Checks), running{text, m.Round, w.Inbox, f.Force, false})
		return w
	}
	return w.without(text).with([]channel.Message{verdict})
}

// ended is the second half of a check, in two steps: the copy of the very bytes, and the verdict. A check whose bytes
// have changed is tried again.
func (w grantWorld) ended(i int) grantWorld {
	c := w.Checks[i]
	w.Checks = slices.Delete(slices.Clone(w.Checks), i, i+1)
	if !c.Copies {
		if c.Copies = true; w.Inbox == c.Bytes {
			w.Checks = append(w.Checks, c)
		}
		return w
	}
	if w.Store = c.Bytes; w.verdictOf(c.Bytes) != StateClean && !c.Force {
		w.Bad = c.Bytes
	}
	return w.without(c.Message).with([]channel.Message{settle{ID: w.File.ID, Round: c.Round, State: StateClean}})
}

// next yields each world that can follow.
func (w grantWorld) next(yield func(grantWorld)) {
	if w.Puts > 0 {
		x := w
		x.Puts, x.Inbox = w.Puts-1, w.Inbox+1
		if w.Inbox == 0 {
			x.Inbox = 3 - w.Puts // other bytes than those that were deleted
		}
		yield(x)
	}
	if w.Asks > 0 && w.File.State == StateGranted {
		x := w
		x.Asks--
		yield(x.with([]channel.Message{complete{ID: w.File.ID, Round: w.File.Round}}))
	}
	if w.Revoke {
		x := w
		x.Revoke = false
		yield(x.with([]channel.Message{revoke{ID: w.File.ID, At: w.File.Made.Add(time.Second)}}))
	}
	if w.Release && w.File.State == StateHeld {
		x := w
		x.Release = false
		yield(x.with([]channel.Message{release{ID: w.File.ID}}))
	}
	for _, text := range w.Flight {
		if strings.HasPrefix(text, string(check{}.Kind())+" ") {
			if len(w.Checks) < 2 { // two workers have a copy of it
				yield(w.begun(text))
			}
			continue
		}
		if strings.Contains(text, `"again":true`) && len(w.Checks) > 0 {
			continue // its delay is longer than a check's copy takes
		}
		yield(w.decided(text).without(text))
		if w.Twice > 0 {
			x := w
			x.Twice--
			yield(x.decided(text))
		}
	}
	for i, c := range w.Checks {
		yield(w.ended(i))
		x := w // its worker dies
		x.Checks = slices.Delete(slices.Clone(w.Checks), i, i+1)
		yield(x)
		if w.Twice > 0 && c.Copies { // its worker dies after the copy
			x.Twice, x.Store = w.Twice-1, c.Bytes
			yield(x)
		}
	}
}

// fault returns which law a world breaks.
func (w grantWorld) fault() string {
	switch f := w.File; {
	case w.Uploaded > 1 || w.Rejected > 1 || w.Uploaded+w.Rejected > 1:
		return "V5: two ends are told"
	case w.Bad != 0:
		return "V2: bytes without a verdict were copied"
	case f.State == StateClean && w.Store == 0:
		return "V2: a file is accepted, and isn't there"
	case f.State == StateClean && w.Uploaded != 1, f.State.Ended() && w.Rejected != 1:
		return "an end isn't told"
	case len(w.Flight) > 0 || len(w.Checks) > 0:
		return ""
	case f.State == StateGranted || f.State == StateArrived:
		return "V5: the grant never ends"
	case f.State.Ended() && w.Store != 0:
		return "bytes stay that nobody accepted"
	}
	return ""
}

func (w grantWorld) key() string {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Laws V1, V2, V5 and V8: in all worlds that can come about, a grant has one end, and only bytes with a verdict are
// copied.
func TestLawsOfTheGrantInAllWorlds(t *testing.T) {
	t.Parallel()
	ends := map[State]int{}
	for i, verdicts := range [][2]State{{StateRejected, StateClean}, {StateClean, StateHeld}, {StateHeld, StateClean}} {
		visitGrants(t, verdicts, 2-min(i, 1), ends)
	}
	for _, s := range []State{StateClean, StateHeld, StateRejected, StateExpired, StateRevoked} {
		if ends[s] == 0 {
			t.Errorf("no world ends %s", s)
		}
	}
}

// visitGrants visits all worlds in which the bytes that come first and second get these verdicts, and the holder
// completes so many times. It counts the ends.
func visitGrants(t *testing.T, verdicts [2]State, asks int, ends map[State]int) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	first := grantWorld{File: File{ID: "f", State: StateGranted, Made: at, Until: at.Add(time.Hour), Size: 1, PartSize: 8}, Verdicts: verdicts, Twice: 1, Puts: 2, Asks: asks, Revoke: true, Release: true}
	first = first.with([]channel.Message{expire{ID: "f"}})
	seen, todo := map[string]string{first.key(): ""}, []grantWorld{first}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := w.key()
		if fault := w.fault(); fault != "" {
			for at := key; at != ""; at = seen[at] {
				t.Log(at)
			}
			t.Fatal(fault)
		}
		if len(w.Flight) == 0 && len(w.Checks) == 0 {
			ends[w.File.State]++
		}
		w.next(func(x grantWorld) {
			if k := x.key(); seen[k] == "" && k != first.key() {
				seen[k] = key
				todo = append(todo, x)
			}
		})
	}
	t.Logf("%d worlds, ends so far: %v", len(seen), ends)
}
