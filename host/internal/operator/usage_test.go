package operator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
)

// A command line that can't be right, or finds nothing, gets its exit code and an error that says what to do.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.poison(t, 2, closed)
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "Usage: millrace VERB"},
		{"-help", 0, "poison retry"},
		{"help", 0, "Exit codes"},
		{"help send", 0, "standard input"},
		{"poison -help", 0, "  discard     delete messages"},
		{"poison retry -help", 0, "-dry-run"},
		{"poison", 2, "poison list, poison groups, poison show"},
		{"poison lst", 2, `unknown verb poison "lst"`},
		{"lst", 2, "unknown verb"},
		{"-store x queues", 2, "unknown kind of store URL"},
		{"queues -nope", 2, "-nope"},
		{"queues more", 2, `unknown verb queues "more"`},
		{"queues list more", 2, `unknown argument "more"`},
		{"queues list -json=7", 2, `--json: invalid value "7": want true or false`},
		{"doctor -lag banana", 2, `--lag: invalid value "banana": want a time such as 90s, 30m or 12h`},
		{"settings set seats=1 -why " + long, 2, `--why: invalid value "` + long[:80] + `"… (3000 bytes): want at most`},
		{"queues -json=" + long, 2, `--json: invalid value "` + long[:80] + `"… (3000 bytes): want true or false`},
		{"queues -help", 0, "  list        count the messages"},
		{"queues pause mails", 2, "add --why TEXT"},
		{"queues pause nope -why x", 2, "ledger, mails, months, reservations, schedules, statuses"},
		{"queues pause mails -why x -for 1ms", 2, "--for: invalid value"},
		{"queues resume mails", 0, `Queue "mails" was not paused.`},
		{"queues -store=", 2, "empty"},
		{"queues -store=nope:x", 2, "sqlite:"},
		{"queues -store sqlite:here.db", 1, "does not exist"},
		{"queues -store sqlite://data/here.db", 2, "a path is wanted, not a URL"},
		{"queues -store sqlite::memory:", 2, "not durable"},
		{"queues -store sqlite:/dev/null", 2, "regular file"},
		{"poison retry", 2, "no messages are selected"},
		{"poison retry -queue reservations", 2, `no messages of queue "reservations"`},
		{"poison retry -all -id x", 2, "want either --all"},
		{"poison retry -all -kind x", 2, "want either --all"},
		{"poison retry -id=", 2, "empty"},
		{"poison retry -reason=", 2, "empty"},
		{"poison retry -all -queue nope", 2, "ledger, mails, months, reservations, schedules, statuses"},
		{"poison retry -id nope", 3, `no message "nope"`},
		{"poison retry -kind nope", 3, `kinds there: "reservations.make.v1"`},
		{"poison retry -reason nope", 3, `reasons there: "kitchen closed"`},
		{"poison retry -reason closed", 3, `reasons there: "kitchen closed"`},
		{"poison list -reason nope", 3, `reasons there: "kitchen closed"`},
		{"poison list -queue mails", 0, "No messages"},
		{"poison retry -all -queue mails", 0, "Sent back 0 messages"},
		{"poison retry -all -yes", 2, "-yes"},
		{"poison show", 2, "want ID"},
		{"poison show nope", 3, `no message "nope"`},
		{"poison discard", 2, "no messages are selected"},
		{"poison discard -all", 2, "--dry-run"},
		{"poison discard -kind reservations.make.v1", 2, "--dry-run"},
		{"poison discard -all -queue mails", 2, "--dry-run"}, // the queue is empty
		{"poison discard -all -queue mails -yes -why x", 0, "Discarded 0 messages"},
		{"poison discard -all -yes -dry-run", 2, "not both"},
		{"poison discard -all -dry-run", 0, "Would discard 2 messages"},
		{"poison discard -kind nope -yes -why x", 3, "nope"},
		{"values show", 2, "KIND KEY"},
		{"values show capacity", 2, "KIND KEY"},
		{"values show nope 2026-12-24", 2, "capacity, evenings, months, statuses"},
		{"values show capacity 1999-01-01", 3, "no document"},
		{"values show capacity \x1b", 2, "control characters"},
		{"views rebuild", 2, "VIEW"},
		{"views rebuild statuses", 2, "months"},
		{"send reservations.make.v1", 2, "KIND FILE"},
		{"send nope x", 2, "reservations.archive.v1, reservations.cancel.v1"},
		{"send reservations.accepted.v1 x", 2, "unknown command"},
		{"send reservations.make.v1 nope.json", 1, "nope.json"},
		{"send reservations.make.v1 x -delay 8d", 2, "--delay: invalid value \"8d\": want a time such as 90s, 30m or 12h, from 0s to 3650 days"},
		{"send reservations.make.v1 x -delay 99999h", 2, "--delay: invalid value"},
		{"send reservations.make.v1 x -delay 1h -at 2030-01-01T00:00:00Z", 2, "not both"},
		{"send reservations.make.v1 x -at tomorrow", 2, "want a time such as"},
		{"send reservations.make.v1 x -at 2999-01-01T00:00:00Z", 2, "at most 3650 days ahead"},
		{"send reservations.make.v1 x -delay -1s", 2, "--delay: invalid value"},
		{"send reservations.make.v1 nope.json -delay 80000h", 1, "nope.json"},
		{"send -help", 0, "up to 3650 days"},
		{"send -help", 0, "2026-12-24T18:00:00+01:00"},
		{"poison list mails", 2, `poison list: unknown argument "mails"; name a queue by --queue, and a message by --id. See `},
		{"poison retry mails", 2, "name a queue by --queue"},
		{"poison edit", 2, "want ID [FILE]"},
		{"poison edit x", 2, "want the new body: --data FILE"},
		{"poison edit x y", 1, "open y"},
		{"poison edit x - -data y", 2, `unknown argument "-"`},
		{"poison edit x -data nope.json", 1, "nope.json"},
		{"values list nope", 2, "capacity, evenings, months, statuses"},
		{"values list capacity -limit 0", 2, "want a number"},
		{"values list capacity", 0, "No documents."},
		{"values list", 0, "reservations.make.v1"},
		{"views list", 0, "months"},
		{"views list capacity", 2, "months, statuses"},
		{"views show capacity x", 2, "months, statuses"},
		{"views show months x", 3, "no document"},
		{"schedules", 2, "schedules list, schedules show, schedules pause, schedules resume, schedules run, schedules backfill"},
		{"schedules list", 0, "No schedules."},
		{"schedules show", 2, "want NAME"},
		{"schedules show nightly", 3, "no worker has ever registered it"},
		{"schedules run a\x1bb", 2, "control characters"},
		{"schedules pause nightly -by " + strings.Repeat("x", 101), 2, "at most 100 bytes"},
		{"schedules backfill nightly", 2, "NAME FROM TO"},
		{"schedules backfill nightly yesterday today", 2, "FROM: want a time such as"},
		{"schedules backfill nightly 2026-01-02T00:00:00Z 2026-01-01T00:00:00Z", 2, "TO is before FROM"},
		{"schedules backfill -help", 0, "of this machine"},
		{"ids raise orders", 2, "NAME NUMBER"},
		{"ids raise orders 7", 2, "add --yes to do it, or --dry-run"},
		{"ids raise orders 7 -yes", 2, "add --why TEXT"},
		{"ids raise orders 7 -yes -dry-run", 2, "not both"},
		{"ids raise orders 7-5 -yes", 2, "the check digit doesn't fit"},
		{"ids raise orders seven -yes", 2, "want a number such as 1041"},
		{"ids raise orders 9223372036854775807 -yes", 2, "want at most 9223372036854775806"},
		{"ids raise a\x1bb 7 -yes", 2, "control characters"},
		{"ids list -limit 0", 2, "want a number"},
		{"gates open", 2, "want NAME"},
		{"gates open g -at tomorrow", 2, "want a time such as"},
		{"gates open g -by " + strings.Repeat("x", 101), 2, "at most 100 bytes"},
		{"gates close g -why a\x1bb", 2, "control characters"},
		{"gates list -prefix \x1b", 2, "control characters"},
		{"guards close", 2, "want NAME"},
		{"guards close smtp", 3, "has ever been open"},
		{"guards close a\x1bb", 2, "control characters"},
		{"guards list", 0, "No guard's breaker has ever been open."},
		{"locks break l", 2, "add --why TEXT"},
		{"locks break l -why x", 3, "nobody has ever held it"},
		{"leaders list", 0, "No leaders."},
		{"turns list", 2, "want QUEUE"},
		{"turns list Mails", 2, "QUEUE: "},
		{"turns list mails", 0, "No key is held, is halted or waits."},
		{"turns list mails -all", 0, "No keys."},
		{"turns release mails a", 2, "add --why TEXT"},
		{"turns release mails a\x1bb -why x", 2, "control characters"},
		{"turns release mails a -why x", 3, "has ever had a turn"},
		{"processes", 2, "processes list, processes show, processes signal"},
		{"processes list", 2, "have no plan; name one that had by --plan"},
		{"processes list -plan trip", 0, "No instances that have not ended."},
		{"processes show o17 -plan trip", 3, `no instance "o17" of trip`},
		{"processes show -help", 0, "trackingId"},
		{"processes cancel -help", 0, "at most 100 bytes; the default is USER@HOST"},
		{"processes retry o17 02 03", 2, `unknown argument "03"`},
		{"settings", 2, "settings show, settings history, settings diff, settings status, settings set, settings back"},
		{"settings show", 3, "name the settings of a program by --of NAME"},
		{"settings show -of x", 2, "-of: "},
		{"settings show -of shop", 0, "the programs' defaults are in force"},
		{"settings status -of shop", 0, "No program that has these settings runs."},
		{"settings history -of shop", 0, "No versions"},
		{"settings diff 1 two", 2, "TO: want a version, 0 or more"},
		{"settings diff 1 2 -of shop", 3, "version 1"},
		{"settings set", 2, "want PATH=VALUE, or --default PATH"},
		{"settings set seats", 2, "want PATH=VALUE, such as seats=60"},
		{"settings set seats=", 2, "has no value; for an empty text"},
		{"settings set seats=1 -wait 0s", 2, `--wait: invalid value "0s": want a time`},
		{"settings set key=evn:SMTP_URL -of shop -force", 2, "is taken for the reference of a secret, and that is env:NAME or file:PATH"},
		{"settings set key=env:A=B -of shop -force", 2, "is taken for the reference of a secret"},
		{`settings set key="evn:SMTP_URL" -of shop`, 1, "no program that has these settings runs"},
		{"settings set seats=1 -of shop -why a\x1bb", 2, "control characters"},
		{"settings back -to -2", 2, `--to: invalid value "-2": want a version, 0 or more`},
		{"settings back -of shop", 3, "nobody has ever set anything"},
		{"leaders", 2, "leaders list"},
		{"gates", 2, "gates list, gates open, gates close"},
		{"top -every 1ms", 2, "--every: invalid value"},
		{"top -help", 0, "at least 100ms (default 2s)"},
		{"top -n -1", 2, "--n: invalid value"},
		{"top -n 1", 0, "reservations  ready 0"},
		{"doctor -lag 0s", 2, "--lag: invalid value"},
		{"doctor -help", 0, "may wait (default 5m)"},
		{"completion", 2, "SHELL"},
		{"completion tcsh", 2, "bash, fish, powershell, zsh"},
	} {
		r := w.run(t, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("millrace %s: got exit code %d and %q, want %d and %q", c.args, r.code, r.out+r.err, c.code, c.want)
		}
		if strings.ContainsRune(r.err, '\x1b') {
			t.Errorf("millrace %s: %q reaches the terminal", c.args, r.err)
		}
		if c.code != 0 && r.out != "" {
			t.Errorf("millrace %s: got %q on the standard output, want nothing", c.args, r.out)
		}
	}
	for _, args := range [][]string{{"poison", "show", ""}, {"poison", "show", "x", ""}, {"values", "show", "capacity", ""}, {"send", "reservations.make.v1", ""}} {
		if r := w.run(t, args...); r.code != 2 || !strings.Contains(r.err, "an argument is empty") {
			t.Errorf("millrace %q: got exit code %d and %q, want it refused", args, r.code, r.err)
		}
	}
	if got := len(w.poisoned(t)); got != 2 {
		t.Errorf("got %d messages in the poison queue, want the 2 that nobody has selected", got)
	}
}

