package flow

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// operate lets the operator act on what stands still, when nothing is under way any more. It reports whether there was
// something to do.
func (s *sim) operate(round int) bool {
	s.now = s.now.Add(time.Duration(1+s.rng.IntN(600)) * time.Second)
	if round == 1 || s.chance(30) {
		s.broken = false
	}
	if round > 20 {
		s.kind, s.broken = true, false
	}
	acted := false
	for _, id := range s.ids() {
		d := s.keeper.get(id)
		for _, ev := range d.Events {
			if ev.Status == Stuck || slices.ContainsFunc(ev.Undos, func(u *Undo) bool { return u.Status == Stuck }) {
				s.unstick(id, ev, round)
				acted = true
				break // one step at a time
			}
			if n := s.plan.Find(d.Part).Node(ev.ID); ev.Status == InProcess && n.Verb == Wait && ev.Timeout.IsZero() {
				s.enqueue(s.signal(id, n), s.now)
				acted = true
			}
		}
	}
	if d := s.keeper.get("o1"); !acted && d.over() && s.reruns < 2 && s.chance(20) {
		s.reruns++
		s.rerun()
		return true
	}
	return acted
}

// unstick acts on a step that is stuck.
func (s *sim) unstick(id string, ev *Event, round int) {
	act := Act{Plan: "plan", ID: id, Path: ev.ID, Do: ActRetry, By: "ada"}
	if last := s.keeper.get(id).find(ev.ID); ev.Status == Stuck && ev != last && last.Run != ev.Run {
		s.fault("%s: step %s is stuck, and there is a newer one", id, ev.Name)
	}
	switch n := s.rng.IntN(100); {
	case ev.Status == Stuck && ev.Fan != nil && ev.Halt == haltFailed, n < 8, round > 30 && n < 50:
		act.Do = ActSkip
		if ev.Status == Stuck && ev.Verb != Child && ev.Verb != Split && s.chance(40) {
			act.Result = jsontext.Value(`"` + operators + `"`)
		}
	case n < 14 && !strings.Contains(id, "/"):
		s.rerun()
		return
	}
	s.enqueue(act, s.now)
}

func (s *sim) rerun() {
	steps := s.plan.Root.Steps
	s.enqueue(Act{Plan: "plan", ID: "o1", Do: ActRerun, Path: steps[s.rng.IntN(len(steps))].Path, By: "ada"}, s.now)
}

// notice keeps what acts have done that the audit must know.
func (s *sim) notice(m any, before *Instance) {
	x, ok := m.(Act)
	if !ok {
		return
	}
	after := s.keeper.get(x.ID)
	if n := len(after.Notes); n > 0 && after.Notes[n-1].Do == x.Do {
		s.acts[x.Do] = true
	}
	if after.Cancel != nil {
		s.acts[ActCancel] = true
	}
	if x.Do != ActSkip {
		return
	}
	for _, ev := range before.Events {
		if ev.ID != x.Path {
			continue
		}
		if ev.Status == Stuck {
			s.skips[place{x.ID, x.Path, wholeStep}] = true
		}
		for _, u := range ev.Undos {
			if u.Status == Stuck {
				result := u.Result
				if u.Item != nil {
					_, result, _ = Armed(u.Result)
				}
				s.out.effectOf(string(result)).spared = true
			}
		}
	}
}

// afterwards ends the retention, and lets messages come that are late for it.
func (s *sim) afterwards() {
	for _, p := range slices.Clone(s.purges) {
		if _, _, err := s.keeper.fold(p.ID, p, p.At); err != nil {
			s.fault("%v", err)
		}
	}
	for len(s.purges) > 0 { // what was put off
		all := s.purges
		s.purges = nil
		for _, p := range all {
			out, _, err := s.keeper.fold(p.ID, p, p.At)
			if err != nil {
				s.fault("%v", err)
			}
			for _, m := range out {
				if m, _ := due(m, p.At); m != nil {
					if a, ok := m.(Alarm); ok && a.Purge {
						s.purges = append(s.purges, a)
					}
				}
			}
		}
	}
	d := s.keeper.get("o1")
	if !d.Purged || len(d.Events) > 0 {
		s.fault("after its retention o1 is %s", s.keeper.docs["o1"])
	}
	start := Start{Plan: "plan", ID: "o1", State: jsontext.Value("[]")}
	s.again("o1", start, s.now)
	start.State = jsontext.Value(`["other"]`)
	if _, _, err := s.keeper.fold("o1", start, s.now); err == nil {
		s.fault("another start is taken after the end")
	}
	if m := (Done{Plan: "plan", ID: "o1", Path: "01", Outcome: OK, Attempt: 1}); len(d.Unheard) == 0 {
		s.again("o1", m, s.now)
	}
	for _, m := range []any{
		Alarm{Plan: "plan", ID: "o1", At: s.now},
		Act{Plan: "plan", ID: "o1", Do: ActCancel}, Signal{Plan: "plan", ID: "o1", Sort: "signal.any"},
	} {
		s.again("o1", m, s.now)
	}
}
