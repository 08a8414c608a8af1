package storagetest

import (
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Plain wraps a store so that it has no optional ability: no atomic commits, no rings, no message is found by its
// key, no queue is listed, and nothing is told of the engine. So the general fallbacks run on any engine, above all the
// steps rows, write, send, delete of a unit of work.
func Plain(s *storage.Store) *storage.Store { return storage.New(plain{s.Driver()}) }

type plain struct{ driver.Store }

func (plain) Committer() driver.Committer { return nil }
func (plain) Listener() driver.Listener   { return nil }
func (plain) Finder() driver.Finder       { return nil }
func (plain) Lister() driver.Lister       { return nil }
func (plain) Peeker() driver.Peeker       { return nil }
func (plain) Inspector() driver.Inspector { return nil }
