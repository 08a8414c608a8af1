package guard

// news is a channel for those that wait for a change. Its callers hold a mutex.
type news struct{ changed chan struct{} }

// wait returns a channel that is closed at the next change.
func (n *news) wait() <-chan struct{} {
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *news) tell() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
