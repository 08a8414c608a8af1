package settings_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain runs the test binary as a node when a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_SETTINGS_CHILD"); path != "" {
		if err := child(context.Background(), path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// realStages bake for long enough that a dead node is known to be dead before the next stage, also on a slow machine.
var realStages = []settings.Stage{{Percent: 20, Bake: 20 * time.Second}, {Percent: 100, Bake: 2 * time.Second}}

// child is a node until somebody kills it.
func child(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	_, err = settings.Open(ctx, s, name, defaults(), settings.Config{
		Name: fmt.Sprint(os.Getpid()), Poll: 4 * time.Second, Stages: realStages, Cache: fmt.Sprintf("%s.%d.settings", path, os.Getpid()),
	})
	if err != nil {
		return err
	}
	select {}
}

// A herd are nodes that are real processes on one file.
type herd struct {
	t      *testing.T
	store  *storage.Store
	ledger *settings.Ledger
	all    map[string]*exec.Cmd // by the node's name
}

func newHerd(t *testing.T, n int) *herd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := sqlite.Open(t.Context(), path)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	h := &herd{t: t, store: s, ledger: ledger(t, s), all: map[string]*exec.Cmd{}}
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), "MILLRACE_SETTINGS_CHILD="+path), os.Stderr
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		h.all[fmt.Sprint(cmd.Process.Pid)] = cmd
	}
	h.until("all nodes are there", func(nodes []settings.Node, _ settings.Current) bool { return len(nodes) == n })
	return h
}

// until waits until something is true of the rows and the document.
func (h *herd) until(what string, is func(nodes []settings.Node, c settings.Current) bool) {
	h.t.Helper()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for limit := time.Now().Add(2 * time.Minute); ; <-look.C {
		nodes, err := h.ledger.Nodes(h.t.Context())
		must(h.t, err)
		c := current(h.t, h.store)
		switch {
		case is(nodes, c):
			return
		case time.Now().After(limit):
			h.t.Fatalf("not until now: %s; %+v, rollout %+v, nodes %+v", what, c, c.Rollout, nodes)
		}
	}
}

// begin begins a roll-out, and returns its version, its canary and its driver, once somebody drives it and the canary
// runs it.
func (h *herd) begin(seatsNow int) (version int64, canary, driver string) {
	h.t.Helper()
	e, err := h.ledger.Set(h.t.Context(), ada, settings.Patch{Set: map[string]jsonText{"seats": jsonText(fmt.Sprint(seatsNow))}})
	must(h.t, err)
	if e.Result != settings.Rolling {
		h.t.Fatalf("got %+v", e)
	}
	h.until("the roll-out bakes", func(nodes []settings.Node, c settings.Current) bool {
		if c.Rollout == nil || c.Rollout.Baked == 0 {
			return false
		}
		var doc struct {
			Candidate struct{ Roll struct{ Driver string } }
		}
		blob, err := h.store.Blobs("settings").Get(h.t.Context(), "shop/current", "")
		must(h.t, err)
		must(h.t, json.Unmarshal(blob.Body, &doc))
		for _, n := range nodes {
			if n.Version == e.Version {
				canary = n.Name
			}
			if n.ID == doc.Candidate.Roll.Driver {
				driver = n.Name
			}
		}
		return canary != "" && driver != ""
	})
	return e.Version, canary, driver
}

// kill kills a node by SIGKILL.
func (h *herd) kill(name string) {
	h.t.Helper()
	must(h.t, h.all[name].Process.Kill())
	_ = h.all[name].Wait()
	delete(h.all, name)
}

// ended waits for the end of a version, and for all nodes to run one.
func (h *herd) ended(version int64, want settings.Result, runs int64) {
	h.t.Helper()
	h.until(fmt.Sprintf("version %d is %s, and version %d runs", version, want, runs), func(nodes []settings.Node, c settings.Current) bool {
		if c.Rollout != nil {
			return false
		}
		if e := c.Ended[0]; e.Version != version || e.Result != want {
			h.t.Fatalf("got %+v, want version %d to be %s", e, version, want)
		}
		return len(nodes) == len(h.all) && !slices.ContainsFunc(nodes, func(n settings.Node) bool { return n.Version != runs })
	})
}

// The process that drives a roll-out is killed. Another one brings it to its end. Then one is killed that runs a change
// within its bake, and the others take that back.
func TestProcessesThatAreKilled(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	h := newHerd(t, 5)
	version, canary, driver := h.begin(60)
	for seatsNow := 61; driver == canary; seatsNow++ { // chance lets a canary drive: its death is something else
		_, err := h.ledger.Back(t.Context(), -1, ada)
		must(t, err)
		version, canary, driver = h.begin(seatsNow)
	}
	h.kill(driver)
	h.ended(version, settings.InForce, version)

	bad, canary, _ := h.begin(80)
	h.kill(canary)
	h.ended(bad, settings.RolledBack, version)
}
