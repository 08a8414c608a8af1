package keylock

// Remember lets a process remember so many keys of each sort. It is for the beginning of a test.
func (ts *Turns) Remember(most int) { ts.seen = newMemory(most) }
