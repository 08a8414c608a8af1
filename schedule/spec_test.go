package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need more zones than the machine may have

	"github.com/millrace-go/millrace/schedule"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// wall is what the clocks of a zone show, as a time in UTC.
func wall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// A showing is a minute at which the clocks of a zone show a time that they have not shown before.
type showing struct{ at, clock time.Time }

// showings walks through the minutes of a range. It knows no transitions.
func showings(from, to time.Time) (all []showing) {
	latest := time.Time{}
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		if w := wall(t); w.After(latest) {
			all, latest = append(all, showing{t, w}), w
		}
	}
	return all
}

// A year of daily due times in each zone, where clocks are changed and where they are not: each day has one due time,
// at the first moment at which the clocks show it or a later time. The judge walks through all minutes of the year.
func TestAYearInEachZone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone string
		year int
	}{
		{"Europe/Berlin", 2026}, {"America/New_York", 2026}, {"Australia/Lord_Howe", 2026}, {"Asia/Kathmandu", 2026}, {"UTC", 2024},
		{"America/Sao_Paulo", 2018}, {"America/Santiago", 2026}, {"America/Havana", 2026}, // midnight is left out
		{"Pacific/Apia", 2011}, // 30 December is left out
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			loc := zone(t, c.zone)
			from, to := time.Date(c.year, 1, 1, 0, 0, 0, 0, loc), time.Date(c.year+1, 1, 1, 0, 0, 0, 0, loc)
			year := showings(from, to)
			for _, at := range []string{"0 0", "30 0", "59 0", "30 1", "45 1", "0 2", "10 2", "30 2", "0 3", "15 3", "30 23", "59 23"} {
				spec := schedule.Cron(at+" * * *", c.zone)
				if spec.Err() != nil {
					t.Fatal(spec.Err())
				}
				var hour, minute int
				if _, err := fmt.Sscan(at, &minute, &hour); err != nil {
					t.Fatal(err)
				}
				got, left, days := from.Add(-time.Second), year, 0
				for day := time.Date(c.year, 1, 1, hour, minute, 0, 0, time.UTC); day.Year() == c.year; day = day.AddDate(0, 0, 1) {
					left = left[slices.IndexFunc(left, func(s showing) bool { return !s.clock.Before(day) }):]
					want := left[0].at
					if !want.After(got) {
						continue // two clock times are due at one moment
					}
					if got = spec.Next(got); !got.Equal(want) {
						t.Fatalf("%q: got %v, want %v", at, got, want)
					}
					days++
				}
				if days < 364 {
					t.Errorf("%q: looked at %d days only", at, days)
				}
			}
		})
	}
}

// The due times around each change of the clocks, by hand.
func TestChangesOfTheClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expression, zone, after string
		want                          []string
	}{
		{"left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"beside it", "15 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:15:00+02:00", "2026-03-30T03:15:00+02:00"}},
		{"all in the hour that is left out", "*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"each hour, one left out", "0 * * * *", "Europe/Berlin", "2026-03-29T00:30:00+01:00", []string{"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}},
		{"each hour, one twice", "0 * * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00", []string{"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"}},
		{"within the second showing", "*/20 * * * *", "Europe/Berlin", "2026-10-25T02:30:00+01:00", []string{"2026-10-25T03:00:00+01:00"}},
		{"New York, left out", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"New York, twice", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"Lord Howe, half an hour left out", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"Lord Howe, half an hour twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", []string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"Kathmandu", "0 0 * * *", "Asia/Kathmandu", "2026-03-28T18:00:00Z", []string{"2026-03-29T00:00:00+05:45", "2026-03-30T00:00:00+05:45"}},
		{"São Paulo without midnight", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", []string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		{"São Paulo, half past midnight", "30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", []string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:30:00-02:00"}},
		{"Santiago without midnight", "@daily", "America/Santiago", "2026-09-05T12:00:00-04:00", []string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		{"Santiago, an evening twice", "30 23 * * *", "America/Santiago", "2026-04-04T12:00:00-03:00", []string{"2026-04-04T23:30:00-03:00", "2026-04-05T23:30:00-04:00"}},
		{"a weekly day that begins without midnight", "0 0 * * SUN", "America/Santiago", "2026-09-05T12:00:00-04:00", []string{"2026-09-06T01:00:00-03:00", "2026-09-13T00:00:00-03:00"}},
		{"seconds in the second showing", "*/30 * * * * *", "Europe/Berlin", "2026-10-25T02:00:00+01:00", []string{"2026-10-25T03:00:00+01:00", "2026-10-25T03:00:30+01:00"}},
		{"a leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"eight years without a leap day", "0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"a day or a weekday", "0 0 13 * FRI", "UTC", "2026-02-12T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"}},
		{"the last day", "0 18 L * *", "UTC", "2026-02-01T00:00:00Z", []string{"2026-02-28T18:00:00Z", "2026-03-31T18:00:00Z"}},
		{"the first Monday", "0 7 * * MON#1", "UTC", "2026-02-01T00:00:00Z", []string{"2026-02-02T07:00:00Z", "2026-03-02T07:00:00Z"}},
		{"Sunday as 7", "0 0 * * 7", "UTC", "2026-02-01T00:00:00Z", []string{"2026-02-08T00:00:00Z"}},
	} {
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		spec := schedule.Cron(c.expression, c.zone)
		for _, want := range c.want {
			if at = spec.Next(at); at.Format(time.RFC3339) != want {
				t.Errorf("%s: got %s, want %s (%v)", c.name, at.Format(time.RFC3339), want, spec.Err())
				break
			}
		}
	}
}

