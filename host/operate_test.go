package host_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
)

// A worker publishes what its program knows, and the program's own binary has the operator's verbs, with its code and
// its settings from the environment.
func TestOperatorsVerbs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	getenv := func(name string) string {
		return map[string]string{"MILLRACE_STORE": "sqlite:" + file, "MILLRACE_ADMIN": "off", "SHOP_LIMIT": "7"}[name]
	}
	p := shop()
	p.Version = "1.2.3"
	var limit *int
	p.Flags = func(f *host.Flags) { limit = f.Int("limit", 1, 1, 9, "a LIMIT") }
	p.Register = func(h *handlers.Registry) error {
		if *limit != 7 {
			return errors.New("the setting is not read")
		}
		return register(h)
	}
	p.Rebuild = map[string]host.Rebuild{"shelves": {From: "orders", Run: func(context.Context, *channel.Channels) (int, error) { return 3, nil }}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- host.Run(ctx, host.Process{Args: []string{"worker"}, Getenv: getenv}, p)
	}()
	s := worldtest.OpenAt(t, file)
	worldtest.Eventually(t, func() error {
		all, err := catalog.Read(t.Context(), s)
		if err == nil && (len(all) != 1 || !all[0].Consumes("orders")) {
			err = errors.New("nothing is published yet")
		}
		return err
	})
	stop()
	if code := <-ended; code != host.ExitOK {
		t.Errorf("the worker ended with %d", code)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"queues", 0, "shop 1.2.3"},
		{"queues -json", 0, `"consumers":[{"program":"shop","version":"1.2.3"`},
		{"doctor", 0, "Nothing is wrong."},
		{"views rebuild shelves", 0, "Rebuilt shelves from 3 values."},
		{"help poison retry", 0, "Usage:\n  shop poison retry [flags]"},
		{"poison -help", 0, "shop poison [command] --help"},
		{"help", 0, "shop doctor      find out what is wrong"},
		{"completion bash", 0, "__start_shop shop"},
		{"__complete w", 0, "web\t"},
		{"__complete poison l", 0, "list\t"},
		{"poison nope", 2, "unknown verb poison"},
	} {
		var out bytes.Buffer
		if code := host.Run(t.Context(), host.Process{Args: strings.Fields(c.args), Getenv: getenv, Stdout: &out, Stderr: &out}, p); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("shop %s: got exit code %d and\n%s\nwant %d and %q", c.args, code, &out, c.code, c.want)
		}
	}
}

// A variable from a file may have a line break at its end, and no shell replaces a ~ in it. Programs and verbs take it
// alike: the one is no part of the name, and the other makes no file.
func TestAStoreThatWasMistypedIsTheSameForProgramsAndVerbs(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(store string, args ...string) (int, string) {
		out := newOutput()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan int, 1)
		getenv := func(name string) string {
			return map[string]string{"MILLRACE_STORE": store, "MILLRACE_ADDR": "127.0.0.1:0\n"}[name]
		}
		go func() {
			ended <- host.Run(ctx, host.Process{Args: args, Getenv: getenv, Stdout: out, Stderr: out}, renting())
		}()
		if len(args) == 0 && !strings.Contains(store, "~") {
			out.line(t, "http://")
			cancel()
		}
		return <-ended, out.String()
	}
	for _, args := range [][]string{nil, {"queues"}, {"doctor"}} {
		if code, out := run("sqlite:~/x.db\n", args...); code != host.ExitUsage || !strings.Contains(out, `path "~/x.db" begins with a ~, which only a shell replaces`) {
			t.Errorf("%q: got exit code %d and %s", args, code, out)
		}
		if code, out := run("sqlite:data/x.db\n", args...); code == host.ExitUsage || code == host.ExitError {
			t.Errorf("%q: got exit code %d and %s, want the store data/x.db", args, code, out)
		}
	}
	made, err := filepath.Glob("*")
	if err != nil || !slices.Equal(made, []string{"data"}) {
		t.Errorf("got %q, error %v; want the folder data alone", made, err)
	}
	if made, err = filepath.Glob("data/*.db*"); err != nil || len(made) == 0 || made[0] != "data/x.db" {
		t.Errorf("got %q, error %v; want data/x.db", made, err)
	}
}
