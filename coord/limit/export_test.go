package limit

import "time"

// Lasting returns a configuration whose rows last for a TTL. It is for tests in real time.
func (c Config) Lasting(ttl time.Duration) Config {
	c.ttl = ttl
	return c
}
