package flow

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// undoing takes back what a step has done: an agent by its undo, an Ask by a command, parts by a word to them.
type undoing struct{ s step }

// begin begins to undo a step that has ended.
func (x undoing) begin() {
	ev := x.s.ev
	ev.Status, x.s.fold.touched = Undoing, true
	u := &Undo{N: len(ev.Undos) + 1, State: ev.State, Result: ev.Result, Digest: ev.Digest}
	ev.State, ev.Result, ev.Armed = nil, nil, false
	x.start(u)
}

// beginItems begins to undo a fan that has ended.
func (x undoing) beginItems() {
	x.s.ev.Status, x.s.fold.touched = Undoing, true
	x.more()
}

// more begins to undo as many items of a fan as may be open, the last ones first.
func (x undoing) more() {
	ev, n, f := x.s.ev, x.s.n, x.s.ev.Fan
	open := 0
	for _, u := range ev.Undos {
		if !u.Status.Final() {
			open++
		}
	}
	for most := max(1, n.AtOnce); f.Undo < f.N && open < most; {
		i := f.N - 1 - f.Undo
		f.Undo++
		if Bit(f.Bad, i) || !Bit(f.Ended, i) {
			continue
		}
		u := &Undo{N: 1, Item: &i}
		if !x.s.inParts() {
			var has bool
			if u.Result, has = f.disarm(i); !has {
				continue
			}
		}
		open++
		x.start(u)
	}
	if open == 0 {
		ev.Status = Undone
	}
}

// start begins to take back one success.
func (x undoing) start(u *Undo) {
	x.s.fold.touched, x.s.fold.undoes = true, true
	u.Status, u.Attempt, u.Created = InProcess, 1, x.s.fold.now
	x.s.ev.Undos = append(x.s.ev.Undos, u)
	x.send(u, 0)
}

// send sends what takes a success back: the begin of an attempt, a word to a child, or a command.
func (x undoing) send(u *Undo, delay time.Duration) {
	s := x.s
	switch {
	case s.inParts():
		i := 0
		if u.Item != nil {
			i = *u.Item
		}
		parts{s}.ask(i, ActUndo, u.N) // its own undos have deadlines
	case s.n.UndoAsk != nil:
		x.command(u)
	default:
		item := wholeStep
		if u.Item != nil {
			item = *u.Item
		}
		if u.Timeout.IsZero() {
			u.Timeout = s.fold.now.Add(UndoWithin)
		}
		m := s.beginMessage()
		m.Attempt, m.Item, m.Undo, m.Key, m.State, m.Result = u.Attempt, u.Item, u.N, s.key(item, u.N), u.State, u.Result
		s.sendBegin(m, delay)
	}
}

// command sends the command that takes back what an Ask has brought about. Nobody waits for an answer.
func (x undoing) command(u *Undo) {
	s := x.s
	var m channel.Message
	err := guard(func() error {
		state, err := s.fold.plan.Decode(u.State)
		if err == nil {
			m, err = s.n.UndoAsk(state, u.Result)
		}
		if err == nil && m != nil {
			err = sendable(m, s.fold.now)
		}
		return err
	})
	if err != nil {
		x.stick(u, err.Error())
		return
	}
	if m != nil {
		s.fold.send(m)
	}
	x.end(u, Undone)
}

// stick makes an undo wait until somebody acts.
func (x undoing) stick(u *Undo, why string) {
	x.s.fold.touched, x.s.fold.moved = true, true
	u.Failures = noteFailure(u.Failures, Failure{N: u.Attempt, At: x.s.fold.now, Msg: shorten(why)})
	u.Status, u.Timeout = Stuck, time.Time{}
}

// answer takes the end of an attempt at an undo.
func (x undoing) answer(m Done) {
	now := x.s.fold.now
	for _, u := range x.s.ev.Undos {
		if u.Status.Final() || u.N != m.Undo || u.Item != nil && (m.Item == nil || *u.Item != *m.Item) {
			continue
		}
		delay := pace(x).delay(m, u.Attempt-u.Base)
		switch {
		case m.Outcome == OK:
			x.end(u, Undone)
		case x.s.inParts() || u.Status != InProcess || m.Attempt != u.Attempt:
		case m.Outcome == Failed && before(now.Add(delay), u.Timeout):
			x.s.fold.touched = true
			u.Failures = noteFailure(u.Failures, Failure{N: u.Attempt, At: now, Msg: shorten(m.Error)})
			u.Attempt++
			x.send(u, delay)
		case m.Outcome == Unknown:
			x.stick(u, outcomeUnknown+m.Error)
		default:
			x.stick(u, m.Error)
		}
		return
	}
}

// again tries an undo that is stuck once more.
func (x undoing) again(u *Undo) {
	x.s.fold.touched = true
	u.Status, u.Base = InProcess, u.Attempt
	u.Attempt++
	x.send(u, 0)
}

// late makes the undos stuck whose time is over.
func (x undoing) late(over func(time.Time) bool) {
	for _, u := range x.s.ev.Undos {
		if u.Status == InProcess && over(u.Timeout) {
			x.stick(u, "no end within "+UndoWithin.String())
		}
	}
}

// end ends an undo, and goes on with the step's others.
func (x undoing) end(u *Undo, status Status) {
	ev := x.s.ev
	x.s.fold.touched = true
	u.Status, u.Ended, u.Timeout, u.State, u.Result = status, x.s.fold.now, time.Time{}, nil, nil
	if ev.Fan == nil {
		if ev.Status == Undoing && !ev.undoing() {
			ev.Status = Undone
		}
		return
	}
	if at := slices.Index(ev.Undos, u); at >= 0 {
		ev.Undos = append(ev.Undos[:at:at], ev.Undos[at+1:]...)
	}
	if len(ev.Undos) == 0 {
		ev.Undos = nil
	}
	if ev.Status == Undoing {
		x.more()
	}
}
