package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// An Asked is what somebody has asked of an instance. It is a message, so the instance takes it when a worker of the
// plan runs; see [Looker.Answer].
type Asked struct {
	ID   string    // the instance, or a part of it
	Do   string    // cancel, retry, skip, rerun, nudge or signal
	Step string    // its path, or the kind of a signal; empty if the act is for no step
	At   time.Time // when it was asked

	message channel.Envelope
}

// An Answer is what has become of an act.
type Answer struct {
	Done bool
	Text string // why it is not done, or how
}

// The largest notes that an act may carry, in bytes.
const (
	maxBy  = 100
	maxWhy = 500
)

// An Operator acts on the instances of a plan. Each act stands in the document, with who it was and why.
type Operator struct {
	look    *Looker
	by, why string
	under   string
}

// Operator returns the operator of the plan's instances who acts as somebody, for a reason, which may be empty.
func (l *Looker) Operator(by, why string) Operator { return Operator{look: l, by: by, why: why} }

// Under returns the operator, whose acts then have an ID. A program that asks an instance for an act twice under one ID
// has sent one message, so the instance does the act once.
func (o Operator) Under(id string) Operator { o.under = id; return o }

// Cancel cancels an instance, or a part of it; see [Instances.Cancel].
func (o Operator) Cancel(ctx context.Context, id string) (Asked, error) {
	return o.act(ctx, flow.Act{ID: id, Do: flow.ActCancel})
}

// Retry tries a step that is stuck once more, or its undo. It keeps the key, unless the step is known to have failed: a
// service that recognises repeats would only repeat that. step is as in [Line.ID].
func (o Operator) Retry(ctx context.Context, id, step string) (Asked, error) {
	return o.actOn(ctx, flow.Act{ID: id, Do: flow.ActRetry}, step)
}

// Skip lets a step that is stuck count as done, with a result in JSON, which may be nil; or its undo as undone.
func (o Operator) Skip(ctx context.Context, id, step string, result []byte) (Asked, error) {
	if result != nil && !json.Valid(result) {
		return Asked{}, o.look.wrap("skip", id, errors.New("the result is not JSON"))
	}
	return o.actOn(ctx, flow.Act{ID: id, Do: flow.ActSkip, Result: result}, step)
}

// Fail says that a step whose outcome is unknown was not done: it fails, and so does the instance. Skip says that it
// was done, and Retry has it done again with the same key. Of a step with items they speak of all items whose outcomes
// are unknown, or of one: step is "03#7" for item 7 then.
func (o Operator) Fail(ctx context.Context, id, step string) (Asked, error) {
	return o.actOn(ctx, flow.Act{ID: id, Do: flow.ActFail}, step)
}

// Rerun runs an instance that has ended, or is stuck, again from a step on. The steps get other keys.
func (o Operator) Rerun(ctx context.Context, id, step string) (Asked, error) {
	return o.actOn(ctx, flow.Act{ID: id, Do: flow.ActRerun}, step)
}

// Nudge has an instance look at its deadlines, and write its index row anew.
func (o Operator) Nudge(ctx context.Context, id string) (Asked, error) {
	return o.act(ctx, flow.Act{ID: id, Do: flow.ActNudge})
}

// Signal sends a message, in JSON, to the step of an instance that waits for its kind. One that comes early is kept, as
// with [Instances.Signal]. It leaves no note.
func (o Operator) Signal(ctx context.Context, id string, kind channel.Kind, body []byte) (Asked, error) {
	err := kind.Check()
	if err == nil && !json.Valid(body) {
		err = fmt.Errorf("the body of %s is not JSON", kind)
	}
	if err == nil {
		err = checkID(id)
	}
	if err == nil {
		err = checkEarly(body, func() (flow.Instance, error) { return o.look.document(ctx, id) })
	}
	if err != nil {
		return Asked{}, o.look.wrap("signal", id, err)
	}
	return o.ask(ctx, Asked{ID: id, Do: "signal", Step: string(kind)}, flow.Signal{Plan: o.look.plan, ID: id, Sort: kind, Body: body})
}

