package operator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/poison"
)

// completions are command lines, whose last word is being typed, and the candidates for that word.
var completions = []struct {
	words []string
	want  []string
}{
	{[]string{""}, []string{"assets", "audit", "bulk", "completion", "doctor", "files", "find", "gates", "guards", "help", "ids", "leaders", "levels", "locks", "messages", "ops", "poison", "processes", "programs", "queues", "rates", "schedules", "send", "settings", "signals", "spool", "top", "turns", "values", "views"}},
	{[]string{"poison", ""}, []string{"discard", "edit", "groups", "list", "retry", "show"}},
	{[]string{"poison", "retry", "--d"}, []string{"--dry-run"}},
	{[]string{"poison", "retry", "-queue", "m"}, []string{"mails", "months"}},
	{[]string{"values", "show", ""}, []string{"capacity", "evenings", "months", "statuses"}},
	{[]string{"send", "reservations.cancel.v1", "fi"}, []string{"file.json"}}, // a file of the folder
}

// The hidden verb answers the scripts with the right candidates.
func TestCompleteWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, c := range append(completions[:len(completions):len(completions)], []struct{ words, want []string }{
		{[]string{"po"}, []string{"poison"}},
		{[]string{"poison", "discard", "-why", "x", "-all", "-kind", "reservations.m"}, []string{"reservations.make.v1"}},
		{[]string{"poison", "list", "-reason", "und"}, []string{"undecodable"}},
		{[]string{"processes", ""}, []string{"cancel", "fail", "list", "nudge", "rerun", "retry", "show", "signal", "skip", "versions"}},
		{[]string{"processes", "list", "-status", "un"}, []string{"undoing"}},
		{[]string{"processes", "show", ""}, nil}, // nobody has a plan
		{[]string{"poison", "list", "-reason", "b"}, []string{"bad key", "body is gone"}},
		{[]string{"poison", "list", "-reason", "unr"}, []string{poison.ReasonUnreadable}},
		{[]string{"values", "show", "-json", "ca"}, []string{"capacity"}},
		{[]string{"views", "rebuild", ""}, []string{"months"}},
		{[]string{"send", "reservations.c"}, []string{"reservations.cancel.v1", "reservations.close.v1"}},
		{[]string{"completion", "z"}, []string{"zsh"}},
		{[]string{"nope", ""}, nil},
		{[]string{"poison", "nope", ""}, nil},
		{[]string{"queues", "-store", ""}, nil},
		{[]string{"queues", ""}, []string{"list", "pause", "peek", "purge", "resume", "show"}},
		{[]string{"queues", "list", ""}, nil},
		{[]string{"queues", "pause", "mails", "m"}, []string{"mails", "months"}},
		{[]string{"queues", "pause", "mails", "--un"}, []string{"--until"}},
		{[]string{"queues", "resume", ""}, nil}, // nothing is paused
		{[]string{"queues", "-json", "--"}, []string{"--help", "--store"}},
		{[]string{"values", "show", "capacity", ""}, nil},
		{[]string{"poison", "list", "-reason", `too\ many`}, []string{"too many attempts", "too many deliveries"}},
	}...) {
		if slices.Contains(c.want, "file.json") {
			c.want = nil // the shell offers the files
		}
		var got []string
		for line := range strings.Lines(w.want(t, 0, append([]string{"__complete"}, c.words...)...).out) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if !strings.HasPrefix(word, ":") { // the last line tells the shell what to do with files
				got = append(got, word)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.words, got, c.want)
		}
	}
}

// The scripts work in real shells: bash, and the others that are installed here.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	dir, w := t.TempDir(), newWorld(t, "")
	if err := os.WriteFile(filepath.Join(dir, "file.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, filepath.Join(dir, "millrace")); err != nil {
		t.Fatal(err)
	}
	// A shell is told once about the program, and then asked for the candidates of each command line.
	for shell, script := range map[string]struct {
		begin string
		ask   func(words []string) string
	}{
		// Where the function finds nothing, -o default offers the names of files. compgen stands for that here.
		"bash": {"source /usr/share/bash-completion/bash_completion; source <(millrace completion bash)", func(words []string) string {
			return fmt.Sprintf("COMPREPLY=(); COMP_WORDS=(millrace %s); COMP_CWORD=%d; COMP_LINE=\"${COMP_WORDS[*]}\"; COMP_POINT=${#COMP_LINE}; __start_millrace 2>/dev/null; printf '%%s\\n' \"${COMPREPLY[@]%%%%  *}\"\n"+
				"[ ${#COMPREPLY[@]} -gt 0 ] || { complete -p millrace | grep -q -- '-o default' && compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"; }", quoted(words), len(words))
		}},
		"zsh": {"autoload -U compinit; compinit -D; source <(millrace completion zsh)\n" +
			"_describe() { print -l -- ${completions%%:*}; (( $#completions )) }; _arguments() { print -l -- ${words[-1]}*(N) }", func(words []string) string {
			return fmt.Sprintf("words=(millrace %s); CURRENT=%d; _millrace", quoted(words), len(words)+1)
		}},
		"fish": {"millrace completion fish | source", func(words []string) string {
			return fmt.Sprintf("complete -C 'millrace %s'", strings.Join(words, " "))
		}},
	} {
		path, err := exec.LookPath(shell)
		needs := shell
		if shell == "bash" && err == nil {
			needs = "bash-completion"
			_, err = os.Stat("/usr/share/bash-completion/bash_completion")
		}
		if err != nil {
			if slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), needs) {
				t.Errorf("%s is not installed", needs)
			}
			continue
		}
		const mark = "----" // begins the candidates of a command line
		lines := []string{script.begin}
		for _, c := range completions {
			lines = append(lines, "echo "+mark, script.ask(c.words))
		}
		cmd := command(dir, w.url, "")
		cmd.Path, cmd.Args = path, []string{shell, "-c", strings.Join(lines, "\n")}
		cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
		r := finish(t, cmd)
		answers := strings.Split(r.out, mark+"\n")[1:]
		if len(answers) != len(completions) {
			t.Fatalf("%s: got %d answers, want %d\n%s%s", shell, len(answers), len(completions), r.out, r.err)
		}
		for i, c := range completions {
			var got []string
			for line := range strings.Lines(answers[i]) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				if word != "" {
					got = append(got, word)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %q: got %q, want %q\n%s", shell, c.words, got, c.want, r.err)
			}
		}
	}
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = "'" + w + "'"
	}
	return strings.Join(all, " ")
}
