package storagetest

import "github.com/millrace-go/millrace/storage"

// Plain wraps a store so that it has no optional ability: no storage.Committer, storage.Waker, storage.Awaiter,
// storage.BatchTable or storage.BatchDeleter, and neither Props.Atomic nor Props.QuietInterval. It makes the general fallbacks, above all the
// steps rows, write, send, delete of storage.Commit, run on any engine.
func Plain(s storage.Store) storage.Store { return &plain{s} }

type plain struct{ s storage.Store }

func (p *plain) Queue(name string) storage.Queue      { return plainQueue{p.s.Queue(name)} }
func (p *plain) Blobs(container string) storage.Blobs { return p.s.Blobs(container) }
func (p *plain) Table(name string) storage.Table      { return plainTable{p.s.Table(name)} }
func (p *plain) Close() error                         { return p.s.Close() }

func (p *plain) Props() storage.Props {
	props := p.s.Props()
	props.Atomic, props.QuietInterval = false, 0
	return props
}

// plainQueue has the methods of storage.Queue and no others.
type plainQueue struct{ storage.Queue }

// plainTable has the methods of storage.Table and no others.
type plainTable struct{ storage.Table }
