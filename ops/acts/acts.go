package acts

import (
	"context"
	"slices"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// All returns the table of acts, noun by noun.
func All() []*act.Act {
	return slices.Concat(
		queueActs(),
		documentActs(),
		gateActs(),
		lockActs(),
		guardActs(),
		poisonActs(),
		editActs(),
		settleActs(),
		turnActs(),
		sendActs(),
		signalActs(),
		scheduleActs(),
		processActs(),
		settingActs(),
		spoolActs(),
		counterActs(),
		auditActs(),
		doctorActs(),
	)
}

// nameField is the name of the thing that an act is about.
func nameField(to *string, about string, words func(context.Context, *act.Desk) []string) act.Field {
	return act.Text(to, "name", about).At("NAME").With(storage.CheckKey).From(words)
}

// The results of acts that many nouns have.
const (
	unchanged = "unchanged" // everything was as it shall be already
	repaired  = "repaired"  // it could not be read, and was replaced
	selected  = "selected"  // a dry run has left it alone
)
