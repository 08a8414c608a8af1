package app

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/host"
)

// start runs the sample's worker until it has started, or fails, and returns all that it printed.
func start(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	p := Program()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begin := p.Start
	p.Start = func(ctx context.Context, a *host.App) error {
		defer stop()
		return begin(ctx, a)
	}
	code = host.Run(ctx, host.Process{Args: append([]string{"worker", "-admin", "off"}, args...), Stdout: &out, Stderr: &out}, p)
	return code, out.String()
}

func TestMailSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"none":           {want: "Mails go to files in data/mail. Stop with Ctrl-C.\n"},
		"a server":       {args: []string{"-smtp", "smtps://ada:hunter2@mx.example"}, want: "Mails go to smtps://mx.example:465. "},
		"links":          {args: []string{"-url", "https://tables.example.org/"}, want: "Mails go to "},
		"no address":     {args: []string{"-smtp", "mx.example"}, code: host.ExitUsage, want: ": -smtp: "},
		"two ports":      {args: []string{"-smtp", "smtps://ada:hunter2@h:465:9"}, code: host.ExitUsage, want: ": -smtp: "},
		"no web address": {args: []string{"-url", "tables.example.org"}, code: host.ExitUsage, want: "-url: "},
		"a login":        {args: []string{"-url", "https://ada:hunter2@h"}, code: host.ExitUsage, want: "-url: "},
		"both at once":   {args: []string{"-url", "x", "-smtp", "y"}, code: host.ExitUsage, want: "\n-url: "},
		"too many seats": {args: []string{"-seats", "10001"}, code: host.ExitUsage, want: "from 1 to 10000"},
	} {
		code, out := start(t, c.args...)
		if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: got exit code %d and %q, want %d, %q and no password", name, code, out, c.code, c.want)
		}
	}
}
