package lanes

import "sync"

// bell rings the subscribers of a queue in this process.
type bell struct {
	mu   sync.Mutex
	subs []chan struct{}
}

func (b *bell) add(c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs = append(b.subs, c)
}

// remove reports that nobody is left.
func (b *bell) remove(c chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range b.subs {
		if x == c {
			b.subs = append(b.subs[:i:i], b.subs[i+1:]...)
			break
		}
	}
	return len(b.subs) == 0
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.subs {
		ring(c)
	}
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
