package sqlite

import (
	"context"

	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// claimTrust is how often a message may have been delivered and still be released with the claims of a dead process.
// A message that was delivered more often may be what kills, and restarts are quick.
const claimTrust = 3

func (s *store) newPeers(file string) *peers.Peers {
	desk := &pubsub.Desk{Receivers: s.receivers}
	return peers.New(peers.Config{Database: file, Logger: s.log, RingAll: s.rings.All, HasChanged: s.hasChanged, Release: s.release, Serve: desk.Serve, Lost: s.receivers.Lose})
}

// hasChanged reports whether another process has changed the file since the last call, or since the store was opened.
// It also reports true when it can't tell. It is a transaction that writes nothing, so it waits for the process that
// is writing.
func (s *store) hasChanged() bool {
	var v int64
	err := s.write(&engine.Op{Ctx: context.Background(), Aside: true, Relaxed: true}, func(w *tx) (err error) {
		v, err = dataVersion(w.c)
		return err
	})
	if err != nil {
		return true
	}
	old := s.version
	s.version = v // not in the op, which may run again
	return v != old
}

// dataVersion returns a number that changes once another connection has changed the file.
func dataVersion(c *engine.Conn) (int64, error) { return c.OneInt("PRAGMA data_version") }

// release ends the visibilities of the claims with generations first to last.
func (s *store) release(ctx context.Context, first, last int64) error {
	return s.write(&engine.Op{Ctx: ctx, Relaxed: true}, func(w *tx) error { return w.release(first, last) })
}

func (w *tx) release(first, last int64) error {
	var queues []named
	s := w.c.Stmt("SELECT id, name FROM names WHERE kind = ?1").Int(1, kindQueue)
	for {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			break
		}
		queues = append(queues, named{nameKey{kindQueue, s.ColText(1)}, s.ColInt(0)})
	}
	for _, q := range queues {
		err := w.c.Stmt(`UPDATE due SET visible = ?2 WHERE queue = ?1 AND visible > ?2 AND held AND gen BETWEEN ?3 AND ?4 AND deliveries <= ?5`).
			Int(1, q.id).Int(2, w.at).Int(3, first).Int(4, last).Int(5, claimTrust).Run()
		if err != nil {
			return err
		}
		if w.c.Changes() > 0 {
			w.announce(q.name, w.now, true)
		}
	}
	return nil
}
