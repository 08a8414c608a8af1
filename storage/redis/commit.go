package redis

import (
	"context"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// Commit implements driver.Committer: the whole unit of work in one script. The write comes first, because it alone
// can fail by a condition.
func (s *store) Commit(ctx context.Context, work driver.Work) (driver.Committed, error) {
	s.tally.count("commit", "store", "")
	u, steps := new(engine.Unit), 0
	var did driver.Committed
	if x := work.Write; x != nil {
		etag, err := s.write(ctx, u, x.Container, x.Key, x.Body, x.If)
		if err != nil {
			return driver.Committed{}, err
		}
		did.ETag = etag
		steps++
	}
	if x := work.Rows; x != nil {
		for _, r := range x.Puts {
			id := s.e.NewID()
			u.WriteRow(x.Table, x.Partition, r.Key, id, id+string(r.Data), engine.Always)
		}
		steps += len(x.Puts)
	}
	for _, x := range work.Send {
		s.send(u, x.Queue, x.Message)
	}
	steps += len(work.Send)
	var asked []driver.Claim
	for _, x := range work.Delete {
		r, ok := engine.ParseReceipt(x.Receipt)
		if !ok {
			did.Stale = append(did.Stale, x)
			continue
		}
		u.Delete(x.Queue, r)
		asked = append(asked, x)
	}
	if err := s.e.Do(ctx, u); err != nil {
		return driver.Committed{}, err
	}
	for _, f := range u.Failures {
		if f.Step < steps {
			return driver.Committed{}, f.Err
		}
		did.Stale = append(did.Stale, asked[f.Step-steps])
	}
	for _, x := range work.Send {
		s.rang(x.Queue, x.Message.Delay)
	}
	return did, nil
}

// write adds the write of a document to a unit.
func (s *store) write(ctx context.Context, u *engine.Unit, container, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	want, err := wanted(cond)
	if err != nil {
		return "", err
	}
	id := s.e.NewID()
	state := id + stamp(s.e.Now()) + string(body)
	if len(body) < engine.Large {
		u.Write(container, key, id, state, want)
		return engine.FormatETag(id), nil
	}
	name, err := s.e.PutLarge(ctx, state)
	if err != nil {
		return "", err
	}
	u.WriteLarge(container, key, id, name, want)
	return engine.FormatETag(id), nil
}

// wanted returns a condition as the scripts have it.
func wanted(cond driver.Condition) (string, error) {
	switch {
	case cond.IfAbsent:
		return engine.Absent, nil
	case cond.IfMatch == "":
		return engine.Always, nil
	}
	id, ok := engine.ParseETag(cond.IfMatch)
	if !ok {
		return "", driver.ErrPrecondition
	}
	return id, nil
}
