package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/spool"
)

// spoolFindings are about messages that programs keep on their own machines although the store is there.
func spoolFindings(ctx context.Context, desk *act.Desk, lag time.Duration) (all []Finding, err error) {
	found, err := spool.Reports(ctx, desk.Store)
	if err != nil {
		return nil, err
	}
	reports := act.Hint{Act: "spool reports", Open: "--reveal --why TEXT"} // an error may be personal
	for _, r := range found {
		place := r.Host + " " + r.File
		where := fmt.Sprintf("the spool %s of %s on %s", r.File, r.Program, r.Host)
		seen := fmt.Sprintf(" (%s ago)", act.Age(time.Since(r.At)))
		if r.Fault != "" {
			all = append(all, Finding{Severity: Wrong, Check: "spools", Program: r.Program, About: "takes nothing: " + place, Text: fmt.Sprintf("%s takes nothing%s", where, seen)}.
				mended(desk, "The program would refuse commands while the store is away, and what is in the file may be lost. Mend the disk, or stop the program, put the file back, and start it again. The error: %s", reports))
		}
		if r.Refused > 0 {
			all = append(all, Finding{Severity: Wrong, Check: "spools", Program: r.Program, About: "refused: " + place, Text: fmt.Sprintf("%s in %s can't be sent%s", act.Count(int(r.Refused), "message"), where, seen)}.
				mended(desk, "They stay in that file, and are tried again every ten minutes and at each start. Mend the cause: for a kind without a route, start a version of the program that has one. "+
					"The reason: %s. On that machine %s shows them, and spool discard deletes them.", reports, act.Hint{Act: "spool list", Open: "FILE"}))
		}
		if r.Waiting > 0 && time.Since(r.Oldest) > lag {
			all = append(all, Finding{Severity: Wrong, Check: "spools", Program: r.Program, About: "waiting: " + place, Text: fmt.Sprintf("%s in %s for %s although the store is there%s", look.Waiting(r.Waiting), where, act.Age(time.Since(r.Oldest)), seen),
				Fix: "Does the program run, and may it write to all its queues? Its log has the store's errors."})
		}
	}
	return all, nil
}
