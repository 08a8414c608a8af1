package engine

import "log/slog"

// logHeld is how many pages a copy of the log may leave there without a warning: 256 MB. Unless a reader goes on for
// long, a copy leaves only pages that were written meanwhile.
const logHeld = 1 << 16

// A readerWatch warns of a read transaction that some program keeps open. Pages that were written since it began
// can't be copied from the log into the file, so the log grows as long as the transaction lasts.
type readerWatch struct {
	path  string // of the log
	frame int64  // bytes that a page takes there
	limit int64
	log   *slog.Logger

	warned bool
}

// see takes the outcome of a copy. It logs once that there is such a transaction, and once that it is over.
func (r *readerWatch) see(did copied) {
	switch {
	case did.pages < 0:
	case did.left >= r.limit && !r.warned:
		r.warned = true
		r.log.Warn("sqlite: the log grows, because some program keeps a read transaction open", "log", r.path, "bytes", did.pages*r.frame,
			"fix", "end that transaction or its program: look for a database tool or a backup (fuser -v FILE lists who has a file open); the log shrinks by itself then")
	case did.left < r.limit/4 && r.warned:
		r.warned = false
		r.log.Info("sqlite: the log is copied into the file again; the read transaction that was open is over", "log", r.path, "bytes", did.pages*r.frame)
	}
}
