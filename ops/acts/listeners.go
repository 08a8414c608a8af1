package acts

import (
	"context"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/ops/act"
)

// listenerFindings tell of processes that are to be rung and never answer. Their work is picked up late, and signals
// don't reach them, though nothing else shows that.
func listenerFindings(ctx context.Context, d *act.Desk) ([]Finding, error) {
	p, err := pause.New(d.Store, pause.Config{})
	if err != nil {
		return nil, err
	}
	if err := p.Ring(ctx); err != nil && ctx.Err() == nil {
		return []Finding{{Severity: Note, Check: "listeners", Text: "not all processes can be rung from here: " + err.Error(),
			Fix: "A process that died within the last minutes is no fault. Else let UDP pass between the processes, and give each the address at which the others reach it (--doorbell-address). Until then such a process finds its work by polling, and no signal reaches it."}}, nil
	}
	return nil, nil
}
