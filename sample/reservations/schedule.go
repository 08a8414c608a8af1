package reservations

import (
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/schedule"
)

// MinRetention is how many days the documents of a date are kept at least. The framework refuses messages that are more
// than 30 days old, so then no event of the date is under way any more that would write a document anew.
const MinRetention = 31

// Schedule sets what happens by the clocks of the restaurant's time zone. A worker needs it beside [Register].
// Retention is for how many days the documents of a date are kept after it.
//
// Each due time stands for one date. If no worker runs, the dates of a year are made up for. Of the reminders only the
// last one is: the dates of the others are over.
func Schedule(h *handlers.Registry, zone string, retention int) {
	schedule.Every(h, "remind-guests", schedule.Cron("0 10 * * *", zone), func(t schedule.Tick) RemindGuests {
		return RemindGuests{Date: dateAfter(t.Due, 1)}
	}, schedule.Config{Missed: schedule.One})

	everyDate := schedule.Config{Missed: schedule.All, Within: 365 * 24 * time.Hour}
	schedule.Every(h, "close-dates", schedule.Cron("10 0 * * *", zone), func(t schedule.Tick) CloseDate {
		return CloseDate{Date: dateAfter(t.Due, -1)}
	}, everyDate)
	schedule.Every(h, "archive-dates", schedule.Cron("20 0 * * *", zone), func(t schedule.Tick) ArchiveDate {
		return ArchiveDate{Date: dateAfter(t.Due, -retention)}
	}, everyDate)
}

// dateAfter returns the date that is so many days after the one at t.
func dateAfter(t time.Time, days int) string {
	y, m, d := t.Date()
	return time.Date(y, m, d+days, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) // in UTC, because a zone may skip a midnight
}
