package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostPoisoned = 20 // poison queues that are looked into, the first ones by name
	mostLatest   = 5  // entries of each that are read, the latest ones: each costs a request
)

// A sample is what was seen of a poison queue.
type sample struct {
	kinds map[channel.Kind]int // that had no handler, of the latest entries
	other bool                 // some of these entries are there for another reason
}

// samples looks into poison queues for kinds that nobody handles, by the latest entries of each.
func samples(ctx context.Context, desk *act.Desk, latest map[string][]poison.State) (map[string]sample, error) {
	all := map[string]sample{}
	for _, queue := range slices.Sorted(maps.Keys(latest)) {
		s := sample{kinds: map[channel.Kind]int{}}
		for _, x := range latest[queue] {
			m, err := poison.At(desk.Channels, queue).Get(ctx, x.Key)
			switch {
			case errors.Is(err, storage.ErrNotFound): // it was settled meanwhile
			case err != nil:
				return nil, err
			case m.Reason == handlers.ReasonUnknownKind:
				s.kinds[m.Kind]++
			default:
				s.other = true
			}
		}
		all[queue] = s
	}
	return all, nil
}

// unhandled are the kinds of a sample that no consumer of the queue handles today.
func (s sample) unhandled(desk *act.Desk, queue string) (all []channel.Kind) {
	consumers := desk.Known.Consumers(queue)
	for _, k := range slices.Sorted(maps.Keys(s.kinds)) {
		if len(consumers) > 0 && !handled(consumers, queue, k) {
			all = append(all, k)
		}
	}
	return all
}

// tells reports that all that was seen of a poison queue is there because nobody handles its kinds. Then the findings
// on the kinds tell of the poison queue.
func (s sample) tells(desk *act.Desk, queue string) bool {
	return len(s.kinds) > 0 && !s.other && len(s.unhandled(desk, queue)) == len(s.kinds)
}

// unhandledFinding is about a kind without a handler whose messages are in the poison queue.
func unhandledFinding(desk *act.Desk, queue string, kind channel.Kind, poisoned int64, s sample) Finding {
	of := map[string]string{"queue": queue, "kind": string(kind), "reason": handlers.ReasonUnknownKind}
	var held string
	switch {
	case int(poisoned) > s.kinds[kind] && s.tells(desk, queue) && len(s.kinds) == 1:
		held = fmt.Sprintf("its poison queue holds %s, and the latest ones are of this kind", act.Count(int(poisoned), "message"))
	case int(poisoned) > s.kinds[kind]:
		held = "messages of it are among the latest in its poison queue"
	case s.kinds[kind] == 1:
		held = "1 message of it is in its poison queue"
	default:
		held = fmt.Sprintf("%d messages of it are in its poison queue", s.kinds[kind])
	}
	return Finding{Severity: Wrong, Check: "kinds", Queue: queue, About: string(kind),
		Text: fmt.Sprintf("no program handles %s in queue %s, which is served by %s: %s", kind, queue, known.Versions(desk.Known.Consumers(queue)), held)}.
		mended(desk, "%s shows them. Start a version of a program that handles the kind, and then send them back: %s (or, if nobody needs them any more: %s).",
			act.Hint{Act: "poison list", Flags: of}, act.Hint{Act: "poison retry", Flags: of}, act.Hint{Act: "poison discard", Flags: of, Open: "--yes --why TEXT"})
}

// handled reports that some of the consumers of a queue handle a kind.
func handled(consumers []*catalog.Description, queue string, kind channel.Kind) bool {
	return slices.ContainsFunc(consumers, func(d *catalog.Description) bool { return handlesKind(d, queue, kind) })
}

func handlesKind(d *catalog.Description, queue string, kind channel.Kind) bool {
	for _, q := range d.Queues {
		if q.Name == queue && slices.ContainsFunc(q.Handlers, func(h catalog.Handler) bool { return h.Kind == kind }) {
			return true
		}
	}
	return false
}
