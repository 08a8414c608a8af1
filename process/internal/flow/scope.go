package flow

// scopes are the sequences of the plan with the steps that they belong to. They know what follows when one ends, and
// what is taken back when one fails.
type scopes struct{ *turn }

// after goes on after a step that has ended well, or whose Else has.
func (x scopes) after(n *Node) {
	if x.doc.Page != nil {
		x.allDone()
		return
	}
	if s := n.Seq; n.Index+1 < len(s.Steps) {
		x.push(s.Steps[n.Index+1])
		return
	}
	x.seqEnded(n.Seq)
}

// allDone ends the instance well, once nothing is open and nothing is being undone.
func (x scopes) allDone() {
	x.doc.Final = Completed
	x.doc.Unwinds = append(x.doc.Unwinds, Unwind{Then: unwindDone})
}

// seqEnded goes on after the last step of a sequence.
func (x scopes) seqEnded(s *Seq) {
	o := s.Owner
	if o == nil {
		x.allDone()
		return
	}
	if s.Alt {
		x.after(o)
		return
	}
	owner, ok := x.step(x.doc.find(o.Path))
	if !ok || owner.ev.Status != InProcess {
		return
	}
	switch o.Verb {
	case All:
		if owner.ev.Left--; owner.ev.Left > 0 {
			return
		}
	case Any:
		for _, b := range o.Branches {
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
	case x.doc.Page != nil:
		x.fold(Aborted, why)
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
		x.fold(Aborted, why)
		return
	}
	owner, ok := x.step(x.doc.find(o.Path))
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

// drop cancels what is open in a scope, and has all taken back that was done in it.
func (x scopes) drop(scope, then string) {
	x.cancelOpen(scope)
	x.doc.Unwinds = append(x.doc.Unwinds, Unwind{Scope: scope, Then: then})
}

// caught reports that the plan goes on in another way if a step fails: by an Else, or by another branch of an Any.
func (x scopes) caught(n *Node) bool {
	for x.doc.Page == nil {
		if n.Else != nil {
			return true
		}
		s := n.Seq
		for s.Alt {
			s = s.Owner.Seq
		}
		if n = s.Owner; n == nil {
			return false
		}
		if ev := x.doc.find(n.Path); n.Verb == Any && ev != nil && ev.Left > 1 {
			return true
		}
	}
	return false
}
