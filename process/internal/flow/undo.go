package flow

import (
	"time"

	"github.com/millrace-go/millrace/channel"
)

// undoing is a step that takes back what it has done.
type undoing struct{ step }

// begin begins to undo a step that has ended.
func (s undoing) begin() {
	ev := s.ev
	ev.Status, s.touched = Undoing, true
	if ev.Fan != nil {
		s.more()
		return
	}
	u := &Undo{N: len(ev.Undos) + 1, State: ev.State, Result: ev.Result, Digest: ev.Digest}
	ev.State, ev.Result, ev.Armed = nil, nil, false
	s.start(u)
}

// more begins to undo as many items of a fan as may be open, the last ones first.
func (s undoing) more() {
	ev, n, x := s.ev, s.n, s.ev.Fan
	open := 0
	for _, u := range ev.Undos {
		if !u.Status.Final() {
			open++
		}
	}
	for most := max(1, n.AtOnce); x.Undo < x.N && open < most; {
		i := x.N - 1 - x.Undo
		x.Undo++
		if Bit(x.Bad, i) || !Bit(x.Ended, i) {
			continue
		}
		u := &Undo{N: 1, Item: &i}
		if n.Child == nil && !x.Paged {
			var has bool
			if u.Result, has = x.disarm(i); !has {
				continue
			}
		}
		open++
		s.start(u)
	}
	if open == 0 {
		ev.Status = Undone
	}
}

// start begins to take back one success.
func (s undoing) start(u *Undo) {
	s.touched, s.undoes = true, true
	u.Status, u.Attempt, u.Created = InProcess, 1, s.now
	s.ev.Undos = append(s.ev.Undos, u)
	s.send(u, 0)
}

// send sends what takes a success back: the begin of an attempt, a word to a child, or a command.
func (s undoing) send(u *Undo, delay time.Duration) {
	ev, n := s.ev, s.n
	switch {
	case n.Child != nil || ev.Fan != nil && ev.Fan.Paged:
		i := 0
		if u.Item != nil {
			i = *u.Item
		}
		parts(s).ask(i, ActUndo, u.N) // its own undos have deadlines
	case n.UndoAsk != nil:
		s.command(u)
	default:
		item := wholeStep
		if u.Item != nil {
			item = *u.Item
		}
		if u.Timeout.IsZero() {
			u.Timeout = s.now.Add(UndoWithin)
		}
		m := s.beginMessage()
		m.Attempt, m.Item, m.Undo, m.Key, m.State, m.Result = u.Attempt, u.Item, u.N, s.key(item, u.N), u.State, u.Result
		s.sendBegin(m, delay)
	}
}

// command sends the command that takes back what an Ask has brought about. Nobody waits for an answer.
func (s undoing) command(u *Undo) {
	var m channel.Message
	err := guard(func() error {
		state, err := s.plan.Decode(u.State)
		if err == nil {
			m, err = s.n.UndoAsk(state, u.Result)
		}
		if err == nil && m != nil {
			err = sendable(m, s.now)
		}
		return err
	})
	if err != nil {
		s.stick(u, err.Error())
		return
	}
	if m != nil {
		s.turn.send(m)
	}
	s.end(u, Undone)
}

// stick makes an undo wait until somebody acts.
func (s undoing) stick(u *Undo, why string) {
	s.touched, s.moved = true, true
	u.Failures = noteFailure(u.Failures, Failure{N: u.Attempt, At: s.now, Msg: shorten(why)})
	u.Status, u.Timeout = Stuck, time.Time{}
}

// answer takes the end of an attempt at an undo.
func (s undoing) answer(m Done) {
	child := s.n.Child != nil || s.ev.Fan != nil && s.ev.Fan.Paged
	for _, u := range s.ev.Undos {
		if u.Status.Final() || u.N != m.Undo || u.Item != nil && (m.Item == nil || *u.Item != *m.Item) {
			continue
		}
		delay := pace(s).delay(m, u.Attempt-u.Base)
		switch {
		case m.Outcome == OK:
			s.end(u, Undone)
		case child || u.Status != InProcess || m.Attempt != u.Attempt:
		case m.Outcome == Failed && before(s.now.Add(delay), u.Timeout):
			s.touched = true
			u.Failures = noteFailure(u.Failures, Failure{N: u.Attempt, At: s.now, Msg: shorten(m.Error)})
			u.Attempt++
			s.send(u, delay)
		case m.Outcome == Unknown:
			s.stick(u, outcomeUnknown+m.Error)
		default:
			s.stick(u, m.Error)
		}
		return
	}
}

// again tries an undo that is stuck once more.
func (s undoing) again(u *Undo) {
	s.touched = true
	u.Status, u.Base = InProcess, u.Attempt
	u.Attempt++
	s.send(u, 0)
}

// end ends an undo, and goes on with the step's others.
func (s undoing) end(u *Undo, status Status) {
	ev := s.ev
	s.touched = true
	u.Status, u.Ended, u.Timeout, u.State, u.Result = status, s.now, time.Time{}, nil, nil
	if ev.Fan != nil {
		for i := range ev.Undos {
			if ev.Undos[i] == u {
				ev.Undos = append(ev.Undos[:i:i], ev.Undos[i+1:]...)
				break
			}
		}
		if len(ev.Undos) == 0 {
			ev.Undos = nil
		}
		if ev.Status == Undoing {
			s.more()
		}
		return
	}
	if ev.Status == Undoing && !ev.undoing() {
		ev.Status = Undone
	}
}
