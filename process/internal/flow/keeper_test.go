package flow

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
)

// keeper keeps documents in their stored form, and checks what holds after each message.
type keeper struct {
	whole *Plan
	docs  map[string]jsontext.Value
	sizes int                  // of the largest document
	live  map[string]*Instance // documents that are not stored in between, for tests of many messages
	quick bool                 // not all that costs time is checked
	fault func(format string, args ...any)
}

func newKeeper(whole *Plan, fault func(string, ...any)) *keeper {
	return &keeper{whole: whole, docs: map[string]jsontext.Value{}, fault: fault}
}

// get returns a document as it is stored, or an empty one.
func (k *keeper) get(id string) *Instance {
	if d := k.live[id]; d != nil {
		return d
	}
	return decoded(k.docs[id])
}

func decoded(raw jsontext.Value) *Instance {
	if raw == nil {
		return &Instance{}
	}
	d, err := jsonform.Decode[Instance](raw)
	if err != nil {
		panic(err)
	}
	return &d
}

func encoded(v any) jsontext.Value {
	raw, err := jsonform.Encode(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// partOf returns the plan of an instance.
func (k *keeper) partOf(d *Instance, m any) *Plan {
	if s, ok := m.(Start); ok && !d.began() {
		return k.whole.Find(s.Part)
	}
	return k.whole.Find(d.Part)
}

// fold folds a message into a document.
func (k *keeper) fold(id string, m any, now time.Time) (out []channel.Message, changed bool, err error) {
	if k.live != nil {
		return k.foldLive(id, m, now)
	}
	raw := k.docs[id]
	d := decoded(raw)
	plan, over := k.partOf(d, m), d.over()
	out, changed, err = plan.Advance(id, d, m, now)
	if err != nil {
		return nil, false, err
	}
	after := encoded(d)
	switch {
	case !changed && (len(out) > 0 || raw == nil && string(after) != string(encoded(Instance{})) || raw != nil && string(after) != string(raw)):
		k.fault("%s: %T says that it changes nothing, and changes the document, or emits %d messages:\n%s\n%s", id, m, len(out), raw, after)
	case changed:
		k.docs[id] = after
	}
	if !k.quick {
		again := decoded(raw)
		out2, changed2, err := plan.Advance(id, again, m, now)
		if changed2 != changed || err != nil || string(encoded(again)) != string(after) || string(encoded(out2)) != string(encoded(out)) {
			k.fault("%s: %T has other consequences the second time: %v\n%s\n%s\n%s\n%s", id, m, err, after, encoded(again), encoded(out), encoded(out2))
		}
	}
	k.check(id, over, d, out)
	return out, changed, nil
}

// foldLive is fold without storing the document.
func (k *keeper) foldLive(id string, m any, now time.Time) (out []channel.Message, changed bool, err error) {
	d := k.live[id]
	if d == nil {
		d = &Instance{}
		k.live[id] = d
	}
	over := d.over()
	out, changed, err = k.partOf(d, m).Advance(id, d, m, now)
	k.check(id, over, d, out)
	return out, changed, err
}

// check holds what is true after each message. wasOver says that the instance had ended before.
func (k *keeper) check(id string, wasOver bool, d *Instance, out []channel.Message) {
	k.sizes = max(k.sizes, d.size())
	if n := d.earlySize(); n > earlyRoom {
		k.fault("%s: early signals take %d bytes", id, n)
	}
	for _, ev := range d.Events {
		if f := ev.Fan; f != nil {
			bytes := sizeOf(f.Rest)
			for _, x := range f.Armed {
				bytes += len(x) + armedBytes
			}
			for _, x := range f.Doubts {
				bytes += len(x) + armedBytes
			}
			if bytes != f.Bytes {
				k.fault("%s: the items of %s take %d bytes, and are taken for %d", id, ev.Name, bytes, f.Bytes)
			}
		}
		if ev.Status == InProcess && !ev.Timeout.IsZero() && (d.Alarm.IsZero() || d.Alarm.After(ev.Timeout)) {
			k.fault("%s: step %s has the deadline %v, and the alarm is %v", id, ev.Name, ev.Timeout, d.Alarm)
		}
		for _, u := range ev.Undos {
			if u.Status == InProcess && !u.Timeout.IsZero() && (d.Alarm.IsZero() || d.Alarm.After(u.Timeout)) {
				k.fault("%s: the undo of step %s has the deadline %v, and the alarm is %v", id, ev.Name, u.Timeout, d.Alarm)
			}
		}
		if d.over() && ev.open() {
			k.fault("%s is %s, and step %s is open", id, d.Status, ev.Name)
		}
	}
	fetches := slices.ContainsFunc(d.Shelf, func(x Shelved) bool { return x.Asked })
	if d.Status == InProcess && !fetches && len(d.Waits()) == 0 && !slices.ContainsFunc(d.Events, (*Event).undoing) {
		k.fault("%s is in process, and waits for nothing: %s", id, encoded(d))
	}
	if d.Status == Undoing && !fetches && !slices.ContainsFunc(d.Events, func(ev *Event) bool { return ev.open() || ev.undoing() }) {
		k.fault("%s is undoing, and waits for nothing: %s", id, encoded(d))
	}
	if size, real := d.size()+d.earlySize(), len(k.docs[id]); real > 2*size+1000 {
		k.fault("%s: its size is taken for %d bytes, and is %d", id, size, real)
	}
	if !d.over() {
		return
	}
	for _, m := range out {
		switch m := wire.Unwrap(m).(type) {
		case Begin:
			if m.Undo == 0 && !m.List { // a list may be asked for and not be wanted any more in one turn
				k.fault("%s has ended, and begins %s", id, m.Name)
			}
		case Start:
			k.fault("%s has ended, and starts %s", id, m.ID)
		}
	}
	if !wasOver {
		for part, raw := range k.docs {
			if strings.HasPrefix(part, id+"/") {
				if p := decoded(raw); p.began() && !p.over() {
					k.fault("%s has ended, and its part %s is %s", id, part, p.Status)
				}
			}
		}
	}
}

// due returns when a message is due that is emitted at a time, and the message itself.
func due(m channel.Message, now time.Time) (channel.Message, time.Time) {
	x, ok := m.(wire.Wrapped)
	if !ok {
		return m, now
	}
	if x.When.Delay > 0 {
		now = now.Add(x.When.Delay)
	}
	if x.When.At.After(now) {
		now = x.When.At
	}
	return x.Message, now
}

// codec makes a list of texts the state of a plan.
func codec(p *Plan) {
	p.Decode = func(raw jsontext.Value) (any, error) { return jsonform.Decode[[]string](raw) }
	p.Encode = func(_ jsontext.Value, v any) (jsontext.Value, error) {
		raw, err := jsonform.Encode(v)
		return raw, err
	}
}

var errBroken = errors.New("the function is broken")
