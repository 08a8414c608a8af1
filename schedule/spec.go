package schedule

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	gocron "github.com/netresearch/go-cron"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// A Spec says when a schedule is due. [Cron] and [Interval] make one.
type Spec struct {
	timing
	due   due // nil if there is a fault
	fault error
}

// timing is a Spec as it is stored.
type timing struct {
	Cron     string `json:"cron,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Interval string `json:"interval,omitempty"` // as time.Duration has it
}

// due is what a Spec computes with.
type due interface {
	// next returns the first due time after t, or the zero time if there is none within ten years.
	next(t time.Time) time.Time

	// in returns a due time in the zone of the Spec.
	in(t time.Time) time.Time
}

// Cron returns the Spec of a crontab expression in a time zone, such as "15 3 * * *" in "Europe/Berlin". An expression
// has five fields: minute, hour, day of the month, month, day of the week. Six fields begin with the second. A day
// matches if the day of the month or the day of the week does, where both are restricted, as in crontab(5). A field
// that begins with a star, such as */2, is not restricted: then both must match.
//
//	0 9 * * MON-FRI    at nine on working days
//	*/10 8-17 * * *    every ten minutes of the day
//	0 18 L * *         on the last day of the month
//	0 7 * * MON#1      on the first Monday of the month
//	@monthly           as @yearly, @weekly, @daily and @hourly
//
// The expression selects times of the zone's clocks, each once. A time that the clocks leave out is due when they go
// on. A time that they show twice is due when they show it first. So "0 * * * *" is not due in the hour that is
// repeated; use Interval(time.Hour) for each hour that passes.
//
// Every reports an expression that can't be read or is never due, and a zone that isn't known. Package host has the
// zones in the program. Another program reads them from the machine, or has them by importing time/tzdata.
func Cron(expression, zone string) Spec {
	return newSpec(timing{Cron: strings.Join(strings.Fields(expression), " "), Zone: zone})
}

// Interval returns the Spec that is due each time that so much time has passed since 1970 in UTC: every ten minutes is
// due at 00:00, 00:10 and so on, and every seven days on Thursdays at 00:00. It has at least a second, whole seconds,
// and at most ten years.
func Interval(d time.Duration) Spec { return newSpec(timing{Interval: d.String()}) }

func newSpec(t timing) Spec {
	s := Spec{timing: t}
	s.due, s.fault = t.parse()
	return s
}

// String returns "15 3 * * * Europe/Berlin" or "every 10m".
func (s Spec) String() string {
	if s.Interval == "" {
		return strings.TrimSpace(s.Cron + " " + s.Zone)
	}
	text := s.Interval
	for _, zero := range []struct{ end, cut string }{{"m0s", "0s"}, {"h0m", "0m"}} {
		if strings.HasSuffix(text, zero.end) {
			text = strings.TrimSuffix(text, zero.cut)
		}
	}
	return "every " + text
}

// Err says why the Spec can't be used, or is nil.
func (s Spec) Err() error {
	if s.due == nil && s.fault == nil {
		return errors.New("there is no spec; use schedule.Cron or schedule.Interval")
	}
	return s.fault
}

// Next returns the first due time after t, in the Spec's zone. It is the zero time if the Spec can't be used, or is not
// due within ten years.
func (s Spec) Next(t time.Time) time.Time {
	if s.due == nil {
		return time.Time{}
	}
	next := s.due.next(t)
	if next.IsZero() {
		return next
	}
	return s.due.in(next)
}

// last returns the last due time from a due time until t, which is not before.
func (s Spec) last(from, t time.Time) time.Time {
	before := from.Add(-time.Second)
	n := sort.Search(int(t.Sub(before)/time.Second)+1, func(i int) bool {
		next := s.due.next(before.Add(time.Duration(i) * time.Second))
		return next.IsZero() || next.After(t)
	})
	return s.due.next(before.Add(time.Duration(n-1) * time.Second))
}

// nearest returns t if it is a due time, and else the due time that is nearest to it. The zero time is its own.
func (s Spec) nearest(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	after := s.due.next(t.Add(-1))
	if after.IsZero() {
		return after
	}
	for back := time.Second; back < 2*after.Sub(t); back *= 2 {
		if before := s.due.next(t.Add(-back)); before.Before(t) {
			if before = s.last(before, t); t.Sub(before) < after.Sub(t) {
				return before
			}
			break
		}
	}
	return after
}

// count counts the due times of a range, with its ends, until there are most.
func (s Spec) count(from, to time.Time, most int) (n int) {
	for t := s.due.next(from.Add(-1)); n < most && !t.IsZero() && !t.After(to); t = s.due.next(t) {
		n++
	}
	return n
}

func (t timing) parse() (due, error) {
	if t.Interval == "" {
		return parseCron(t.Cron, t.Zone)
	}
	d, err := time.ParseDuration(t.Interval)
	if err != nil || d < time.Second || d%time.Second != 0 || d > channel.MaxDelay {
		return nil, fmt.Errorf("the interval is %s; want whole seconds, at least one, and at most ten years", storage.Quote(t.Interval))
	}
	return every(d / time.Second), nil
}

func parseCron(expression, zone string) (due, error) {
	var faults []error
	place, err := time.LoadLocation(zone)
	switch {
	case zone == "", zone == "Local":
		faults = append(faults, fmt.Errorf(`the time zone is %s; want one that is the same on each machine, such as "Europe/Berlin" or "UTC"`, storage.Quote(zone)))
	case err != nil:
		faults = append(faults, fmt.Errorf("the time zone %s isn't known here: correct its name, or import _ \"time/tzdata\" in the main package if this machine has no zones", storage.Quote(zone)))
	}
	fields, err := readFields(expression)
	if err != nil {
		faults = append(faults, fmt.Errorf("the expression %s: %w", storage.Quote(expression), err))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return calendar{fields: fields, zone: place}, nil
}

// readFields reads a crontab expression. The parser leaves the zone alone: it computes in UTC.
func readFields(expression string) (gocron.Schedule, error) {
	if strings.Contains(expression, "=") {
		return nil, errors.New("the zone is an argument of its own")
	}
	parser, err := gocron.TryNewParser(gocron.SecondOptional | gocron.Minute | gocron.Hour | gocron.Dom | gocron.Month | gocron.Dow |
		gocron.Descriptor | gocron.Extended | gocron.DowOrDom)
	if err != nil {
		return nil, err
	}
	fields, err := parser.WithMaxSearchYears(searchYears).Parse(expression)
	if err != nil {
		return nil, err
	}
	spec, ok := fields.(*gocron.SpecSchedule)
	if !ok {
		return nil, errors.New("use schedule.Interval for an interval")
	}
	openDays(spec, strings.Fields(expression))
	if fields.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, errors.New("it is never due")
	}
	return fields, nil
}

// unrestricted marks a field of the parser that doesn't restrict the day.
const unrestricted = 1 << 63

// openDays marks the fields for days that begin with a star, and no others. The parser marks those that have a lone
// star, or a question mark, anywhere.
func openDays(spec *gocron.SpecSchedule, fields []string) {
	if n := len(fields); n >= 5 {
		spec.Dom, spec.Dow = openDay(spec.Dom, fields[n-3]), openDay(spec.Dow, fields[n-1])
	}
}

func openDay(days uint64, field string) uint64 {
	switch field[0] {
	case '*':
		return days | unrestricted
	case '?':
		return days
	}
	return days &^ unrestricted
}

// searchYears is how far ahead a due time is looked for. 29 February may be eight years away.
const searchYears = 10

// every is due at the multiples of so many seconds since 1970.
type every int64

func (d every) next(t time.Time) time.Time {
	n := t.Unix() / int64(d)
	if t.Unix()%int64(d) < 0 {
		n--
	}
	return time.Unix((n+1)*int64(d), 0).UTC()
}

func (every) in(t time.Time) time.Time { return t.UTC() }

// calendar is due at times that the clocks of a zone show. It handles such a time as if it were one in UTC, where no
// clock is ever changed, and then looks when the clocks of the zone show it.
type calendar struct {
	fields gocron.Schedule
	zone   *time.Location
}

func (c calendar) in(t time.Time) time.Time { return t.In(c.zone) }

// next looks for the first clock time that the zone shows after t. All clock times that are not later than the one at t
// have been shown.
func (c calendar) next(t time.Time) time.Time {
	l := t.In(c.zone)
	shown := time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
	for {
		shown = c.fields.Next(shown)
		if shown.IsZero() {
			return shown
		}
		if at := firstShowing(shown, c.zone); at.After(t) {
			return at
		}
	}
}

// firstShowing returns the first moment at which the clocks of a zone show a time, given as one in UTC, or a later one.
func firstShowing(shown time.Time, zone *time.Location) time.Time {
	const farthest = 24 * time.Hour // no zone is as far from UTC
	for at := shown.Add(-farthest).In(zone); ; {
		_, offset := at.Zone()
		begin, end := at.ZoneBounds()
		moment := shown.Add(-time.Duration(offset) * time.Second)
		if moment.Before(begin) {
			return begin.UTC() // the clocks have left it out
		}
		if end.IsZero() || moment.Before(end) {
			return moment
		}
		at = end
	}
}
