package engine

import (
	"context"
	"strconv"
)

// Silent names the processes that may hold messages and have no connection for subscriptions.
func (e *Engine) Silent(ctx context.Context) ([]string, error) {
	reply, err := e.Ask(ctx, silent)
	if err != nil {
		return nil, err
	}
	var names []string
	list := reply.At(3).List()
	for i := range list {
		names = append(names, list.At(i).Text())
	}
	return names, nil
}

// Release makes receivable what silent processes hold, unless it was delivered more than trust times. It goes queue by
// queue, a page in each call, and returns how many messages that were. The processes are forgotten then.
func (e *Engine) Release(ctx context.Context, trust int, processes []string) (released int64, err error) {
	r, err := e.Read(ctx, "SMEMBERS", e.Key(":Q"))
	if err != nil {
		return 0, err
	}
	queues := r.List()
	for i := range queues {
		for at := "0"; ; {
			reply, err := e.Ask(ctx, release, append([]string{strconv.Itoa(trust), queues.At(i).Text(), at}, processes...)...)
			if err != nil {
				return released, err
			}
			released += reply.At(3).Int()
			if at = reply.At(4).Text(); at == "0" {
				break
			}
		}
	}
	_, err = e.Ask(ctx, forget, processes...)
	return released, err
}
