package doctor

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/bulk"
)

// bulkFindings are about acts on many messages that stand still, because the process that did the act is gone.
func bulkFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for a, err := range atMost(mostSeen, bulk.Unended(ctx, desk.Store)) {
		switch {
		case err != nil && a.ID == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "bulk", About: a.ID, Text: fmt.Sprintf("the act on many messages %s can't be read, so it doesn't go on", a.ID),
				Fix: fmt.Sprintf("Delete blobs act/%s and chosen/%s in container bulk, and do the act again.", a.ID, a.ID)})
		case a.StandsStill():
			all = append(all, stoodStill(desk, a))
		}
	}
	return all, nil
}

// stoodStill is about an act that nobody does. An act that is to be cancelled can't be resumed.
func stoodStill(desk *act.Desk, a bulk.Act) Finding {
	f := Finding{Severity: Wrong, Check: "bulk", About: a.ID, Text: fmt.Sprintf("nobody goes on with the act on many messages %s (poison %s, by %s), which was asked for %s: %d of %s were looked at",
		a.ID, a.Verb, a.By, act.Ago(a.Asked), a.Looked, act.Count(a.Chosen, "message"))}
	const gone = "The process that did it is gone. A process that serves pages goes on with it when somebody looks there. "
	end := act.Hint{Act: "bulk cancel", Args: []string{a.ID}}
	if a.State == bulk.Cancelled {
		return f.mended(desk, gone+"%s ends it.", end)
	}
	return f.mended(desk, gone+"Or %s does the rest, and %s ends it.", act.Hint{Act: "bulk resume", Args: []string{a.ID}}, end)
}
