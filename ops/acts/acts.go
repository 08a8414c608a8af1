package acts

import (
	"slices"

	"github.com/millrace-go/millrace/ops/act"
)

// All returns the table of acts, noun by noun.
func All() []*act.Act {
	return slices.Concat(
		queueActs(),
		showQueueActs(),
		showMessageActs(),
		rateActs(),
		documentActs(),
		aboutActs(),
		gateActs(),
		lockActs(),
		guardActs(),
		poisonActs(),
		editActs(),
		settleActs(),
		bulkActs(),
		turnActs(),
		sendActs(),
		signalActs(),
		scheduleActs(),
		processActs(),
		settingActs(),
		levelActs(),
		programActs(),
		spoolActs(),
		assetActs(),
		fileActs(),
		counterActs(),
		findActs(),
		auditActs(),
		doctorActs(),
	)
}

// The results of acts that many nouns have.
const (
	unchanged = "unchanged" // everything was as it shall be already
	repaired  = "repaired"  // it could not be read, and was replaced
	selected  = "selected"  // a dry run has left it alone
)