// act sends an act to an instance that there is.
func (o Operator) act(ctx context.Context, m flow.Act) (Asked, error) {
	m.Plan, m.By, m.Why = o.look.plan, o.by, o.why
	err := checkNote(m)
	var d flow.Instance
	if err == nil {
		d, err = o.look.document(ctx, m.ID)
	}
	switch {
	case err != nil:
	case d.Purged:
		err = errors.New("its time is over, and its steps are deleted")
	case d.Status == Init && m.ID == flow.TopID(m.ID):
		err = errors.New("it has not started yet: ask again when it has")
	}
	if err != nil {
		return Asked{}, o.look.wrap(m.Do, m.ID, err)
	}
	return o.ask(ctx, Asked{ID: m.ID, Do: m.Do, Step: m.Path}, m)
}

// checkNote refuses what a document shall not hold.
func checkNote(m flow.Act) error {
	if len(m.By) > maxBy || len(m.Why) > maxWhy || !utf8.ValidString(m.By+m.Why) {
		return fmt.Errorf("the notes have %d and %d bytes; want at most %d on who it is and %d on why, of valid UTF-8", len(m.By), len(m.Why), maxBy, maxWhy)
	}
	return nil
}

// actOn sends an act on a step, as [Line.ID] names it.
func (o Operator) actOn(ctx context.Context, m flow.Act, step string) (Asked, error) {
	if line, item, of := strings.Cut(step, "#"); of {
		i, err := strconv.Atoi(item)
		if err != nil || i < 0 {
			return Asked{}, o.look.wrap(m.Do, m.ID, fmt.Errorf("no item %s: want its number, such as 03#7", storage.Quote(item)))
		}
		m.Item, step = &i, line
	}
	id, path, run, page := locate(m.ID, step)
	if path == "" || path == rootLine {
		return Asked{}, o.look.wrap(m.Do, m.ID, fmt.Errorf("no step %s: want its path, such as 02", storage.Quote(step)))
	}
	d, err := o.look.document(ctx, id)
	switch {
	case err != nil:
		return Asked{}, o.look.wrap(m.Do, id, err)
	case page && d.Page == nil:
		return Asked{}, o.look.wrap(m.Do, m.ID, fmt.Errorf("%s is a part: name a step of it, such as %s/01", step, step))
	case run >= 0:
		for _, ev := range slices.Backward(d.Events) { // the last run of a step is the last one
			if ev != nil && ev.ID == path && ev.Run != run {
				return Asked{}, o.look.wrap(m.Do, m.ID, fmt.Errorf("no step %s: name %s, its last run", step, flow.PathRun(path, ev.Run)))
			} else if ev != nil && ev.ID == path {
				break
			}
		}
	}
	if err := o.fits(ctx, m.Do, path, step, d); err != nil {
		return Asked{}, o.look.wrap(m.Do, m.ID, err)
	}
	m.ID, m.Path = id, path
	return o.act(ctx, m)
}

// fits refuses an act that a step can't take, as its document is now.
func (o Operator) fits(ctx context.Context, do, path, step string, d flow.Instance) error {
	if do == flow.ActRerun {
		steps, err := o.look.structure(ctx, d.Version)
		if _, found := steps[path]; err != nil || found || steps == nil || d.Parent != nil {
			return err
		}
		return fmt.Errorf("no step %s: version %d of the plan has none", step, d.Version)
	}
	var last *flow.Event
	for _, ev := range d.Events {
		if ev != nil && ev.ID == path {
			if ev.Stuck() {
				return nil
			}
			last = ev
		}
	}
	if last == nil {
		return fmt.Errorf("no step %s has begun, or it has long ended", step)
	}
	return fmt.Errorf("step %s %s is not stuck: it is %s", step, last.Name, last.Status)
}

var partNumber = regexp.MustCompile(`\.[0-9]{5,}$`)

// locate finds the document and the path of a line. run is -1 where the line doesn't say it. page reports that the line
// is a page, or a part.
func locate(id, line string) (document, path string, run int, page bool) {
	document, path, run = id, line, -1
	i := strings.LastIndexByte(line, '/')
	if at := partNumber.FindStringIndex(line); at != nil && at[0] > i {
		document, path, page = id+"/"+line, line[i+1:at[0]], true
	} else if i >= 0 {
		document, path = id+"/"+line[:i], line[i+1:]
	}
	path, number, again := strings.Cut(path, "~")
	if n, err := strconv.Atoi(number); again && err == nil && !page {
		run = n
	}
	return document, path, run, page
}

