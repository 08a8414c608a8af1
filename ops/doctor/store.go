package doctor

import (
	"context"
	"fmt"
	"os"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/ops/act"
)

// logFindings are about the log of a store in a file.
func logFindings(file string) []Finding {
	if file == "" {
		return nil
	}
	info, err := os.Stat(file + "-wal")
	if err != nil || info.Size() < logTooLarge {
		return nil
	}
	return []Finding{{Severity: Wrong, Check: "log", Text: fmt.Sprintf("the log of the database, %s, has %d MB and can't shrink: some program keeps a read transaction open", file+"-wal", info.Size()>>20),
		Fix: "End that transaction or its program: look for a database tool or a backup (fuser -v " + act.ShellWord(file) + " lists who has it open). The log shrinks by itself then."}}
}

// writerFindings are about a process that keeps all others from writing to a store in a file. While a process is in a
// transaction, they wait until it goes on.
func writerFindings(ctx context.Context, desk *act.Desk) ([]Finding, error) {
	if desk.Standstill == nil {
		return nil, nil
	}
	who, lasted, err := desk.Standstill(ctx)
	if err != nil || who == "" {
		return nil, err
	}
	return []Finding{{Severity: Wrong, Check: "writers", Text: fmt.Sprintf("nothing can be written to %s: %s has been in a transaction for %s", desk.File, who, act.Age(lasted)),
		Fix: "If that process stands still, let it go on (kill -CONT PID) or end it. What it has not committed is undone then, and messages in its hands are delivered again."}}, nil
}

// engineFindings are what the driver of the store tells of its engine.
func engineFindings(ctx context.Context, desk *act.Desk) ([]Finding, error) {
	faults, err := desk.Store.Inspect(ctx)
	var all []Finding
	for _, f := range faults {
		severity := Wrong
		if f.Note {
			severity = Note
		}
		all = append(all, Finding{Severity: severity, Check: "engine", About: f.Name, Text: f.Text, Fix: f.Fix})
	}
	return all, err
}

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
