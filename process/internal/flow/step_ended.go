package flow

// A step that has ended well is followed by the next step of its sequence. The last step ends the sequence, and with it
// the step that the sequence belongs to. A step that has failed is followed by its Else, or fails the sequence that it
// is in.

// follow goes on after the steps that have ended. The end of a step may be that of the step that it belongs to.
func (x scopes) follow() {
	for len(x.fold.ends) > 0 {
		e := x.fold.ends[0]
		x.fold.ends = x.fold.ends[1:]
		if e.failed {
			x.stepFailed(e.n, e.why)
		} else {
			x.after(e.n)
		}
	}
}

// after goes on after a step that has ended well, or whose Else has.
func (x scopes) after(n *Node) {
	s := n.Seq
	switch {
	case x.fold.doc.Page != nil:
		x.allDone()
	case n.Index+1 < len(s.Steps):
		x.fold.begin(s.Steps[n.Index+1])
	case s.Owner == nil:
		x.allDone()
	case s.Alt:
		x.after(s.Owner)
	default:
		x.branchDone(s)
	}
}

// branchDone goes on after the last step of a branch.
func (x scopes) branchDone(s *Seq) {
	owner, ok := x.fold.step(x.fold.doc.find(s.Owner.Path))
	if !ok || owner.ev.Status != InProcess {
		return
	}
	switch s.Owner.Verb {
	case All:
		if owner.ev.Left--; owner.ev.Left > 0 {
			return
		}
	case Any:
		for _, b := range s.Owner.Branches {
			if b != s {
				x.drop(b.Path, "")
			}
		}
	}
	owner.finish(Completed)
}

// stepFailed goes on after a step that has failed.
func (x scopes) stepFailed(n *Node, why string) {
	switch {
	case x.fold.doc.Page != nil:
		x.giveUp(Aborted, why)
	case n.Else != nil:
		x.drop(n.Path, unwindElse)
	default:
		x.seqFailed(n.Seq, why)
	}
}

// seqFailed goes on after a sequence that has failed.
func (x scopes) seqFailed(s *Seq, why string) {
	for s.Alt {
		s = s.Owner.Seq
	}
	o := s.Owner
	if o == nil {
		x.giveUp(Aborted, why)
		return
	}
	owner, ok := x.fold.step(x.fold.doc.find(o.Path))
	if !ok || owner.ev.Status != InProcess {
		return
	}
	owner.ev.Failed++
	if o.Verb == Any {
		x.drop(s.Path, "")
		if owner.ev.Left--; owner.ev.Left > 0 {
			return
		}
	}
	owner.fail(why)
}

// allDone ends the instance well, once nothing is open and nothing is being undone.
func (x scopes) allDone() {
	x.fold.doc.Final = Completed
	x.fold.doc.Unwinds = append(x.fold.doc.Unwinds, Unwind{Then: unwindDone})
}
