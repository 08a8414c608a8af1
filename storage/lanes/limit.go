package lanes

import (
	"context"
	"math"
)

// A limit bounds how many messages one Receive brings of the lanes below a priority.
type limit struct {
	below Priority
	left  int
}

type limitKey struct{}

// AtMostBelow returns a context under which one Receive brings at most n messages of the lanes below a priority. So a
// worker doesn't take what it can't run. The slow lane counts as below each priority, because it has messages of all.
// Others stay in their lanes, and keep their turns. Packages above reach it through wire.AtMostBelow.
func AtMostBelow(ctx context.Context, p Priority, n int) context.Context {
	return context.WithValue(ctx, limitKey{}, limit{p, max(0, n)})
}

// limitOf returns the limit of a context. Without one, nothing is limited.
func limitOf(ctx context.Context) limit {
	if l, ok := ctx.Value(limitKey{}).(limit); ok {
		return l
	}
	return limit{below: Low, left: math.MaxInt}
}

// concerns reports that messages of a class are counted.
func (l *limit) concerns(c *class) bool { return c.aside || c.priority < l.below }

// allows reports that another message of a class may be received.
func (l *limit) allows(c *class) bool {
	return l.left > 0 || !l.concerns(c)
}

// take counts a message of a class.
func (l *limit) take(c *class) {
	if l.concerns(c) {
		l.left--
	}
}
