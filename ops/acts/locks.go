package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// leaderPrefix begins the name of a leader's lock; see package leader.
const leaderPrefix = "leader/"

// A Lock is a lock as it is.
type Lock struct {
	Name    string        `json:"name"`
	Held    *bool         `json:"held"` // null: it can't be read
	Holder  *string       `json:"holder"`
	Fence   *int64        `json:"fence"`
	Since   *time.Time    `json:"since"`
	TTL     *float64      `json:"ttl_seconds"`
	KeptFor *string       `json:"kept_for"` // the next holder, of a hand-over
	Broken  *lease.Broken `json:"broken"`   // the last time, of this or an earlier fence
	Waiters []Waiter      `json:"waiters"`
	Error   string        `json:"error,omitempty"`
}

// A Leader is a leader as it is.
type Leader struct {
	Name       string     `json:"name"`
	Leader     *string    `json:"leader"` // null: nobody leads
	Term       *int64     `json:"term"`
	Since      *time.Time `json:"since"`
	Candidates []Waiter   `json:"candidates"`
	Error      string     `json:"error,omitempty"`
}

// A Waiter is a process that waits for a lock, or to lead.
type Waiter struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Seen   time.Time `json:"seen"`
	Stale  bool      `json:"stale"` // probably dead
}

// A LockBroken is a lock that somebody wanted to be broken.
type LockBroken struct {
	Name   string        `json:"name"`
	Result string        `json:"result"` // broken, broken before (the first note stays), or free: nobody held it
	Holder *string       `json:"holder"`
	Fence  int64         `json:"fence"`
	Within *float64      `json:"free_within_seconds"` // after others have seen the break; null: it is free
	Broken *lease.Broken `json:"broken"`
}

// The results of breaking and raising.
const (
	lockBroken       = "broken"
	lockBrokenBefore = "broken before"
	lockFree         = "free"
	lockRaised       = "raised"
)

// A LockRaised is a lock whose fences were raised.
type LockRaised struct {
	Name   string  `json:"name"`
	Result string  `json:"result"` // raised
	Fence  int64   `json:"fence"`  // the next one is larger
	Within float64 `json:"free_within_seconds"`
}

// A lockPage selects locks.
type lockPage struct {
	act.Page
	all bool
}

// A lockInput is what acts on one lock take.
type lockInput struct {
	name      string
	wait, ttl time.Duration
	fence     int64
}

// Check implements the check of an input.
func (in *lockInput) Check() error {
	if in.ttl%time.Millisecond != 0 {
		return act.UsageOf("ttl", "want whole milliseconds")
	}
	return nil
}

func (in *lockInput) fields(more ...act.Field) []act.Field {
	return append([]act.Field{nameField(&in.name, "the lock", lockNames)}, more...)
}

func lockActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "locks", Verb: "list", Role: act.Viewer, About: "list the locks that are held or waited for",
			More: "The holder may have died: then others get the lock 7/6 to 3/2 of the TTL after its last renewal. FENCE numbers the holders. " +
				"WAITING names the processes that have waited for more than some seconds, and for how long. All times are by their own clocks.",
		}, func(in *lockPage) []act.Field {
			return append(act.List(&in.Page, "locks", "names"), act.Flag(&in.all, "all", "also locks that nobody holds, and those of leaders"))
		}, listLocks),
		act.New(act.Act{Noun: "locks", Verb: "break", Role: act.Admin, Once: true, Why: act.Must, About: "take a lock away from its holder",
			More: "The holder's context ends at its next renewal. Others get the lock when the holder has released it, or 7/6 of the TTL after they " +
				"saw the break, so never while the holder may still believe that it has the lock. leader/NAME is the lock of leader NAME. A program " +
				"that tries once and ends, such as a job of cron, sees no such time pass: --wait watches the lock for it and frees the lock.",
		}, func(in *lockInput) []act.Field {
			return in.fields(act.Duration(&in.wait, "wait", "wait at most this `TIME` until the lock is free; the default is not to wait", 0, act.MaxAhead))
		}, breakLock),
		act.New(act.Act{Noun: "locks", Verb: "raise", Role: act.Admin, Why: act.Must, About: "make the fences of a lock go on after a number",
			More: "For the day after a restore, and for a lock that can't be read: the next holder's fence is larger than FENCE. A holder loses the " +
				"lock at its next renewal.",
		}, func(in *lockInput) []act.Field {
			in.ttl = 30 * time.Second
			return in.fields(act.Number(&in.fence, "fence", "a fence that is at least the largest one that anybody got", 1, math.MaxInt64-2).At("FENCE"),
				act.Duration(&in.ttl, "ttl", "the largest `TTL` that programs use for this lock: others get it 7/6 of that time later", 3*time.Second, 24*time.Hour))
		}, raiseLock),
		act.New(act.Act{Noun: "leaders", Verb: "list", Role: act.Viewer, About: "list the leaders and the candidates that wait",
			More: "A leader that has died counts until another follows. TERM numbers the leaders of a name. CANDIDATES have waited for more than some " +
				"seconds. locks break leader/NAME ends a term.",
		}, func(in *act.Page) []act.Field { return act.List(in, "leaders", "names") }, listLeaders),
	}
}

