package process

import (
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// Route leads the messages of a plan to its queues, which are named after it: NAME for what advances instances, NAME-do
// for agents, NAME-alarms and NAME-record. agents are further queues of agents; see [Step.By]. A plan's name is 3 to 40
// lower-case letters, digits and single hyphens, beginning with a letter.
func Route(plan string, agents ...string) channel.Route {
	if err := checkName(plan); err != nil {
		return wire.Faulty(err)
	}
	routes := []channel.Route{
		wire.Routed(flow.Start{Plan: plan}, plan),
		wire.Routed(flow.Done{Plan: plan}, plan),
		wire.Routed(flow.Signal{Plan: plan}, plan),
		wire.Routed(flow.Act{Plan: plan}, plan),
		wire.Routed(flow.Alarm{Plan: plan}, plan+flow.AlarmsSuffix),
		wire.Routed(flow.Record{Plan: plan}, plan+flow.RecordSuffix),
		wire.Routed(flow.Sweep{Plan: plan}, plan+flow.RecordSuffix),
		wire.Routed(flow.Fetch{Plan: plan}, plan+flow.RecordSuffix),
		wire.Routed(flow.Fetched{Plan: plan}, plan),
		wire.Routed(flow.Begin{Plan: plan}, plan+flow.AgentsSuffix),
	}
	for i, q := range agents {
		if slices.Contains(agents[:i], q) {
			return wire.Faulty(fmt.Errorf("route of the plan %s names queue %s twice", plan, q))
		}
		routes = append(routes, wire.Routed(flow.Begin{Plan: plan, Queue: q}, q))
	}
	return wire.Together(routes...)
}

const maxName = 40 // leaves room for the suffixes

func checkName(plan string) error {
	if err := storage.CheckName(plan); err != nil {
		return fmt.Errorf("process: plan: %w", err)
	}
	if len(plan) > maxName {
		return fmt.Errorf("process: plan %s: its name has %d characters; want at most %d", plan, len(plan), maxName)
	}
	return nil
}
