package bucket

import "time"

// attend is whether a bucket has a keeper, and what the keeper is asked for.
type attend struct {
	join    func() (wake func()) // nil: there never is a keeper
	wake    func()               // of the keeper
	asked   time.Time            // the last call
	running bool                 // there is a keeper
	leaving bool                 // the share is to be given back
	hurried bool                 // the bucket wants another share, and the keeper has not heeded that since
	left    chan struct{}        // closed when the keeper ends, or stays after all
}

// ask notes a call. It reports that the bucket has no keeper, and must start one.
func (a *attend) ask(now time.Time) (idle bool) {
	a.asked = now
	if a.join == nil {
		return false
	}
	if a.leaving { // it stays
		a.leaving = false
		close(a.left)
		a.left = make(chan struct{})
	}
	return !a.running
}

// start starts a keeper.
func (a *attend) start() {
	a.running, a.left = true, make(chan struct{})
	a.wake = a.join()
}

// hurry lets the keeper look soon.
func (a *attend) hurry() {
	if a.running && a.join != nil {
		a.hurried = true
		a.wake()
	}
}

// leave asks the keeper to give the share back. It returns what is closed afterwards; nil: there is no share.
func (a *attend) leave() (left <-chan struct{}) {
	if !a.running || a.join == nil {
		return nil
	}
	a.leaving = true
	a.hurry()
	return a.left
}

// retired notes that the keeper has given the share back, which it began to do at a time. The keeper stays if there was
// a call meanwhile.
func (a *attend) retired(began time.Time) (stays bool) {
	a.leaving = false
	close(a.left)
	if stays = a.asked.After(began); stays {
		a.left = make(chan struct{})
	}
	a.running = stays
	return stays
}