func nameOfLease(x lease.Info) string { return x.Name }

// lockNames are the locks that somebody can be rid of, for completion.
func lockNames(ctx context.Context, d *act.Desk) []string {
	return act.NamesOf(leases(ctx, d, look.NotUpdates, func(x lease.Info) bool { return x.Held || x.Next != "" }), nameOfLease)
}

// leases yields the leases of the names that named wants and that keep wants, and those that can't be read.
func leases(ctx context.Context, d *act.Desk, named func(string) bool, keep func(lease.Info) bool) iter.Seq2[lease.Info, error] {
	return func(yield func(lease.Info, error) bool) {
		for x, err := range lease.List(ctx, d.Store, named) {
			if (err != nil || keep(x)) && !yield(x, err) {
				return
			}
		}
	}
}

func listLocks(ctx context.Context, c *act.Call, in *lockPage) error {
	none, named := "No locks are held or waited for.", look.NotUpdates
	if in.all {
		none, named = "No locks.", nil
	}
	return act.Listing[lease.Info]{
		None: none, Head: []string{"NAME", "HOLDER", "FENCE", "SINCE", "TTL", "BROKEN", "WAITING"}, Name: nameOfLease, Row: lockRow,
		Corrupt: func(x lease.Info, fault string) any {
			return Lock{Name: x.Name, Waiters: []Waiter{}, Error: fault}
		},
	}.Tell(c, in.Page, leases(ctx, c.Desk, named, func(x lease.Info) bool {
		return in.all || !strings.HasPrefix(x.Name, leaderPrefix) && (x.Held || x.Next != "" || len(x.Waiters) > 0)
	}))
}

// lockRow tells of a lock.
func lockRow(x lease.Info) (any, []any) {
	line := Lock{Name: x.Name, Held: &x.Held, Fence: &x.Fence, KeptFor: act.Maybe(x.Next), Broken: x.Broken, Waiters: waiters(x.Waiters)}
	row := []any{x.Name, nil, x.Fence, nil, nil, nil, waitersOf(x.Waiters)}
	switch {
	case x.Held:
		ttl := x.TTL.Seconds()
		line.Holder, line.Since, line.TTL = &x.Holder, act.Maybe(x.Since), &ttl
		row[1], row[3], row[4] = act.Short(x.Holder), x.Since, x.TTL.String()
		if isBroken(x) {
			row[5] = breakOf(*x.Broken)
		}
	case x.Next != "":
		row[1] = "kept for " + act.Short(x.Next)
	}
	return line, row
}

func listLeaders(ctx context.Context, c *act.Call, page *act.Page) error {
	return act.Listing[leader.Leader]{
		None: "No leaders.", Head: []string{"NAME", "LEADER", "TERM", "SINCE", "CANDIDATES"}, Name: func(x leader.Leader) string { return x.Name },
		Row: func(x leader.Leader) (any, []any) {
			line := Leader{Name: x.Name, Leader: act.Maybe(x.Holder), Term: &x.Term, Since: act.Maybe(x.Since), Candidates: waiters(x.Candidates)}
			return line, []any{x.Name, cmp.Or(act.Short(x.Holder), "nobody"), x.Term, x.Since, waitersOf(x.Candidates)}
		},
		Corrupt: func(x leader.Leader, fault string) any {
			return Leader{Name: x.Name, Candidates: []Waiter{}, Error: fault}
		},
	}.Tell(c, *page, leader.List(ctx, c.Store))
}

func raiseLock(ctx context.Context, c *act.Call, in *lockInput) error {
	by := c.By
	if c.Why != "" {
		by += ": " + c.Why
	}
	by = strings.ToValidUTF8(by[:min(len(by), act.MaxWhy)], "")
	if err := lease.Raise(ctx, c.Store, in.name, in.fence, lease.Config{Holder: by, TTL: in.ttl}); err != nil {
		return err
	}
	now, err := lease.State(ctx, c.Store, in.name)
	if err != nil {
		return fmt.Errorf("the lock is raised; %w", err)
	}
	within := now.TTL * 7 / 6
	return c.Say(LockRaised{in.name, lockRaised, in.fence, within.Seconds()}, "Lock %s goes on after fence %d. Others can have it %s after they have seen that.", storage.Quote(in.name), in.fence, act.Age(within))
}

