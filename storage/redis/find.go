package redis

import (
	"context"
	"iter"
	"strconv"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// Find implements driver.Finder.
func (s *store) Find(ctx context.Context, queue, key string) ([]driver.Delivery, error) {
	s.tally.count("find", "queue", queue)
	reply, err := s.e.Ask(ctx, engine.Find, queue, key)
	if err != nil {
		return nil, err
	}
	var got []driver.Delivery
	list := reply.At(3).List()
	for i := 0; i+2 < len(list); i += 3 {
		id, d := whole(list.At(i).Text())
		if nonce := list.At(i + 1).Text(); nonce != "" {
			d.Receipt, d.Deliveries = engine.Receipt{ID: id, Nonce: nonce}.Text(), int(list.At(i+2).Int())
		}
		got = append(got, d)
	}
	return got, nil
}

// peekPage is how many messages one page of Peek has. Bodies may be large.
const peekPage = 32

// Peek implements driver.Peeker. It yields all that wait.
func (s *store) Peek(ctx context.Context, queue string) iter.Seq2[driver.Peeked, error] {
	return func(yield func(driver.Peeked, error) bool) {
		for _, part := range []string{"r", "d"} { // ready, delayed
			place, last, known := "0", "", []string(nil)
			for place != "" {
				s.tally.count("peek", "queue", queue)
				args := append([]string{queue, strconv.Itoa(peekPage), part, place, last}, known...)
				reply, err := s.e.Ask(ctx, engine.Peek, args...)
				if err != nil {
					yield(driver.Peeked{}, err)
					return
				}
				place, last, known = reply.At(3).Text(), reply.At(4).Text(), nil
				list := reply.At(5).List()
				for i := 0; i+3 < len(list); i += 4 {
					id, d := whole(list.At(i).Text())
					known = append(known, id)
					p := driver.Peeked{Body: d.Body, SentAt: d.SentAt, Deliveries: int(list.At(i + 2).Int())}
					if nonce := list.At(i + 1).Text(); nonce != "" {
						p.Receipt = engine.Receipt{ID: id, Nonce: nonce}.Text()
					}
					if till := list.At(i + 3).Int(); till > 0 {
						p.ReadyAt = engine.Time(till)
					}
					if !yield(p, nil) {
						return
					}
				}
			}
		}
	}
}

// Queues implements driver.Lister. The names are few, so they are one page.
func (s *store) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.tally.count("list", "queue", "")
		r, err := s.e.Read(ctx, "SMEMBERS", s.e.Key(":Q"))
		if err != nil {
			yield("", err)
			return
		}
		list := r.List()
		for i := range list {
			if !yield(list.At(i).Text(), nil) {
				return
			}
		}
	}
}
