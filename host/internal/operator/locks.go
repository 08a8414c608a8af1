package operator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// leaderPrefix begins the name of a leader's lock; see package leader.
const leaderPrefix = "leader/"

// lockLine is what -json prints of a lock.
type lockLine struct {
	Name    string        `json:"name"`
	Held    *bool         `json:"held"` // null: it can't be read
	Holder  *string       `json:"holder"`
	Fence   *int64        `json:"fence"`
	Since   *time.Time    `json:"since"`
	TTL     *float64      `json:"ttl_seconds"`
	KeptFor *string       `json:"kept_for"` // the next holder, of a hand-over
	Broken  *lease.Broken `json:"broken"`   // the last time, of this or an earlier fence
	Waiters []waiterLine  `json:"waiters"`
	Error   string        `json:"error,omitempty"`
}

// leaderLine is what -json prints of a leader.
type leaderLine struct {
	Name       string       `json:"name"`
	Leader     *string      `json:"leader"` // null: nobody leads
	Term       *int64       `json:"term"`
	Since      *time.Time   `json:"since"`
	Candidates []waiterLine `json:"candidates"`
	Error      string       `json:"error,omitempty"`
}

// waiterLine is a process that waits for a lock, or to lead.
type waiterLine struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Seen   time.Time `json:"seen"`
	Stale  bool      `json:"stale"` // probably dead
}

// brokenLine is what -json prints of a lock that was broken.
type brokenLine struct {
	Name   string        `json:"name"`
	Result string        `json:"result"`
	Holder *string       `json:"holder"`
	Fence  int64         `json:"fence"`
	Within *float64      `json:"free_within_seconds"` // after others have seen the break; null: it is free
	Broken *lease.Broken `json:"broken"`
}

// The results of a break.
const (
	brokenNow    = "broken"
	brokenBefore = "broken before" // the first note stays
	free         = "free"          // nobody held it
)

func nameOfLease(x lease.Info) string { return x.Name }

// lockNames are the locks that somebody can be rid of.
func lockNames(ctx context.Context, c *call) []string {
	return namesOf(leases(ctx, c.store, notUpdates, func(x lease.Info) bool { return x.Held || x.Next != "" }), nameOfLease)
}

// notUpdates leaves out the leases of lease.Update: there is one for each document that was ever updated.
func notUpdates(name string) bool { return !strings.HasPrefix(name, "update/") }

// leases yields the leases of the names that named wants and that keep wants, and those that can't be read.
func leases(ctx context.Context, store *storage.Store, named func(string) bool, keep func(lease.Info) bool) iter.Seq2[lease.Info, error] {
	return func(yield func(lease.Info, error) bool) {
		for x, err := range lease.List(ctx, store, named) {
			if (err != nil || keep(x)) && !yield(x, err) {
				return
			}
		}
	}
}

// isLeaders reports that a lock is that of a leader.
func isLeaders(name string) bool { return strings.HasPrefix(name, leaderPrefix) }

// locksList prints the locks.
func locksList(ctx context.Context, c *call) error {
	head := []string{"NAME", "HOLDER", "FENCE", "SINCE", "TTL", "BROKEN", "WAITING"}
	named := notUpdates
	if c.all {
		named = nil
	}
	list := leases(ctx, c.store, named, func(x lease.Info) bool {
		return c.all || !isLeaders(x.Name) && (x.Held || x.Next != "" || len(x.Waiters) > 0)
	})
	none := "No locks are held or waited for."
	if c.all {
		none = "No locks."
	}
	return page(c, none, head, list, nameOfLease, func(x lease.Info, fault string) (any, []string) {
		if fault != "" {
			return lockLine{Name: x.Name, Waiters: []waiterLine{}, Error: fault}, corruptRow(x.Name, len(head))
		}
		line := lockLine{Name: x.Name, Held: &x.Held, Fence: &x.Fence, KeptFor: maybe(x.Next), Broken: x.Broken, Waiters: waiterLines(x.Waiters)}
		row := []string{x.Name, unknown, fmt.Sprint(x.Fence), unknown, unknown, unknown, waitersOf(x.Waiters)}
		switch {
		case x.Held:
			ttl := x.TTL.Seconds()
			line.Holder, line.Since, line.TTL = &x.Holder, maybe(x.Since), &ttl
			row[1], row[3], row[4] = short(x.Holder), ago(x.Since), x.TTL.String()
			if isBroken(x) {
				row[5] = breakOf(*x.Broken)
			}
		case x.Next != "":
			row[1] = "kept for " + short(x.Next)
		}
		return line, row
	})
}

// leadersList prints the leaders.
func leadersList(ctx context.Context, c *call) error {
	head := []string{"NAME", "LEADER", "TERM", "SINCE", "CANDIDATES"}
	return page(c, "No leaders.", head, leader.List(ctx, c.store), func(x leader.Leader) string { return x.Name }, func(x leader.Leader, fault string) (any, []string) {
		if fault != "" {
			return leaderLine{Name: x.Name, Candidates: []waiterLine{}, Error: fault}, corruptRow(x.Name, len(head))
		}
		line := leaderLine{Name: x.Name, Term: &x.Term, Since: maybe(x.Since), Candidates: waiterLines(x.Candidates)}
		row := []string{x.Name, "nobody", fmt.Sprint(x.Term), ago(x.Since), waitersOf(x.Candidates)}
		if x.Holder != "" {
			line.Leader, row[1] = &x.Holder, short(x.Holder)
		}
		return line, row
	})
}

// raisedLockLine is what -json prints of a lock whose fences were raised.
type raisedLockLine struct {
	Name   string  `json:"name"`
	Result string  `json:"result"`
	Fence  int64   `json:"fence"` // the next one is larger
	Within float64 `json:"free_within_seconds"`
}

