package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A Looker shows the instances of a plan, and acts on them, for tools that don't know the plan's types. Safe for
// concurrent use.
type Looker struct {
	plan     string
	store    *storage.Store
	channels *channel.Channels

	mu    sync.Mutex
	known map[int]map[string]flow.Step // steps by path, of the versions that were asked for; under mu
}

// Look returns the looker of a plan, for somebody's acts: source is a URI reference such as "/millrace".
func Look(store *storage.Store, plan, source string) (*Looker, error) {
	if err := checkName(plan); err != nil {
		return nil, err
	}
	routes, err := channel.NewRoutes(Route(plan))
	if err != nil {
		return nil, err
	}
	channels, err := channel.New(store, routes, source)
	if err != nil {
		return nil, err
	}
	return &Looker{plan: plan, store: store, channels: channels, known: map[int]map[string]flow.Step{}}, nil
}

// PlanOf returns the plan whose instances a kind of message starts. Each plan has one such kind in its [Route], so a
// tool finds the plans of a program in its routes.
func PlanOf(kind channel.Kind) (plan string, ok bool) {
	plan, begins := strings.CutPrefix(string(kind), "process.")
	plan, ends := strings.CutSuffix(plan, ".start")
	return plan, begins && ends && checkName(plan) == nil
}

// Plan returns the plan's name.
func (l *Looker) Plan() string { return l.plan }

func (l *Looker) wrap(op, id string, err error) error {
	return fmt.Errorf("process: %s %s %s: %w", op, l.plan, storage.Quote(id), err)
}

// A Known is a version of a plan that was registered once.
type Known struct {
	Version int       `json:"version"`
	Since   time.Time `json:"since,omitzero"`  // when it was first registered
	Steps   int       `json:"steps,omitzero"`  // 0: its structure is not stored
	Open    int       `json:"open"`            // instances that have not ended
	Stuck   int       `json:"stuck,omitzero"`  // of these
	Waits   []string  `json:"waits,omitempty"` // kinds of signals that its steps wait for

	signals map[channel.Kind]json.RawMessage
}

// Versions returns the plan's versions, the oldest first, and how many instances each has that have not ended. When an
// old version has none, no program needs it any more. It reads a row for each open instance.
func (l *Looker) Versions(ctx context.Context) ([]Known, error) {
	all, err := l.registered(ctx)
	if err != nil {
		return nil, err
	}
	for x, err := range l.Open(ctx) {
		if err != nil {
			return nil, err
		}
		i, found := slices.BinarySearchFunc(all, x.Version, func(k Known, v int) int { return k.Version - v })
		if !found { // its row was lost
			all = slices.Insert(all, i, Known{Version: x.Version})
		}
		all[i].Open++
		if x.Status == Stuck {
			all[i].Stuck++
		}
	}
	return all, nil
}

// registered returns the versions that are stored.
func (l *Looker) registered(ctx context.Context) (all []Known, err error) {
	for row, err := range l.store.Table(l.plan+plansSuffix).Query(ctx, versionRows, storage.RowRange{}) {
		if err != nil {
			return nil, fmt.Errorf("process: versions of %s: %w", l.plan, err)
		}
		var k Known
		if _, err := fmt.Sscanf(row.Key, "%d", &k.Version); err != nil {
			continue
		}
		s, err := readStructure(row.Data)
		if err != nil {
			return nil, fmt.Errorf("process: plan %s: version %d: %w", l.plan, k.Version, err)
		}
		k.Since, k.Steps, k.signals = s.Since, len(s.Steps), s.Signals
		for _, step := range s.Steps {
			if step.Verb == flow.Wait && !slices.Contains(k.Waits, step.Types) {
				k.Waits = append(k.Waits, step.Types)
			}
		}
		all = append(all, k)
	}
	return all, nil
}

// Waits returns the kinds of signals that some step of some version waits for, with the JSON Schema of the newest one
// that has it, or nil.
func (l *Looker) Waits(ctx context.Context) (map[string]json.RawMessage, error) {
	all, err := l.registered(ctx)
	kinds := map[string]json.RawMessage{}
	for _, k := range all { // the oldest first
		for _, kind := range k.Waits {
			if schema := k.signals[channel.Kind(kind)]; schema != nil || kinds[kind] == nil {
				kinds[kind] = schema
			}
		}
	}
	return kinds, err
}

// Open yields the instances that have not ended, as the index has them, in the order of their IDs.
func (l *Looker) Open(ctx context.Context) iter.Seq2[Entry, error] { return l.entries(ctx, openRows) }

// Ended yields the instances that ended on a day (UTC), as the index has them, in the order of their IDs.
func (l *Looker) Ended(ctx context.Context, day time.Time) iter.Seq2[Entry, error] {
	return l.entries(ctx, endedRows(day))
}

func (l *Looker) entries(ctx context.Context, partition string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for row, err := range l.store.Table(l.plan+indexSuffix).Query(ctx, partition, storage.RowRange{}) {
			x := Entry{ID: row.Key}
			if err == nil {
				err = json.Unmarshal(row.Data, &x)
			}
			if err != nil {
				err = fmt.Errorf("process: index of %s: %s: %w", l.plan, storage.Quote(row.Key), err)
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

// ErrNotInstance says that a document in the plan's container is somebody else's.
var ErrNotInstance = errors.New("the document is not an instance of the plan")

// document reads an instance.
func (l *Looker) document(ctx context.Context, id string) (flow.Instance, error) {
	blob, err := l.store.Blobs(l.plan).Get(ctx, id, "")
	if err != nil {
		return flow.Instance{}, err
	}
	d, err := values.Peek[flow.Instance](blob.Body)
	switch {
	case err != nil:
		return d, fmt.Errorf("%w: %w", ErrNotInstance, err)
	case d.Plan != l.plan:
		return d, ErrNotInstance
	case d.Status == "": // nobody has started it in time
		return d, storage.ErrNotFound
	}
	return d, nil
}

// structure returns the steps of a version by path, or nil if they are not stored.
func (l *Looker) structure(ctx context.Context, version int) (map[string]flow.Step, error) {
	l.mu.Lock()
	steps := l.known[version]
	l.mu.Unlock()
	if steps != nil {
		return steps, nil
	}
	row, err := l.store.Table(l.plan+plansSuffix).Get(ctx, versionRows, versionKey(version))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := readStructure(row.Data)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", version, err)
	}
	steps = make(map[string]flow.Step, len(s.Steps))
	for _, x := range s.Steps {
		steps[x.Path] = x
	}
	l.mu.Lock()
	l.known[version] = steps // it never changes
	l.mu.Unlock()
	return steps, nil
}
