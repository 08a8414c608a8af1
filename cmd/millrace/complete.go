package main

import (
	"context"
	"flag"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/handlers"
	boot "github.com/millrace-go/millrace/host/bridge"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/sample/reservations"
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
	c.out.printf("%s", script)
	return nil
}

const bashScript = `# bash completion of millrace
_millrace() {
	local word about
	COMPREPLY=()
	while IFS=$'\t' read -r word about; do
		COMPREPLY+=("$(printf %q "$word")")
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _millrace millrace
`

const zshScript = `#compdef millrace
_millrace() {
	local line
	local -a candidates
	for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( $#candidates )); then
		_describe millrace candidates
	else
		_files
	fi
}
if [[ ${funcstack[1]} == _millrace ]]; then
	_millrace
else
	compdef _millrace millrace
fi
`

const fishScript = `# fish completion of millrace
function __millrace
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	$words[1] __complete $words[2..-1] "$word" 2>/dev/null
end
complete -c millrace -f -a '(__millrace)'
complete -c millrace -n 'not count (__millrace) >/dev/null' -F
`

// completeWords answers the scripts.
func completeWords(_ context.Context, c *call) error {
	if len(c.args) == 0 {
		return nil
	}
	last := len(c.args) - 1
	typed := strings.ReplaceAll(c.args[last], `\`, "") // bash passes blanks as they are typed
	for _, x := range candidates(c.args[:last], typed) {
		if strings.HasPrefix(x[0], typed) {
			c.out.printf("%s\t%s\n", x[0], x[1])
		}
	}
	return nil
}

// candidates are the words that may follow some words, each with what it is about.
func candidates(before []string, typed string) (all [][2]string) {
	v, n := find(before)
	if v == nil {
		return nextWords(before, n)
	}
	if v.name == hiddenVerb {
		return nil
	}
	set := v.newFlags(&options{})
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
				return plain(flagWords(name))
			}
		}
	}
	if strings.HasPrefix(typed, "-") {
		set.VisitAll(func(f *flag.Flag) {
			_, usage := flag.UnquoteUsage(f)
			all = append(all, [2]string{"-" + f.Name, usage})
		})
		return all
	}
	if v.words != nil {
		return plain(v.words(args))
	}
	return nil
}

// nextWords are the next words of the verbs that begin with all of some words.
func nextWords(words []string, n int) (all [][2]string) {
	if n < len(words) {
		return nil
	}
	for _, v := range verbs() {
		name := strings.Fields(v.name)
		if v.name == hiddenVerb || len(name) <= n || !slices.Equal(name[:n], words) {
			continue
		}
		about := v.about
		if len(name) > n+1 {
			about = strings.Join(startingWith(name[:n+1]), ", ")
		}
		if next := [2]string{name[n], about}; !slices.Contains(all, next) {
			all = append(all, next)
		}
	}
	return all
}

// flagWords are the values that a flag may have, as far as they are known without a store.
func flagWords(name string) []string {
	routes, err := reservations.Routes()
	if err != nil {
		return nil
	}
	switch name {
	case "queue":
		return routes.Queues()
	case "kind":
		var kinds []string
		for _, q := range routes.Queues() {
			for _, k := range routes.Kinds(q) {
				kinds = append(kinds, string(k))
			}
		}
		slices.Sort(kinds)
		return slices.Compact(kinds)
	case "reason":
		return []string{handlers.ReasonUndecodable, handlers.ReasonUnknownKind, handlers.ReasonAttempts, handlers.ReasonDeliveries,
			handlers.ReasonContentDiffers, handlers.ReasonTooOld, handlers.ReasonDataLost, handlers.ReasonBadKey, boot.ReasonMailRefused, poison.ReasonUnreadable}
	}
	return nil
}

func plain(words []string) (all [][2]string) {
	for _, w := range words {
		all = append(all, [2]string{w, ""})
	}
	return all
}
