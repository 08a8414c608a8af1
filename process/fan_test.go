package process_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/process"
)

// numbers returns the texts of the numbers from 0 to n-1.
func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

// count is a gathering function that counts and adds up. A note holds both.
func count(n note, item string) note {
	many, sum := 0, 0
	if len(n.Did) == 1 {
		_, _ = fmt.Sscanf(n.Did[0], "%d items, %d in all", &many, &sum)
	}
	x, _ := strconv.Atoi(item)
	return note{[]string{fmt.Sprintf("%d items, %d in all", many+1, sum+x)}}
}

func counted(n int) string { return fmt.Sprintf("%d items, %d in all", n, n*(n-1)/2) }

// Laws 4 and 16. The write that ends the last item begins what follows, once, however many items there are, and whether
// they lie in the document, in pages, or are listed by an agent.
func TestTheLastItemGathers(t *testing.T) {
	parttest.InTurn(t)
	agent := func(c *crew) func(context.Context, string) (string, error) {
		return func(ctx context.Context, item string) (string, error) {
			_, err := c.work(ctx, "item")
			return item, err
		}
	}
	for name, c := range map[string]struct {
		n    int
		plan func(c *crew, p *process.Plan[note])
	}{
		"none": {0, func(c *crew, p *process.Plan[note]) {
			process.Each(p, "each", func(note) []string { return nil }, agent(c), count)
		}},
		"a page": {1024, func(c *crew, p *process.Plan[note]) {
			process.Each(p, "each", func(note) []string { return numbers(1024) }, agent(c), count)
		}},
		"two pages": {1025, func(c *crew, p *process.Plan[note]) {
			process.Each(p, "each", func(note) []string { return numbers(1025) }, agent(c), count).AtOnce(64)
		}},
		"listed": {1500, func(c *crew, p *process.Plan[note]) {
			process.EachFrom(p, "each", func(_ context.Context, _ note, from string) (items []string, next string, err error) {
				at, _ := strconv.Atoi(from)
				end := min(at+400, 1500)
				if items = numbers(1500)[at:end]; end < 1500 {
					next = strconv.Itoa(end)
				}
				return items, next, nil
			}, agent(c), count)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(crew *crew, p *process.Plan[note]) {
				c.plan(crew, p)
				crew.do(p, "last")
			}, func(l *lab) {
				l.start("i")
				want := "last"
				if c.n > 0 {
					want = counted(c.n) + ", last"
				}
				l.want("i", process.Completed, want)
				if got := l.took(); strings.Count(got, "item") != c.n || strings.Count(got, "last") != 1 {
					l.t.Errorf("%d items and %d times what follows, want %d and one", strings.Count(got, "item"), strings.Count(got, "last"), c.n)
				}
			})
		})
	}
}

// Law 16. 3,000 items lie in three pages. An agent that fails for a while, and one that fails for good but may, change
// nothing of that.
func TestThousandsOfItems(t *testing.T) {
	const n = 3000
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Each(p, "each", func(note) []string { return numbers(n) }, func(ctx context.Context, item string) (string, error) {
			switch {
			case item == "7":
				return "", process.Refuse(errors.New("no"))
			case item == "2999" && process.Attempt(ctx) < 3:
				return "", errors.New("503")
			}
			return item, nil
		}, count).Tolerate(1)
	}, func(l *lab) {
		l.start("i")
		l.app.Advance(time.Minute)
		l.want("i", process.Completed, fmt.Sprintf("%d items, %d in all", n-1, n*(n-1)/2-7))
		if line := stream(l, "i").Lines[1]; line.Items != n || line.Failed != 1 || line.Left != 0 {
			l.t.Errorf("got %d items, %d failed, %d left; want %d, one, none", line.Items, line.Failed, line.Left, n)
		}
	})
}

// A fan that fails takes back what its items have done: each once, also those in pages.
func TestItemsAreUndone(t *testing.T) {
	for _, n := range []int{10, 1100} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) {
				process.Each(p, "each", func(note) []string { return numbers(n) }, func(ctx context.Context, item string) (string, error) {
					if item == "5" {
						return "", process.Refuse(errors.New("no"))
					}
					_, err := c.work(ctx, "item")
					return item, err
				}, nil).Undo(func(ctx context.Context, item, result string) error {
					if item != result {
						return process.Refuse(fmt.Errorf("the undo of %s got %s", item, result))
					}
					_, err := c.work(ctx, "undo")
					return err
				})
			}, func(l *lab) {
				l.start("i")
				l.app.Advance(time.Hour)
				l.want("i", process.Aborted, "")
				l.wantError("i", "1 of "+strconv.Itoa(n)+" items failed; at most 0 may: ")
				l.wantError("i", "refused: no")
				got := l.took()
				if did, undid := strings.Count(got, "item"), strings.Count(got, "undo"); did != undid || did == 0 {
					l.t.Errorf("%d items have done something, and %d were undone", did, undid)
				}
			})
		})
	}
}

// AtOnce bounds the items at work, and what one fold emits.
func TestAtOnce(t *testing.T) {
	for _, n := range []int{100, 1100} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) {
				process.Each(p, "each", func(note) []string { return numbers(n) }, func(ctx context.Context, item string) (string, error) {
					return c.work(ctx, item)
				}, nil).AtOnce(8)
			}, func(l *lab) {
				var most int64
				look := func() {
					st, err := l.app.Store().Queue("plan-do").Stats(context.Background())
					if err == nil {
						most = max(most, st.Ready+st.InFlight)
					}
				}
				for _, i := range []int{0, 9, 20, 50, 99} {
					l.when(strconv.Itoa(i), func(context.Context) (string, error) { look(); return "", nil })
				}
				l.start("i")
				l.want("i", process.Completed, "")
				if most == 0 || most > 8 {
					l.t.Errorf("%d items were at work, want some, and at most 8", most)
				}
			})
		})
	}
}

// A nested split: each part has parts and items of its own, and the last one of all gathers.
func TestNestedSplit(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Split(p, "split", func(note) []string { return []string{"x", "y", "z"} }, func(i string) note { return note{[]string{i}} },
			func(p *process.Plan[note]) {
				process.Each(p, "each", func(n note) []string { return []string{n.Did[0] + "1", n.Did[0] + "2"} },
					func(ctx context.Context, item string) (string, error) { return c.work(ctx, item) }, nil)
				process.Split(p, "again", func(n note) []string { return []string{n.Did[0]} }, func(i string) note { return note{[]string{i}} },
					func(p *process.Plan[note]) { process.Then(p, "then", func(n note) note { return n }) }, nil)
			}, func(n, part note) note { return note{[]string{fmt.Sprint(len(n.Did) + 1)}} }).Tolerate(1)
		c.do(p, "last")
	}, func(l *lab) {
		l.when("y2", func(context.Context) (string, error) { return "", process.Refuse(errors.New("no")) })
		l.start("i")
		s := l.get("i")
		if got := strings.Join(s.State.Did, ", "); s.Status != process.Completed || got != "2, last" {
			l.t.Errorf("got %s with %q, want that two of three parts were gathered\n%s", s.Status, got, l.timeline("i"))
		}
	})
}