// A field for days that begins with a star counts as unrestricted, as in crontab(5): then both fields must match. The
// judge looks at each day by hand.
func TestADayFieldThatBeginsWithAStarIsNotRestricted(t *testing.T) {
	t.Parallel()
	monday := func(t time.Time) bool { return t.Weekday() == time.Monday }
	odd := func(t time.Time) bool { return t.Day()%2 == 1 }
	evenWeekday := func(t time.Time) bool { return t.Weekday()%2 == 0 }
	for expression, want := range map[string]func(time.Time) bool{
		"0 0 */2 * 1":       func(t time.Time) bool { return odd(t) && monday(t) },
		"0 0 0 */2 * 1":     func(t time.Time) bool { return odd(t) && monday(t) },
		"0 0 */2,4 * MON":   func(t time.Time) bool { return (odd(t) || t.Day() == 4) && monday(t) },
		"0 0 13 * */2":      func(t time.Time) bool { return t.Day() == 13 && evenWeekday(t) },
		"0 0 */2 * */2":     func(t time.Time) bool { return odd(t) && evenWeekday(t) },
		"0 0 */2 * *":       odd,
		"0 0 * * 1":         monday,
		"0 0 ? * 1":         monday,
		"0 0 1-31/2 * 1":    func(t time.Time) bool { return odd(t) || monday(t) },
		"0 0 13 * 0-6/2":    func(t time.Time) bool { return t.Day() == 13 || evenWeekday(t) },
		"0 0 13 * 1":        func(t time.Time) bool { return t.Day() == 13 || monday(t) },
		"0 0 13,*/2 * 1":    func(t time.Time) bool { return odd(t) || monday(t) },
		"0 0 1,* * 1":       func(time.Time) bool { return true },
		"0 0 13 * 1,*":      func(time.Time) bool { return true },
		"0 0 0 1,? * 1":     func(time.Time) bool { return true },
		"0 0 *,1 * 1":       monday,
		"0 0 ?,1 * 1":       monday,
		"0 0 L * */2":       func(t time.Time) bool { return t.AddDate(0, 0, 1).Day() == 1 && evenWeekday(t) },
		"0 0 */2 * MON#1":   func(t time.Time) bool { return odd(t) && monday(t) && t.Day() <= 7 },
		"0 0 0 13,14 * */2": func(t time.Time) bool { return (t.Day() == 13 || t.Day() == 14) && evenWeekday(t) },
	} {
		spec := schedule.Cron(expression, "UTC")
		got := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for day := got.AddDate(0, 0, 1); day.Year() == 2026; day = day.AddDate(0, 0, 1) {
			if !want(day) {
				continue
			}
			if got = spec.Next(got); !got.Equal(day) {
				t.Errorf("%q: got %v, want %v (%v)", expression, got, day, spec.Err())
				break
			}
		}
	}
}

