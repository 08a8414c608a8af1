package operator

import (
	"context"
	"flag"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/poison"
)

// hiddenVerb is the verb that the shells' scripts call. Its arguments are the words of a command line; the last one
// is still being typed. It prints the candidates for that word, each with a tab and what it is about, or nothing
// where the word may be a file.
const hiddenVerb = "__complete"

func shells() []string { return []string{"bash", "zsh", "fish"} }

// completion prints the script for a shell.
func completion(_ context.Context, c *call) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.args[0]]
	if script == "" {
		return usage("completion: unknown shell %s; want one of %s", boot.Word(c.args[0]), strings.Join(shells(), ", "))
	}
	c.out.printf("%s", strings.NewReplacer("COMMAND", c.Command, "FUNCTION", strings.ReplaceAll(c.Command, "-", "_")).Replace(script))
	return nil
}

const bashScript = `# bash completion of COMMAND
_FUNCTION() {
	local word about
	COMPREPLY=()
	while IFS=$'\t' read -r word about; do
		COMPREPLY+=("$(printf %q "$word")")
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _FUNCTION COMMAND
`

const zshScript = `#compdef COMMAND
_FUNCTION() {
	local line
	local -a candidates
	for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( $#candidates )); then
		_describe COMMAND candidates
	else
		_files
	fi
}
if [[ ${funcstack[1]} == _FUNCTION ]]; then
	_FUNCTION
else
	compdef _FUNCTION COMMAND
fi
`

const fishScript = `# fish completion of COMMAND
function __FUNCTION
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	$words[1] __complete $words[2..-1] "$word" 2>/dev/null
end
complete -c COMMAND -f -a '(__FUNCTION)'
complete -c COMMAND -n 'not count (__FUNCTION) >/dev/null' -F
`

// completeWithin bounds the reading of a store that may be distant.
const completeWithin = 3 * time.Second

// completeWords answers the scripts. Words that depend on the store are offered if it can be read soon.
func completeWords(ctx context.Context, c *call) error {
	if len(c.args) == 0 {
		return nil
	}
	last := len(c.args) - 1
	typed := strings.ReplaceAll(c.args[last], `\`, "") // bash passes blanks as they are typed
	all, needed := c.candidates(c.args[:last], typed)
	if needed {
		ctx, cancel := context.WithTimeout(ctx, completeWithin)
		defer cancel()
		c.options.store = storeOf(c.args[:last])
		if c.open(ctx, c.process) == nil {
			defer func() { _ = c.store.Close() }() // nobody could read an error
			if v, _ := c.find(c.args[:last]); v != nil && v.names != nil {
				c.known.names = v.names(ctx, c)
			}
			all, _ = c.candidates(c.args[:last], typed)
		}
	}
	for _, x := range all {
		if strings.HasPrefix(x[0], typed) {
			c.out.printf("%s\t%s\n", boot.Clean(x[0]), boot.Clean(x[1]))
		}
	}
	return nil
}

// storeOf returns the store that a command line names, or "".
func storeOf(words []string) string {
	for i, w := range words {
		name, value, both := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(w, "-"), "-"), "=")
		switch {
		case w == name || name != "store":
		case both && value != "":
			return value
		case i+2 < len(words) && words[i+1] == "=": // bash makes the = a word of its own
			return words[i+2]
		case i+1 < len(words):
			return words[i+1]
		}
	}
	return ""
}

// candidates are the words that may follow some words, each with what it is about. needed tells that some of them are
// known only once the store is open.
func (c *call) candidates(before []string, typed string) (all [][2]string, needed bool) {
	v, n := c.find(before)
	if v == nil {
		return c.nextWords(before, n), false
	}
	if v.name == hiddenVerb {
		return nil, false
	}
	set, words := v.newFlags(&options{}), before
	before = slices.DeleteFunc(slices.Clone(before[n:]), func(s string) bool { return s == "=" }) // bash makes the = a word of its own
	args := 0
	for i := 0; i < len(before); i++ {
		name, isFlag := strings.CutPrefix(strings.TrimPrefix(before[i], "-"), "-")
		isFlag = isFlag || strings.HasPrefix(before[i], "-")
		f := set.Lookup(name)
		switch {
		case !isFlag:
			args++
		case f != nil && flagValue(f, "value") != "":
			if i++; i == len(before) {
				return plain(c.flagWords(name)), name == "queue" || name == "kind" || name == "plan"
			}
		}
	}
	if strings.HasPrefix(typed, "-") {
		set.VisitAll(func(f *flag.Flag) {
			_, usage := flag.UnquoteUsage(f)
			all = append(all, [2]string{"-" + f.Name, usage})
		})
		return all, false
	}
	all = c.nextWords(words, n) // of a verb that is one word of two
	if v.words != nil {
		return append(all, plain(v.words(c, args))...), v.store && args < v.most
	}
	return all, false
}

// nextWords are the next words of the verbs that begin with all of some words.
func (t tool) nextWords(words []string, n int) (all [][2]string) {
	if n < len(words) {
		return nil
	}
	for _, v := range t.Others {
		if len(words) == 0 && v[0] != "" {
			all = append(all, v)
		}
	}
	for _, v := range t.verbs() {
		name := strings.Fields(v.name)
		if v.name == hiddenVerb || len(name) <= n || !slices.Equal(name[:n], words) {
			continue
		}
		about := v.about
		if len(name) > n+1 {
			about = strings.Join(slices.DeleteFunc(t.startingWith(name[:n+1]), func(s string) bool { return s == name[n] }), ", ")
		}
		if !slices.ContainsFunc(all, func(x [2]string) bool { return x[0] == name[n] }) { // spool alone is a verb, too
			all = append(all, [2]string{name[n], about})
		}
	}
	return all
}

// flagWords are the values that a flag may have, as far as they are known.
func (c *call) flagWords(name string) []string {
	switch name {
	case "queue":
		return slices.Sorted(maps.Keys(c.known.queues))
	case "kind":
		return c.known.kinds()
	case "plan":
		return c.known.plans()
	case "status":
		return statuses()
	case "reason":
		return []string{handlers.ReasonUndecodable, handlers.ReasonRefused, handlers.ReasonUnknownKind, handlers.ReasonAttempts, handlers.ReasonHangs, handlers.ReasonDeliveries,
			handlers.ReasonContentDiffers, handlers.ReasonTooOld, handlers.ReasonDataLost, handlers.ReasonBadKey, handlers.ReasonOutcomeUnknown, poison.ReasonUnreadable}
	}
	return nil
}

func plain(words []string) (all [][2]string) {
	for _, w := range words {
		all = append(all, [2]string{w, ""})
	}
	return all
}
