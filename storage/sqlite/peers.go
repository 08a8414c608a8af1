package sqlite

import (
	"context"

	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// claimTrust is how often a message may have been delivered and still be released with the claims of a dead process.
// A message that was delivered more often may be what kills, and restarts are quick.
const claimTrust = 3

func (s *store) newPeers(file string) *peers.Peers {
	return peers.New(peers.Config{Database: file, Logger: s.log, RingAll: s.wakes.all, HasChanged: s.hasChanged, Release: s.release})
}

// hasChanged reports whether another process has changed the file since the last call, or since the store was opened.
// It also reports true when it can't tell. It is a transaction that writes nothing, so it waits for the process that
// is writing.
func (s *store) hasChanged() bool {
	var v int64
	err := s.write(&op{ctx: context.Background(), aside: true, relaxed: true, run: func(w *writer) (err error) {
		v, err = w.c.dataVersion()
		return err
	}})
	if err != nil {
		return true
	}
	old := s.version
	s.version = v // not in the op, which may run again
	return v != old
}

// release ends the visibilities of the claims with generations first to last.
func (s *store) release(ctx context.Context, first, last int64) error {
	return s.write(&op{ctx: ctx, relaxed: true, run: func(w *writer) error { return w.release(first, last) }})
}

func (w *writer) release(first, last int64) error {
	var queues []named
	s := w.c.stmt("SELECT id, name FROM names WHERE kind = ?1").int(1, kindQueue)
	for {
		row, err := s.step()
		if err != nil {
			return err
		}
		if !row {
			break
		}
		queues = append(queues, named{nameKey{kindQueue, s.colText(1)}, s.colInt(0)})
	}
	for _, q := range queues {
		err := w.c.stmt(`UPDATE due SET visible = ?2 WHERE queue = ?1 AND visible > ?2 AND held AND gen BETWEEN ?3 AND ?4 AND deliveries <= ?5`).
			int(1, q.id).int(2, w.at).int(3, first).int(4, last).int(5, claimTrust).run()
		if err != nil {
			return err
		}
		if w.c.changes() > 0 {
			w.announce(q.name, w.now, true)
		}
	}
	return nil
}
