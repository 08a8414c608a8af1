package peers

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

const (
	// signalPause bounds the signals to a thousand a second, however much is sent.
	signalPause = time.Millisecond

	// signalStale is the age at which a signal file counts as left over from a crash. If it isn't, its owner's next
	// signal makes it again.
	signalStale = 24 * time.Hour
)

// signals gives a store's signals.
type signals struct {
	folder *folder
	file   string        // its name
	wanted chan struct{} // of capacity 1: a signal is to be given
}

func newSignals(dir *folder, file string) *signals {
	return &signals{folder: dir, file: file, wanted: make(chan struct{}, 1)}
}

// request has a signal given soon. It doesn't wait.
func (s *signals) request() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// run gives signals until ended is closed. A signal that fails is repeated.
func (s *signals) run(ended <-chan struct{}) {
	pause := signalPause
	for {
		select {
		case <-ended:
			return
		case <-s.wanted:
		}
		if s.give() {
			pause = signalPause
		} else {
			pause = min(max(2*pause, time.Second), time.Minute)
			s.request()
		}
		select {
		case <-ended:
			return
		case <-time.After(pause):
		}
	}
}

// give gives a signal: it changes the file's time. It opens the file by name each time, so that the file is there
// even after another store removed it as stale. done means that another try is of no use: the signal is given, or
// this process may not give any. Any other failure may pass, as a shortage of descriptors does.
func (s *signals) give() (done bool) {
	f, err := s.folder.create(s.file, os.O_WRONLY)
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	defer f.Close()
	_, err = f.Write([]byte{'\n'})
	return err == nil
}

// finish gives the signal that waits, for messages sent just before the end.
func (s *signals) finish() {
	select {
	case <-s.wanted:
		s.give()
	default:
	}
}
