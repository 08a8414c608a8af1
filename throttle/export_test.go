package throttle

// Words tells how many words the rate limiter keeps, and the bytes of all its tables.
func (d *RateLimiter) Words() (words, bytes int) {
	for i := range d.memory.shards {
		s := &d.memory.shards[i]
		s.mu.Lock()
		words += s.rates.used + s.holds.used
		bytes += 16 * (len(s.rates.slots) + len(s.holds.slots))
		s.mu.Unlock()
	}
	return words, bytes
}

// Remembered tells how many accepted IDs the rate limiter remembers.
func (d *RateLimiter) Remembered() (n int) {
	for i := range d.memory.shards {
		s := &d.memory.shards[i]
		s.mu.Lock()
		n += len(s.repeats.young) + len(s.repeats.old)
		s.mu.Unlock()
	}
	return n
}

// Remember sets how many accepted IDs the rate limiter remembers.
func (d *RateLimiter) Remember(n int) {
	for i := range d.memory.shards {
		d.memory.shards[i].repeats.most = n / shards
	}
}