// A mistyped store is an error for every verb, and no store is made.
func TestNoStoreIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command1 := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(command1, []byte(`{"id":"12345678","date":"2026-12-24"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range new(session).table() {
		if a.Local {
			continue
		}
		args := strings.Fields(a.Name())
		switch a.Name() {
		case "assets push":
			args = append(args, filepath.Dir(command1))
		case "values show":
			args = append(args, "capacity", "x")
		case "values about":
			args = append(args, "capacity", "x")
		case "views show":
			args = append(args, "months", "x")
		case "views delete":
			args = append(args, "months", "x", "-why", "x", "-yes")
		case "programs show", "find":
			args = append(args, "x")
		case "messages show":
			args = append(args, "mails", "x")
		case "audit show":
			args = append(args, audit.NewID())
		case "poison edit":
			args = append(args, "x", "-data", command1, "-why", "x")
		case "views rebuild":
			args = append(args, "months")
		case "send", "values try":
			args = append(args, "reservations.cancel.v1", command1)
		case "poison show":
			args = append(args, "x")
		case "poison retry":
			args = append(args, "-all")
		case "poison discard":
			args = append(args, "-all", "-yes", "-why", "x")
		case "queues pause":
			args = append(args, "mails", "-why", "x")
		case "queues peek", "queues show":
			args = append(args, "mails")
		case "queues purge":
			args = append(args, "mails", "-why", "x", "-yes")
		case "messages cancel":
			args = append(args, "mails", "x", "-why", "x")
		case "queues resume":
			args = append(args, "mails")
		case "bulk show", "bulk pause", "bulk resume", "bulk cancel":
			args = append(args, aBulkAct)
		case "ids raise":
			args = append(args, "orders", "7", "-yes", "-why", "x")
		case "signals send":
			args = append(args, "reload")
		case "locks raise":
			args = append(args, "nightly", "7", "-why", "x")
		case "schedules show", "schedules pause", "schedules resume", "schedules run":
			args = append(args, "nightly")
		case "files show":
			args = append(args, command1)
		case "files revoke", "files revoke-owner", "files release":
			args = append(args, command1, "-why", "x")
		case "files revoke-all":
			args = append(args, "-why", "x", "-yes")
		case "files delete":
			args = append(args, command1, "-why", "x", "-yes")
		case "schedules backfill":
			args = append(args, "nightly", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
		case "gates open", "gates close", "gates repair", "guards close", "guards show":
			args = append(args, "season")
		case "locks break":
			args = append(args, "nightly", "-why", "it hangs")
		case "turns list":
			args = append(args, "mails")
		case "turns release":
			args = append(args, "mails", "a", "-why", "x")
		case "processes signal":
			args = append(args, "o17", "shop.picked.v1", command1)
		case "processes rerun":
			args = append(args, "o17", "01")
		case "settings diff":
			args = append(args, "1")
		case "settings set":
			args = append(args, "seats=60")
		case "processes show", "processes cancel", "processes retry", "processes skip", "processes fail", "processes nudge":
			args = append(args, "o17")
		}
		if r := finish(t, command(dir, "sqlite:"+empty, args...)); r.code != boot.ExitError || !strings.Contains(r.err, "is empty") {
			t.Errorf("millrace %s on an empty file: got exit code %d and %q, want it refused", a.Name(), r.code, r.err)
		}
		for _, url := range []string{"", "sqlite:data/r.db", "sqlite:r.db?wake=off"} { // "" is the default
			r := finish(t, command(dir, url, args...))
			if r.code != boot.ExitError || !strings.Contains(r.err, "does not exist") || !strings.Contains(r.err, dir) {
				t.Errorf("millrace %s on %q: got exit code %d and %q, want it refused", a.Name(), url, r.code, r.err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("got %v (%v), want nothing made", entries, err)
	}
	if info, err := os.Stat(empty); err != nil || info.Size() > 0 {
		t.Errorf("the empty file: got %v (%v), want it as it was", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: got %v, want it absent", err)
	}
}

// No error shows what may be secret in the name of a store, even where that stands in the wrong place.
func TestSecretsOfTheStore(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0c2VjcmV0"
	for _, url := range []string{
		"azure:AccountName=x;AccountKey=" + secret, "azure:AccountNme=x;AccountKey=" + secret, "azur:AccountName=x;AccountKey=" + secret,
		"azure:DefaultEndpointsProtocol=http;AccountName=x;AccountKey=" + secret + ";QueueEndpoint=http://127.0.0.1:1/x;BlobEndpoint=http://127.0.0.1:1/x;TableEndpoint=nowhere",
	} {
		for _, args := range [][]string{{"queues", "-store", url}, {"queues", "-store=" + url, "-x"}, {"-store=" + url, "queues"}, {"queues"}} {
			r := finish(t, command(t.TempDir(), url, args...))
			if r.code == 0 || strings.Contains(r.out+r.err, secret) {
				t.Errorf("millrace %q: got exit code %d and %q", args[0], r.code, r.out+r.err)
			}
		}
	}
	w := newWorld(t, "")
	const account, key = "azure:AccountName=x;AccountKey=" + secret, "AccountKey=" + secret
	for _, args := range [][]string{
		{"queues", account}, {"queues", "-store" + account}, {"queues", "-store " + account}, {"queues", "-store https://u:" + secret + "@h"}, {"queues", "-json", "--" + key}, {"-store" + account},
		{"poison", "list", key}, {"poison", "retry", "-all", key}, {"poison", "retry", "-all", "-" + key}, {account}, {"poison", account},
		{"help", account}, {"completion", account}, {"values", "show", account, "x"}, {"views", "rebuild", account}, {"send", account, "x"},
	} {
		r := w.run(t, args...)
		if r.code != boot.ExitUsage || strings.Contains(r.out+r.err, secret) {
			t.Errorf("millrace %q: got exit code %d and %q", args, r.code, r.out+r.err)
		}
	}
}

// Output that can't be written is a failure, and reported once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err) // other systems have no /dev/full
	}
	defer func() { _ = full.Close() }()
	for _, format := range []string{"-json=false", "-json"} {
		var told strings.Builder
		cmd := command(w.dir, w.url, "queues", format)
		cmd.Stdout, cmd.Stderr = full, &told
		if _ = cmd.Run(); cmd.ProcessState.ExitCode() != boot.ExitError || strings.Count(told.String(), "standard output") != 1 {
			t.Errorf("%s: got exit code %d and %q, want %d and the error once", format, cmd.ProcessState.ExitCode(), told.String(), boot.ExitError)
		}
	}
}

// A command line succeeds only if it begins with a verb or asks for help, whatever else it holds.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"", "queues", "queues -json", "queues list -json", "queues pause mails bills -for 30m -why x", "queues pause mails -until 2027-01-01T00:00:00Z -why x -repair", "queues resume mails", "poison list -id a -id b -kind k", "poison retry -all -dry-run", "poison discard -yes -- -all",
		"values show capacity 2026-12-24 -json", "send reservations.make.v1 - -delay 5s -id x", "completion bash", "-help", "poison -h", "help",
		"poison", "poison lst", "queues -store", "queues --store=x --json=maybe", "send k f -delay -5s", "__complete poison retry -", "views rebuild months -clear=7",
		"ids raise orders 1042-9 -yes", "gates open season -at 2027-01-01T00:00:00Z -why x -by y", "locks break a -why x", "locks list -all", "leaders list -limit 3",
		"processes list -stuck -tag a=b -since 1h", "processes skip o17 02 -result {} -wait 1s", "processes show o17 -trace -json", "processes signal o17 k -",
		"schedules backfill nightly 2026-01-01T00:00:00Z \"2026-01-02 00:00\" -why x",
		"settings set seats=60 -default mail.rate -of shop -force -wait 1s", "settings back -to 3 -why x", "settings diff 1 2 -json",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		var done *act.Request
		var printed strings.Builder
		x := sessionIn(t, Program{}, nil, "", args...)
		x.out = terminal.NewOutput(&printed)
		reached := errors.New("the store is opened")
		x.opens = func(_ context.Context, r *act.Request) (*act.Desk, func(*error), error) {
			done = r
			return nil, nil, reached
		}
		err := x.runIn(t.Context())
		var bad *act.UsageError
		switch {
		case done == nil && err == nil: // help, completion, or an act that needs no store
			if printed.Len() == 0 && !slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0]) {
				t.Errorf("%q: nothing is said", args)
			}
		case done == nil:
			return
		case err == nil || !errors.Is(err, reached) || errors.As(err, &bad):
			t.Errorf("%q: got %v", args, err)
		case !strings.HasPrefix(line+"\n", strings.ReplaceAll(done.Act.Name(), " ", "\n")+"\n") && !done.Act.Alone:
			t.Errorf("%q: got act %s", args, done.Act.Name())
		case done.Check() != nil:
			t.Errorf("%q: %v", args, done.Check())
		}
	})
}
