package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/process"
)

// processVerbs are the verbs of instances of plans.
func processVerbs() []*verb {
	ids := first(func(c *call) []string { return c.known.names })
	act := func(name, args string, least, most int, about string, run func(context.Context, *call) error, more string) *verb {
		return &verb{name: "processes " + name, args: args, least: least, most: most, about: about, store: true, before: checkInstance, run: run, words: ids, names: instanceNames, flags: actFlags,
			more: more + "\nIt is a message: a worker of the plan takes it. -wait waits for that, and the exit code is 1 if the instance refuses it."}
	}
	skip := act("skip", "ID [STEP]", 1, 2, "let a stuck step of an instance count as done", processesSkip,
		"STEP is as for retry. If it is the step's undo that is stuck, that counts as undone.")
	skip.check, skip.flags = checkSkip, func(set *flag.FlagSet, o *options) {
		actFlags(set, o)
		set.Func("result", "the step's result, in `JSON`; without it the state stays as it is", text(&o.result))
	}
	signal := act("signal", "ID KIND FILE", 3, 3, "send a signal to an instance", processesSignal,
		"FILE has the JSON of the message; - is the standard input. A signal that no step waits for yet is kept.")
	signal.before = func(ctx context.Context, c *call) error {
		return errors.Join(checkInstance(ctx, c), readSignal(ctx, c))
	}
	signal.flags = func(set *flag.FlagSet, o *options) {
		planFlag(set, o)
		waitFlag(set, o)
	}
	return []*verb{
		{name: "processes list", about: "list the instances of plans", store: true, run: processesList, check: checkProcesses, flags: processesFlags,
			more: "Without -since it lists the instances that have not ended, or with a -status of those that have, those of the last day. It reads an\n" +
				"index that is some seconds behind. AGE is since the start, or until the end."},
		{name: "processes show", args: "ID", least: 1, most: 1, about: "show the steps of an instance and their times", store: true, before: checkInstance, run: processesShow, check: checkShow,
			words: ids, names: instanceNames, flags: func(set *flag.FlagSet, o *options) {
				planFlag(set, o)
				set.BoolVar(&o.trace, "trace", false, "print the times as Chrome trace JSON, which https://ui.perfetto.dev opens")
			},
			more: "It draws the steps as a tree, with their times as bars. ID may be a part's, such as o17/02.00003. The errors of agents may be personal. -json\n" +
				"prints the stream with the state, in one line: each step has id, name, status, topic, key, msg, trackingId, created, timestamp, timeout,\n" +
				"ref, tag, prev and next."},
		signal,
		act("cancel", "ID", 1, 1, "cancel an instance", processesCancel,
			"Steps that have not begun don't begin. Those that have get 30 seconds. Then all that was done is undone, or kept, as the plan says."),
		selecting(act("retry", "ID [STEP]", 1, 2, "try a stuck step of an instance again, or those of many instances", processesRetry,
			"STEP is the step's ID as show prints it, or its name. Without it, it is the only one that is stuck. The agent gets the same key.\n"+
				"Without an ID, -stuck, -since, -waits, -tag and -prefix select instances, of which all steps that are stuck are tried. -since\n"+
				"is when they got stuck."), 0, 0),
		skip,
		act("fail", "ID [STEP]", 1, 2, "say that a step whose outcome is unknown was not done", processesFail,
			"STEP is as for retry. The step fails, and what was done before is undone. If it was done, skip says so; retry has it done again\n"+
				"with the same key. Of a step with items, 03#7 is item 7, and 03 are all of them whose outcomes are unknown."),
		selecting(act("rerun", "ID STEP", 2, 2, "run an instance again from a step on, or many instances", processesRerun,
			"The instance has ended, or is stuck. The steps from STEP on get new keys, so what their agents did before may be done again.\n"+
				"Without an ID, the flags select instances as those of list do, by default aborted ones of the last day; they run from STEP on,\n"+
				"or from the first step."), 1, 1),
		act("nudge", "ID", 1, 1, "let an instance look at its deadlines", processesNudge, "It also writes its row of the index anew."),
		{name: "processes versions", about: "list the versions of plans, and how many instances of each are open", store: true, run: processesVersions, flags: planFlag,
			more: "A version without open instances needs no code any more. It reads a row for each open instance."},
	}
}

func planFlag(set *flag.FlagSet, o *options) {
	set.Func("plan", "the `PLAN`; the default is the only one that has the instance, or all", text(&o.plan))
}

func waitFlag(set *flag.FlagSet, o *options) {
	set.DurationVar(&o.wait, "wait", 0, "wait at most this `TIME` for the answer; the default is not to wait")
}

func actFlags(set *flag.FlagSet, o *options) {
	planFlag(set, o)
	noteFlags(set, o)
	waitFlag(set, o)
}

// statuses are those that an instance can have.
func statuses() []string {
	return []string{string(process.Init), string(process.InProcess), string(process.Undoing), string(process.Stuck), string(process.Completed), string(process.Aborted), string(process.Canceled)}
}

func processesFlags(set *flag.FlagSet, o *options) {
	o.limit = 100
	planFlag(set, o)
	selectionFlags(set, o)
	limitFlag(set, o, "instances")
}

// selectionFlags select instances.
func selectionFlags(set *flag.FlagSet, o *options) {
	set.Func("status", "only instances of this `STATUS`: "+strings.Join(statuses(), ", "), func(s string) error {
		if !slices.Contains(statuses(), s) {
			return fmt.Errorf("want one of %s", strings.Join(statuses(), ", "))
		}
		o.status = s
		return nil
	})
	set.BoolVar(&o.stuck, "stuck", false, "only stuck instances, with the step and why it is stuck")
	set.Func("waits", "only instances that wait for the step of this `NAME`", text(&o.waits))
	set.DurationVar(&o.since, "since", 0, "also instances that have ended in this `TIME`, such as 48h")
	set.Func("tag", "only instances with this tag, `K=V`; may be given several times, and then all must fit", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return errors.New("want K=V")
		}
		if o.tags == nil {
			o.tags = map[string]string{}
		}
		o.tags[k] = v
		return nil
	})
	set.Func("prefix", "only instances whose IDs begin with this `TEXT`", text(&o.prefix))
}

// mostSince bounds the days that a list goes through.
const mostSince = 400 * 24 * time.Hour

func checkProcesses(verb string, o options) error {
	switch {
	case o.since < 0 || o.since > mostSince:
		return usage("%s: -since: want a time up to %dh", verb, int(mostSince.Hours()))
	case o.stuck && o.status != "" && o.status != string(process.Stuck):
		return usage("%s: want -stuck or -status %s, not both", verb, o.status)
	}
	return checkList(verb, o)
}

func checkShow(verb string, o options) error {
	if o.trace && o.json {
		return usage("%s: want -json or -trace, not both", verb)
	}
	return nil
}
