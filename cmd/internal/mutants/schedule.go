package main

// schedules are breaks of the first laws of package schedule, in their order.
func schedules() []mutant {
	return []mutant{
		{
			name: "a copy of a wake counts",
			file: "schedule/decide.go",
			old:  "m.Due.Equal(d.doc.Armed)",
			new:  "d.now.After(m.Due)",
			by:   "schedule",
			test: "TestCopiesOfAWake",
		},
		{
			name: "the command of a due time has a random ID",
			file: "schedule/job.go",
			old:  "return wire.DerivedAt(x.Due, collection, schedule, due)",
			new:  "return channel.NewID()",
			by:   "schedule",
			test: "TestIDsFollowFromDueTimes",
		},
		{
			name: "due times are made up for without a bound",
			file: "schedule/due.go",
			old:  "x.Due.Before(within)",
			new:  "x.Due.Before(within) && false",
			by:   "schedule",
			test: "TestMissedDueTimes",
		},
		{
			name: "a time that the clocks leave out is not due",
			file: "schedule/spec.go",
			old:  "return begin.UTC() //",
			new:  "return time.Time{} //",
			by:   "schedule",
			test: "TestChangesOfTheClocks",
		},
		{
			name: "a due time by former rules of a zone is kept",
			file: "schedule/decide.go",
			old:  "!next.Equal(d.doc.Next) {",
			new:  "!next.Equal(d.doc.Next) && false {",
			by:   "schedule",
			test: "TestAZoneWhoseRulesHaveChanged",
		},
		{
			name: "a day field that begins with a star is restricted",
			file: "schedule/spec.go",
			old:  "		return days | unrestricted\n",
			new:  "		return days\n",
			by:   "schedule",
			test: "TestADayFieldThatBeginsWithAStarIsNotRestricted",
		},
		{
			name: "a changed definition is due again for what has passed",
			file: "schedule/decide.go",
			old:  "spec.due.next(d.doc.Decided)\n	if d.doc.mayOverlap",
			new:  "spec.due.next(d.doc.Decided.Add(-time.Hour))\n	if d.doc.mayOverlap",
			by:   "schedule",
			test: "TestAChangedSpec",
		},
	}
}

// scheduledRuns are breaks of the laws of package schedule about runs and orders.
func scheduledRuns() []mutant {
	return []mutant{
		{
			name: "a run begins while another one goes on",
			file: "schedule/document.go",
			old:  "return d.Definition.overlap() == Allow",
			new:  "return d.Definition.overlap() <= Queue",
			by:   "schedule",
			test: "TestOverlap",
		},
		{
			name: "a run in a pause takes the due times of the pause",
			file: "schedule/decide.go",
			old:  "	d.doc.expire(d.now)\n	if d.doc.Paused == nil {",
			new:  "	d.doc.expire(d.now)\n	if true {",
			by:   "schedule",
			test: "TestARunInAPause",
		},
		{
			name: "the end of a pause counts from when a worker learns of it",
			file: "schedule/decide.go",
			old:  "d.resume(spec, e.Time.UTC())",
			new:  "d.resume(spec, d.now)",
			by:   "schedule",
			test: "TestAPauseCountsFromItsOrder",
		},
		{
			name: "a resume ends whatever pause it finds",
			file: "schedule/decide.go",
			old:  "m.Pause != \"\" && m.Pause != d.doc.Paused.ID",
			new:  "false",
			by:   "schedule",
			test: "TestAPauseAfterAResumeThatWaits",
		},
	}
}

// wrongClocks are breaks of what holds while a clock is wrong.
func wrongClocks() []mutant {
	return []mutant{
		{
			name: "a worker that starts relies on a wake that a wrong clock has delayed",
			file: "schedule/decide.go",
			old:  "ago < 0 || ago >= justSent",
			new:  "ago < 0 && ago > 0",
			by:   "schedule",
			test: "TestAWakeThatAWrongClockHasDelayed",
		},
		{
			name: "a sweep that a wrong clock has noted stops all others",
			file: "process/sweep.go",
			old:  " && !ahead(last.At, now)",
			new:  "",
			by:   "process",
			test: "TestSweepsGoOnAfterAClockThatWasAhead",
		},
		{
			name: "rows are deleted by a clock that is ahead",
			file: "values/forget.go",
			old:  "present.After(now) {",
			new:  "true {",
			by:   "values",
			test: "TestForgettingByAClockThatIsAhead",
		},
		{
			name: "notes are deleted by a clock that is ahead",
			file: "internal/wire/clock.go",
			old:  "	if newest.Before(now) {",
			new:  "	if false {",
			by:   "internal/handling/once",
			test: "TestOnceForgetsNothingByAClockThatIsAhead",
		},
	}
}
