package engine

// A syncMode says whether the writer's commits wait until the disk has the log.
//
// A group of ops that are relaxed or late need not wait. The log is written in order. So after a power failure it holds
// a beginning of what was written, and any later commit that waits makes all before it durable too. Any other op was
// promised to its caller.
type syncMode struct {
	c       *Conn
	relaxed bool // commits don't wait at present
}

// relax sets the mode. A change costs some 2 µs, 30 after a rest. A sync of the disk costs a hundred or more.
func (m *syncMode) relax(relaxed bool) error {
	if relaxed == m.relaxed {
		return nil
	}
	mode := "PRAGMA synchronous = FULL"
	if relaxed {
		mode = "PRAGMA synchronous = NORMAL"
	}
	// Not kept as a prepared statement: the setting takes effect when the statement is compiled.
	if err := m.c.Exec(mode); err != nil {
		return err
	}
	m.relaxed = relaxed
	return nil
}
