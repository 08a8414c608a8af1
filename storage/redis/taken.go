package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// A Taken is a value that was taken of a [List]. It is held until Done or HandBack, or until its process has died and
// somebody calls [List.Recover].
type Taken struct {
	Value []byte // the caller's

	l     *List
	claim string
}

// TakeFirst takes the oldest value. Without one it waits, until ctx ends.
func (l *List) TakeFirst(ctx context.Context) (*Taken, error) { return l.take(ctx, first) }

// TakeLast takes the newest value. Without one it waits, until ctx ends.
func (l *List) TakeLast(ctx context.Context) (*Taken, error) { return l.take(ctx, last) }

func (l *List) take(ctx context.Context, end string) (*Taken, error) {
	var claim string
	v, err := l.await(ctx, func() (v string, ok bool, err error) {
		claim = l.nextClaim(end)
		return l.takeNow(ctx, end, claim)
	})
	if err != nil {
		return nil, l.fail("take from", err)
	}
	return &Taken{Value: []byte(v), l: l, claim: claim}, nil
}

// takeNow takes without waiting. The take doesn't end with ctx: a value that nobody waits for any more is handed back.
// After a failure the claim may hold something, so the next take uses the same one.
func (l *List) takeNow(ctx context.Context, end, claim string) (string, bool, error) {
	call := context.WithoutCancel(ctx)
	return abandonable(ctx, func() (string, bool, error) {
		reply, err := l.ask(call, "take from", engine.Take, l.name, end, claim)
		if err != nil {
			l.shared.suspect(end, claim)
		}
		return value(reply, err)
	}, func(string) {
		if _, err := l.ask(call, "hand back to", engine.Done, l.name, "back", claim); err != nil {
			l.shared.suspect(end, claim)
		}
	})
}

// nextClaim returns the claim for the next take.
func (l *List) nextClaim(end string) string {
	if claims := l.shared.suspects(end, 1); len(claims) > 0 {
		return claims[0]
	}
	return fmt.Sprintf("%s%s%016x", l.s.e.Process(), end, l.s.lists.claims.Add(1))
}

// suspect notes a claim that may hold a value.
func (x *sharedList) suspect(end, claim string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.doubt[end] = append(x.doubt[end], claim)
}

// suspects returns up to n claims that may hold a value, and forgets them.
func (x *sharedList) suspects(end string, n int) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	n = min(n, len(x.doubt[end]))
	claims := x.doubt[end][:n:n]
	x.doubt[end] = x.doubt[end][n:]
	return claims
}

// Done says that the value is handled, and removes it. [driver.ErrReceiptStale] means that the value was given back
// before, or that an earlier Done has removed it.
func (t *Taken) Done(ctx context.Context) error { return t.end(ctx, "end the holding in", "") }

// HandBack puts the value back to the end that it came from, for any consumer.
func (t *Taken) HandBack(ctx context.Context) error { return t.end(ctx, "hand back to", "back") }

func (t *Taken) end(ctx context.Context, op, how string) error {
	reply, err := t.l.ask(ctx, op, engine.Done, t.l.name, how, t.claim)
	if err == nil && reply.At(3).Int() == 0 {
		err = t.l.fail(op, driver.ErrReceiptStale)
	}
	return err
}

// mostSuspects is how many claims in doubt one Recover gives back of each end.
const mostSuspects = 1000

// Recover gives back what dead consumers held, to the ends that the values came from, and returns how many values that
// was. The order of taking is kept. Call it at the start of a program and now and then. It takes some 2 seconds if
// somebody looks dead, up to 12 after a restart or a failover of the server, and else one look. A process whose
// connection is cut for so long, and that lives, may find its values given to others.
func (l *List) Recover(ctx context.Context) (int, error) {
	n := 0
	for _, end := range []string{first, last} { // of this process: the answers to its takes were lost
		claims := l.shared.suspects(end, mostSuspects)
		if len(claims) == 0 {
			continue
		}
		reply, err := l.ask(ctx, "recover", engine.Done, slices.Concat([]string{l.name, "back"}, claims)...)
		if err != nil {
			for _, c := range claims {
				l.shared.suspect(end, c)
			}
			return n, err
		}
		n += int(reply.At(3).Int())
	}
	reply, err := l.ask(ctx, "recover", engine.Recover, l.name)
	if err != nil {
		return n, err
	}
	args := []string{l.name}
	silent := reply.At(4).List()
	for i := range silent {
		args = append(args, silent.At(i).Text())
	}
	if len(silent) == 0 {
		return n, nil
	}
	wait := deadPause
	if e := l.s.ear; e != nil {
		wait = max(wait, settled-e.heard())
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return n, l.fail("recover", context.Cause(ctx))
	}
	if e := l.s.ear; e != nil && e.heard() < settled {
		return n, nil // the connection was lost meanwhile, and maybe also that of who looks dead
	}
	reply, err = l.ask(ctx, "recover", engine.Recover, args...)
	return n + int(reply.At(3).Int()), err
}
