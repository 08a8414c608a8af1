package instances

import (
	"context"
	"regexp"
	"strings"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// pathLike is a word that is a step's line, or an item of it, and not its name.
var pathLike = regexp.MustCompile(`^[0-9][0-9./~]*(#[0-9]+)?$`)

// Step finds the step that an act is for: by its line, by its name, or as the only one that is stuck.
func Step(ctx context.Context, desk *act.Desk, l *process.Looker, id, step string) (string, error) {
	if pathLike.MatchString(step) {
		return step, nil
	}
	s, err := l.Stream(ctx, id)
	if err != nil {
		return "", err
	}
	if step == "" {
		stuck := processes.Stuck(s)
		switch len(stuck) {
		case 0:
			return "", act.Nothing("no step of %s is stuck", storage.Quote(id))
		case 1:
			return stuck[0].ID, nil
		}
		var names []string
		for _, x := range stuck {
			names = append(names, x.String())
		}
		return "", act.Usage("several steps are stuck; name one of %s", strings.Join(names, ", "))
	}
	var lines []string
	run := -1
	for _, x := range s.Lines[1:] {
		if x.Name != step || x.Run < run {
			continue
		}
		if x.Run > run { // the last run counts
			run, lines = x.Run, nil
		}
		lines = append(lines, x.ID)
	}
	switch len(lines) {
	case 0:
		return "", act.Nothing("no step %s has begun in %s; %s processes show %s shows those that have", storage.Quote(step), storage.Quote(id), desk.Command, act.ShellWord(id))
	case 1:
		return lines[0], nil
	}
	return "", act.Usage("several steps have this name; name one of %s", strings.Join(lines[:min(len(lines), 10)], ", "))
}