func checkFence(ctx context.Context, c *call) error {
	if err := checkName(ctx, c); err != nil {
		return err
	}
	if c.ttl < 3*time.Second || c.ttl > 24*time.Hour || c.ttl%time.Millisecond != 0 {
		return usage("locks raise: -ttl: want 3s to 24h, in whole milliseconds")
	}
	if n, err := strconv.ParseInt(c.args[1], 10, 64); err != nil || n < 1 || n >= math.MaxInt64-1 {
		return usage("locks raise: want a fence from 1 to %d", int64(math.MaxInt64-2))
	}
	return nil
}

// locksRaise makes the fences of a lock go on after a number.
func locksRaise(ctx context.Context, x *call) error {
	c := coordCall{x}
	name := c.args[0]
	past, err := strconv.ParseInt(c.args[1], 10, 64)
	if err != nil {
		return usage("locks raise: %w", err)
	}
	by := c.author()
	if c.why != "" {
		by += ": " + c.why
	}
	cut := strings.ToValidUTF8(by[:min(len(by), mostWhy)], "")
	if err := lease.Raise(ctx, c.store, name, past, lease.Config{Holder: cut, TTL: c.ttl}); err != nil {
		return err
	}
	now, err := lease.State(ctx, c.store, name)
	if err != nil {
		return fmt.Errorf("the lock is raised; %w", err)
	}
	within := now.TTL * 7 / 6
	if c.json {
		return c.out.line(raisedLockLine{Name: name, Result: raised, Fence: past, Within: within.Seconds()})
	}
	c.out.printf("%s\n", boot.Clean(fmt.Sprintf("Lock %s goes on after fence %d. Others can have it %s after they have seen that.", storage.Quote(name), past, age(within))))
	return nil
}

// isBroken reports that a lock was taken away from its present holder.
func isBroken(x lease.Info) bool { return x.Held && x.Broken != nil && x.Broken.Fence == x.Fence }

// breakOf tells people of a break.
func breakOf(b lease.Broken) string {
	s := fmt.Sprintf("%s by %s", ago(b.At), b.By)
	if b.Why != "" {
		s += ": " + b.Why
	}
	return short(s)
}

func waiterLines(all []lease.Waiter) []waiterLine {
	lines := []waiterLine{}
	for _, w := range longest(all) {
		lines = append(lines, waiterLine(w))
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
		word := short(w.Holder) + " " + age(time.Since(w.Since))
		if w.Stale {
			word += " (not seen for " + age(time.Since(w.Seen)) + ")"
		}
		words = append(words, word)
	}
	return orUnknown(strings.Join(words, ", "))
}

func checkBreak(verb string, o options) error {
	if o.why == "" {
		return usage("%s: tell the others why: add -why TEXT", verb)
	}
	return nil
}

// locksBreak takes a lock away from its holder.
func locksBreak(ctx context.Context, x *call) error {
	c := coordCall{x}
	name := c.args[0]
	before, err := lease.State(ctx, c.store, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nothing("no lock %s: nobody has ever held it", storage.Quote(name))
	case err != nil:
		return err
	}
	line, now := brokenLine{Name: name, Result: free}, before
	switch {
	case isBroken(before):
		line.Result = brokenBefore
	case before.Held || before.Next != "":
		if err := lease.Break(ctx, c.store, name, lease.Note{By: c.author(), Why: c.why}); err != nil {
			return err
		}
		if now, err = lease.State(ctx, c.store, name); err != nil {
			return fmt.Errorf("the lock is broken; %w", err)
		}
		if isBroken(now) {
			before = now // somebody else may have got it since
		}
		if now.Broken != nil && now.Broken.Fence == before.Fence { // otherwise it was released meanwhile
			line.Result = brokenNow
		}
	}
	line.Fence = before.Fence
	if line.Result != free {
		line.Broken = now.Broken
		if before.Held {
			line.Holder = &before.Holder
		}
	}
	if isBroken(now) && c.wait > 0 {
		if err := awaitFree(ctx, c, name); err != nil {
			return err
		}
		now.Held = false
	}
	if isBroken(now) {
		within := (now.TTL * 7 / 6).Seconds()
		line.Within = &within
	}
	if c.json {
		return c.out.line(line)
	}
	c.out.printf("%s\n", boot.Clean(toldBreak(line, before)))
	return nil
}

// awaitFree frees a broken lock when its holder has surely ended.
func awaitFree(ctx context.Context, c coordCall, name string) error {
	waiting, cancel := context.WithTimeoutCause(ctx, c.wait, fmt.Errorf("the lock is broken, and not free after %v: its holder may live; call again with a longer -wait", c.wait))
	defer cancel()
	return lease.Free(waiting, c.store, name)
}

// toldBreak tells people from when others can have a lock.
func toldBreak(line brokenLine, before lease.Info) string {
	name, who := storage.Quote(line.Name), fmt.Sprintf("%s (fence %d)", before.Holder, before.Fence)
	text := ""
	switch {
	case line.Result == free:
		return fmt.Sprintf("Nobody holds lock %s: others can have it at once.", name)
	case line.Result == brokenBefore:
		text = fmt.Sprintf("Lock %s was taken away from %s already, %s.", name, who, breakOf(*line.Broken))
	case before.Held:
		text = fmt.Sprintf("Lock %s is taken away from %s.", name, who)
	default:
		text = fmt.Sprintf("Lock %s is no longer kept for %s.", name, before.Next)
	}
	if line.Within == nil {
		return text + " Others can have it at once."
	}
	wait := age(time.Duration(*line.Within * float64(time.Second)))
	return fmt.Sprintf("%s Others can have it when %s releases it, or %s after they have seen the break.", text, before.Holder, wait)
}
