package spool

// A bell wakes the loop that waits for it. A ring before the loop waits counts, and several rings count once.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
