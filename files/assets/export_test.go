package assets

// Until waits until something is so, a minute at most.
var Until = until

// LookOften makes each URL start a look at the other origin, unless one is under way.
func (s *Set) LookOften() { s.origin.pause = 0 }
