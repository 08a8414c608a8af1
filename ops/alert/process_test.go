//go:build unix

package alert_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_ALERT_STORE"); path != "" {
		if err := child(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is another process. It prints what its hook is told, until standard input ends. It has the shortest term.
func child(path string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // a pipe of the test
		stop()
	}()
	fmt.Println("stands")
	hook := func(_ context.Context, a alert.Alert) error {
		fmt.Println(a.Finding.About, "over:", a.Over)
		return nil
	}
	err = alert.RunAt(ctx, alert.Config{Store: s, Name: "shop", Hook: hook}, 100*time.Millisecond, 3*time.Second)
	return errors.Join(err, s.Close())
}

// A leader that is killed is followed by a process that tells the end of what the first one has told, and no beginning.
func TestLawAKilledLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := worldtest.OpenAt(t, path)
	damage(t, s, "season")
	a := agreetest.Start(t, "MILLRACE_ALERT_STORE="+path)
	a.Says("stands")
	a.Says("season over: false")
	b := agreetest.Start(t, "MILLRACE_ALERT_STORE="+path)
	b.Says("stands")
	worldtest.Eventually(t, func() error { // a process that dies before that may be repeated
		x, err := s.Blobs("alerts").Get(t.Context(), "shop", "")
		if err == nil && !strings.Contains(string(x.Body), `"told":true`) {
			err = errors.New("the store doesn't know that the alert was told")
		}
		return err
	})
	a.Signal(syscall.SIGKILL)
	mend(t, s, "season")
	b.Says("season over: true")
	damage(t, s, "other")
	b.Says("other over: false")
	if rest := b.Stop(); len(rest) > 0 {
		t.Errorf("the second process told %q, too", rest)
	}
}