// An interval is due at its multiples since 1970, whenever it is registered.
func TestIntervalIsDueOnAGrid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every       time.Duration
		after, want string
	}{
		{10 * time.Minute, "2026-03-29T00:59:59.5Z", "2026-03-29T01:00:00Z"},
		{10 * time.Minute, "2026-03-29T01:00:00Z", "2026-03-29T01:10:00Z"},
		{time.Second, "2026-03-29T01:00:00.999Z", "2026-03-29T01:00:01Z"},
		{7 * 24 * time.Hour, "2026-03-29T01:00:00Z", "2026-04-02T00:00:00Z"}, // a Thursday
		{time.Hour, "1969-12-31T22:30:00Z", "1969-12-31T23:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := schedule.Interval(c.every).Next(after.Local()).Format(time.RFC3339); got != c.want {
			t.Errorf("every %v after %s: got %s, want %s", c.every, c.after, got, c.want)
		}
	}
}

// A spec that can't be used says why, and what to do.
func TestBadSpecs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec schedule.Spec
		want string
	}{
		{schedule.Spec{}, "use schedule.Cron or schedule.Interval"},
		{schedule.Cron("0 0 30 2 *", "UTC"), "never due"},
		{schedule.Cron("0 0 31 4,6,9,11 *", "UTC"), "never due"},
		{schedule.Cron("0 0 * * *", "Europe/Berlyn"), `"Europe/Berlyn" isn't known here`},
		{schedule.Cron("0 0 * * *", ""), `such as "Europe/Berlin" or "UTC"`},
		{schedule.Cron("0 0 * * *", "Local"), "the same on each machine"},
		{schedule.Cron("0 0 * *", "UTC"), `the expression "0 0 * *"`},
		{schedule.Cron("61 0 * * *", "UTC"), "61"},
		{schedule.Cron("", "UTC"), `the expression ""`},
		{schedule.Cron("@every 1h", "UTC"), "use schedule.Interval"},
		{schedule.Cron("@reboot", "UTC"), "@reboot"},
		{schedule.Cron("CRON_TZ=UTC 0 0 * * *", "UTC"), "the zone is an argument of its own"},
		{schedule.Cron("61 0 * * *", "nope"), "61"}, // with the other fault
		{schedule.Cron("H 0 * * *", "UTC"), "H"},
		{schedule.Interval(0), "at least one"},
		{schedule.Interval(-time.Hour), "at least one"},
		{schedule.Interval(999 * time.Millisecond), "whole seconds"},
		{schedule.Interval(1500 * time.Millisecond), "whole seconds"},
		{schedule.Interval(11 * 365 * 24 * time.Hour), "at most ten years"},
	} {
		if err := c.spec.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want one with %q", c.spec, err, c.want)
		}
		if next := c.spec.Next(time.Now()); !next.IsZero() {
			t.Errorf("%v: got next %v, want none", c.spec, next)
		}
	}
	if err := schedule.Cron("61 0 * * *", "nope").Err(); !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("got error %v, want all faults together", err)
	}
}

// A spec reads as people write it.
func TestSpecString(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]schedule.Spec{
		"15 3 * * * Europe/Berlin": schedule.Cron(" 15  3 * * *", "Europe/Berlin"),
		"every 10m":                schedule.Interval(10 * time.Minute),
		"every 24h":                schedule.Interval(24 * time.Hour),
		"every 1h0m5s":             schedule.Interval(time.Hour + 5*time.Second),
		"every 10s":                schedule.Interval(10 * time.Second),
	} {
		if got := spec.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Whatever an expression says, it is refused or has due times, in order, and nothing panics.
func FuzzCron(f *testing.F) {
	for _, s := range []string{"15 3 * * *", "*/5 * * * *", "0 0 29 2 *", "0 0 LW * MON#L", "1-5/2 22-2 * NOV-FEB *", "@weekly", "TZ=", "0 0 0 0 0", "* * * * * *", "0 0 L-3 * *"} {
		f.Add(s, "Europe/Berlin", int64(1774746000))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, at int64) {
		spec := schedule.Cron(expression, zone)
		if spec.Err() != nil {
			return
		}
		from := time.Unix(at%(1<<32), 0)
		for range 3 {
			next := spec.Next(from)
			if !next.IsZero() && !next.After(from) {
				t.Fatalf("%v: after %v got %v", spec, from, next)
			}
			from = next
		}
	})
}
