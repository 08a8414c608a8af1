package doctor

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// fileFindings are about files that wait for an operator.
func fileFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for held, err := range atMost(mostSeen, valet.Held(ctx, desk.Store)) {
		if err != nil {
			return all, err
		}
		all = append(all, Finding{Severity: Wrong, Check: "files", About: held.ID, Text: fmt.Sprintf("file %s is held: %s", storage.Quote(held.ID), held.Reason)}.
			mended(desk, "Nobody can read it until it is released: %s. Or end it: %s",
				act.Hint{Act: "files release", Args: []string{held.ID}, Open: "--why TEXT"}, act.Hint{Act: "files revoke", Args: []string{held.ID}}))
	}
	return all, nil
}
