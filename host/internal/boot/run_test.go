package boot_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/host/internal/boot"
)

// A part whose goroutine ends without a return is an error, and stops the program.
func TestRunPartEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	for when, run := range map[string]func(context.Context) error{
		"at once":      func(context.Context) error { runtime.Goexit(); return nil },
		"in a panic":   func(context.Context) error { defer runtime.Goexit(); panic("boom") },
		"when stopped": func(ctx context.Context) error { <-ctx.Done(); runtime.Goexit(); return nil },
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var p parts
				ctx, cancel := context.WithCancelCause(t.Context())
				if when == "when stopped" {
					cancel(errors.New("signal"))
				}
				defer cancel(nil)
				err := boot.Run(ctx, boot.Part{Name: "a", Run: run}, p.part("b", nil))
				if err == nil || !strings.HasPrefix(err.Error(), "a: ") || !strings.Contains(err.Error(), "runtime.Goexit") {
					t.Errorf("got %v, want an error that names the part and what it did", err)
				}
				if !slices.Contains(p.noted, "b ends") {
					t.Errorf("the other part: got %q", p.noted)
				}
			})
		})
	}
}

// A panic of a part ends the process at once, with its stack.
func TestRunPartPanics(t *testing.T) {
	const inChild = "BOOT_TEST_PANICS"
	if os.Getenv(inChild) != "" {
		_ = boot.Run(t.Context(), boot.Part{Name: "a", Run: panics})
		return
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^TestRunPartPanics$")
	child.Env = append(os.Environ(), inChild+"=1")
	out, err := child.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "panic: boom") || !strings.Contains(string(out), "boot_test.panics(") {
		t.Errorf("got %v and\n%s\nwant a crash by the panic", err, out)
	}
}

func panics(context.Context) error { panic("boom") }