func checkID(id string) error {
	if err := storage.CheckKey(id); err != nil {
		return err
	}
	if strings.Contains(id, "#") {
		return errors.New("it has a #")
	}
	if strings.TrimSpace(id) == "" {
		return errors.New("it is blank; want a word")
	}
	return nil
}

// ask sends a message, and remembers by what it can be recognised in the document.
func (o Operator) ask(ctx context.Context, a Asked, m channel.Message) (Asked, error) {
	l, id := o.look, ""
	if o.under != "" {
		parts := []string{l.plan, a.ID, a.Do, a.Step}
		if x, ok := m.(flow.Act); ok && x.Item != nil {
			parts = append(parts, strconv.Itoa(*x.Item))
		}
		id = channel.DerivedID(o.under, parts...)
	}
	e, err := wire.ComposeAs(id, m, l.channels.Outbox().Source, time.Now().UTC())
	if err != nil {
		return a, l.wrap(a.Do, a.ID, err)
	}
	if id != "" { // the act's ID may be older than the message
		e.Since = e.Time
	}
	a.At, a.message = e.Time, e
	packed, err := l.channels.Outbox().Pack(ctx, e)
	if err == nil {
		err = l.channels.Outbox().SendPacked(ctx, packed)
	}
	if err != nil {
		return a, l.wrap(a.Do, a.ID, err)
	}
	return a, nil
}

// Answer waits until an instance has taken an act, and returns what has become of it. It waits as long as ctx allows:
// while no worker of the plan runs, nobody answers.
func (l *Looker) Answer(ctx context.Context, a Asked) (Answer, error) {
	const first, most = 5 * time.Millisecond, time.Second
	for pause := first; ; pause = min(pause*3/2, most) {
		answer, answered, err := l.answered(ctx, a)
		if answered || err != nil {
			if err != nil {
				err = l.wrap(a.Do, a.ID, err)
			}
			return answer, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return answer, l.wrap(a.Do, a.ID, context.Cause(ctx))
		}
	}
}

// answered looks for an act in the document.
func (l *Looker) answered(ctx context.Context, a Asked) (answer Answer, answered bool, err error) {
	if a.Do == "signal" {
		applied, err := values.Applied(ctx, l.store, l.plan, a.ID, "", &a.message)
		if !applied || err != nil {
			return answer, false, err
		}
	}
	d, err := l.document(ctx, a.ID)
	switch {
	case err != nil:
		return answer, false, err
	case a.Do == "signal":
		return fateOf(a, d), true, nil
	case a.Do == flow.ActCancel && d.Cancel != nil && !a.left(*d.Cancel):
		return Answer{Done: true, Text: "it was canceled before" + byWhom(d.Cancel.By)}, true, nil
	case a.Do == flow.ActCancel && d.Cancel != nil:
		return Answer{Done: true}, true, nil
	}
	for _, n := range d.Notes {
		switch {
		case !a.left(n):
		case n.Do == a.Do+" refused":
			return Answer{Text: n.Why}, true, nil
		case n.Do == a.Do:
			answer, answered = Answer{Done: true}, true
		}
	}
	return answer, answered, nil
}

// byWhom names whoever has done something, if that is known.
func byWhom(who string) string {
	if who == "" {
		return ""
	}
	return ", by " + who
}

// left reports that a note was left by an act.
func (a Asked) left(n Note) bool { return n.From == a.message.ID }

// fateOf says what has become of a signal that the document has taken.
func fateOf(a Asked, d flow.Instance) Answer {
	for _, x := range d.Early {
		if x.From == a.message.ID {
			return Answer{Done: true, Text: "it is kept for a step that has not begun"}
		}
	}
	for _, n := range d.Notes {
		if n.Do == "unheard" && a.left(n) {
			return Answer{Text: cmp.Or(n.Why, "nobody hears it: the instance has ended, or is being undone")}
		}
	}
	return Answer{Done: true}
}
