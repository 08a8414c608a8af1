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

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"none":           {want: "Mails go to files in data/mail. A day begins at midnight in "},
		"a zone":         {args: []string{"-zone", "Europe/Berlin"}, want: "A day begins at midnight in Europe/Berlin. Stop with Ctrl-C.\n"},
		"no place":       {args: []string{"-zone", "Berlin"}, code: host.ExitUsage, want: "-zone: want a time zone such as Europe/Berlin"},
		"forgets early":  {args: []string{"-retention", "30"}, code: host.ExitUsage, want: "from 31 to 3650"},
		"a server":       {args: []string{"-smtp", "smtps://ada:hunter2@mx.example"}, want: "Mails go to smtps://mx.example:465. "},
		"links":          {args: []string{"-url", "https://tables.example.org/"}, want: "Mails go to "},
		"no address":     {args: []string{"-smtp", "mx.example"}, code: host.ExitUsage, want: ": -smtp: "},
		"two ports":      {args: []string{"-smtp", "smtps://ada:hunter2@h:465:9"}, code: host.ExitUsage, want: ": -smtp: "},
		"no web address": {args: []string{"-url", "tables.example.org"}, code: host.ExitUsage, want: "-url: "},
		"a login":        {args: []string{"-url", "https://ada:hunter2@h"}, code: host.ExitUsage, want: "-url: "},
		"alerts":         {args: []string{"-alerts", "ops@example.org"}, want: "What is wrong with the store is mailed to the operator."},
		"no operator":    {args: []string{"-alerts", "Ada <ops@example.org>"}, code: host.ExitUsage, want: "-alerts: want an e-mail address"},
		"both at once":   {args: []string{"-url", "x", "-smtp", "y"}, code: host.ExitUsage, want: "\n-url: "},
		"too many seats": {args: []string{"-seats", "10001"}, code: host.ExitUsage, want: "from 1 to 10000"},
		"few mails":      {args: []string{"-mail-rate", "11"}, code: host.ExitUsage, want: "-mail-rate: "},
		"mails":          {args: []string{"-mail-rate", "12"}, want: "Mails go to "},
		"a season":       {args: []string{"-season", "2027", "-season-opens", "2026-12-01T10:00:00+01:00"}, want: "Mails go to "},
		"a far season":   {args: []string{"-season", "9998"}, code: host.ExitUsage, want: "-season: want 0, or a year from 2000 to "},
		"a past century": {args: []string{"-season", "-1"}, code: host.ExitUsage, want: "-season"},
		"no season":      {args: []string{"-season-opens", "2026-12-01T10:00:00+01:00"}, code: host.ExitUsage, want: "-season-opens: want -season, too"},
		"no zone":        {args: []string{"-season", "2027", "-season-opens", "2026-12-01T10:00:00"}, code: host.ExitUsage, want: "-season-opens: want a time like 2026-12-01T10:00:00+01:00"},
		"a day":          {args: []string{"-season", "2027", "-season-opens", "1 December"}, code: host.ExitUsage, want: "-season-opens: want a time like"},
		"opens too late": {args: []string{"-season", "2027", "-season-opens", "2028-01-01T10:00:00Z"}, code: host.ExitUsage, want: "-season-opens: want a time before the end"},
		"opens at zero":  {args: []string{"-season", "2027", "-season-opens", "0001-01-01T00:00:00Z"}, code: host.ExitUsage, want: "at most ten years before it"},
	} {
		code, out := start(t, c.args...)
		if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: got exit code %d and %q, want %d, %q and no password", name, code, out, c.code, c.want)
		}
	}
}
