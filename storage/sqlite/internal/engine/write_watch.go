package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// A writeWatch warns of a process that keeps this one from writing, such as one that was stopped within a transaction.
type writeWatch struct {
	path string
	log  *slog.Logger

	vain   time.Duration // waited since the last transaction
	warned bool
}

// see takes how long the writer has waited for its turn, and with what outcome. It logs once that the writer waits in
// vain, and once that this is over. The callers may all leave earlier than that, so waits add up.
func (x *writeWatch) see(waited time.Duration, err error) {
	if err != nil {
		x.vain += waited
	}
	switch {
	case err != nil && x.vain >= lockWait && !x.warned:
		x.warned = true
		x.log.Warn("sqlite: nothing can be written, because another process is in a transaction", "file", x.path, "process", cmp.Or(holder(x.path), "unknown: fuser -v FILE lists who has a file open"),
			"waited", x.vain.Round(time.Second), "fix", "if that process stands still, let it go on (kill -CONT PID) or end it")
	case err == nil && x.warned:
		x.log.Info("sqlite: the other process's transaction is over, and writes go on", "file", x.path)
		fallthrough
	case err == nil:
		x.vain, x.warned = 0, false
	}
}

// named adds to an error which process is in the way.
func named(path string, err error) error {
	if !busy(err) {
		return err
	}
	name := holder(path)
	if name == "" {
		return err
	}
	return fmt.Errorf("%w: %s is in a transaction that writes; if it stands still, let it go on or end it", err, name)
}

// A Standstill looks for a process that is in a transaction and writes nothing, and so keeps all others from writing.
// It opens nothing of the database. It is for one goroutine.
type Standstill struct {
	path string
	seen sight
	from time.Time
}

type sight struct {
	holder  string
	bytes   int64 // of the log
	written int64 // when
}

// NewStandstill looks at the file of a path.
func NewStandstill(path string) *Standstill { return &Standstill{path: path} }

// Look names the process that is in a transaction that writes, and says for how long that process has been seen there
// without a change of the log. "" is none, or one that can't be seen.
func (x *Standstill) Look() (process string, lasted time.Duration) {
	path := x.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the files beside it have its name
	}
	now, seen := time.Now(), sight{holder: holder(path)}
	if log, err := os.Stat(path + "-wal"); err == nil {
		seen.bytes, seen.written = log.Size(), log.ModTime().UnixNano()
	}
	if seen != x.seen {
		x.seen, x.from = seen, now
	}
	if seen.holder == "" {
		return "", 0
	}
	return seen.holder, now.Sub(x.from)
}