// isBroken reports that a lock was taken away from its present holder.
func isBroken(x lease.Info) bool { return x.Held && x.Broken != nil && x.Broken.Fence == x.Fence }

// breakOf tells people of a break.
func breakOf(b lease.Broken) string {
	s := fmt.Sprintf("%s by %s", act.Ago(b.At), b.By)
	if b.Why != "" {
		s += ": " + b.Why
	}
	return act.Short(s)
}

func waiters(all []lease.Waiter) []Waiter {
	lines := []Waiter{}
	for _, w := range longest(all) {
		lines = append(lines, Waiter(w))
	}
	return lines
}

// longest sorts waiters. The one that has waited for longest comes first.
func longest(all []lease.Waiter) []lease.Waiter {
	return slices.SortedStableFunc(slices.Values(all), func(a, b lease.Waiter) int { return a.Since.Compare(b.Since) })
}

// waitersOf names the first waiters for people.
func waitersOf(all []lease.Waiter) string {
	const most = 3
	var words []string
	for i, w := range longest(all) {
		if i == most {
			words = append(words, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		word := act.Short(w.Holder) + " " + act.Age(time.Since(w.Since))
		if w.Stale {
			word += " (not seen for " + act.Age(time.Since(w.Seen)) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// breakLock takes a lock away from its holder.
func breakLock(ctx context.Context, c *act.Call, in *lockInput) error {
	before, err := lease.State(ctx, c.Store, in.name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return act.Nothing("no lock %s: nobody has ever held it", storage.Quote(in.name))
	case err != nil:
		return err
	}
	line, now := LockBroken{Name: in.name, Result: lockFree}, before
	switch {
	case isBroken(before):
		line.Result = lockBrokenBefore
	case before.Held || before.Next != "":
		if err := lease.Break(ctx, c.Store, in.name, lease.Note{By: c.By, Why: c.Why}); err != nil {
			return err
		}
		if now, err = lease.State(ctx, c.Store, in.name); err != nil {
			return fmt.Errorf("the lock is broken; %w", err)
		}
		if isBroken(now) {
			before = now // somebody else may have got it since
		}
		if now.Broken != nil && now.Broken.Fence == before.Fence { // otherwise it was released meanwhile
			line.Result = lockBroken
		}
	}
	line.Fence = before.Fence
	if line.Result != lockFree {
		line.Broken = now.Broken
		if before.Held {
			line.Holder = &before.Holder
		}
	}
	if isBroken(now) && in.wait > 0 {
		if err := awaitFree(ctx, c, in); err != nil {
			return err
		}
		now.Held = false
	}
	if isBroken(now) {
		within := (now.TTL * 7 / 6).Seconds()
		line.Within = &within
	}
	return c.Say(line, "%s", toldBreak(line, before))
}

// awaitFree frees a broken lock when its holder has surely ended.
func awaitFree(ctx context.Context, c *act.Call, in *lockInput) error {
	waiting, cancel := context.WithTimeoutCause(ctx, in.wait, fmt.Errorf("the lock is broken, and not free after %v: its holder may live; call again with a longer --wait", in.wait))
	defer cancel()
	return lease.Free(waiting, c.Store, in.name)
}

// toldBreak tells people from when others can have a lock.
func toldBreak(line LockBroken, before lease.Info) string {
	name, who := storage.Quote(line.Name), fmt.Sprintf("%s (fence %d)", before.Holder, before.Fence)
	text := ""
	switch {
	case line.Result == lockFree:
		return fmt.Sprintf("Nobody holds lock %s: others can have it at once.", name)
	case line.Result == lockBrokenBefore:
		text = fmt.Sprintf("Lock %s was taken away from %s already, %s.", name, who, breakOf(*line.Broken))
	case before.Held:
		text = fmt.Sprintf("Lock %s is taken away from %s.", name, who)
	default:
		text = fmt.Sprintf("Lock %s is no longer kept for %s.", name, before.Next)
	}
	if line.Within == nil {
		return text + " Others can have it at once."
	}
	wait := act.Age(time.Duration(*line.Within * float64(time.Second)))
	return fmt.Sprintf("%s Others can have it when %s releases it, or %s after they have seen the break.", text, before.Holder, wait)
}
