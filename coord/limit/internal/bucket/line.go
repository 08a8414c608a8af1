package bucket

// line is the order of the calls that wait.
type line struct {
	waiting int
	first   chan struct{} // capacity 1: full while one of them is the first; nil: none has ever waited
}

// stand begins to wait. The call that has sent to the channel is the first.
func (l *line) stand() chan struct{} {
	if l.first == nil {
		l.first = make(chan struct{}, 1)
	}
	l.waiting++
	return l.first
}

// watch is a change that others wait for.
type watch struct {
	changed chan struct{} // nil: nobody waits
}

// next returns a channel that is closed at the next change.
func (w *watch) next() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// tell wakes those that wait.
func (w *watch) tell() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}
