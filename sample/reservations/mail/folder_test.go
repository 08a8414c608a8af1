package mail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/sample/reservations/mail"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFolderWritesAMail(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "itself")
	m := confirmation()
	if err := mail.NewFolder(dir).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := names(t, dir)
	if len(got) != 1 || got[0] != m.MessageID+".eml" {
		t.Fatalf("got files %q, want %s.eml", got, m.MessageID)
	}
	text := read(t, dir, got[0])
	if h := parse(t, text).Header; h.Get("Subject") != m.Subject || h.Get("To") != "<"+m.To+">" {
		t.Errorf("got\n%s\nwant subject %q to %q", text, m.Subject, m.To)
	}
	if !strings.Contains(text, "we look forward") {
		t.Errorf("got\n%s\nwant the text", text)
	}
	info, err := os.Stat(filepath.Join(dir, got[0]))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %v, want -rw-------: mails are personal", got)
	}
}

func TestFolderRepeatReplaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mail.NewFolder(dir)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			m := confirmation()
			m.Text = fmt.Sprintf("attempt %d", i)
			if err := f.Send(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := names(t, dir)
	if len(got) != 1 {
		t.Fatalf("got files %q, want one", got)
	}
	if text := read(t, dir, got[0]); !strings.Contains(text, "attempt ") {
		t.Errorf("got\n%s\nwant one attempt, whole", text)
	}
}

func TestFolderNastyIDs(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "mail")
	f := mail.NewFolder(dir)
	ids := []string{"../escape", "/etc/escape", "..", ".", "a/b", `a\b`, "a\x00b", "CON", "a:b", "ABC", "abc", "\u00e9", "e\u0301", strings.Repeat("x", 4096), "\xff", "-rf", "~", "*", " ",
		"01935C3E-0000-7000-8000-000000000001", "01935c3e-0000-7000-8000-000000000001"}
	for _, id := range ids {
		m := confirmation()
		m.MessageID = id
		if err := f.Send(t.Context(), m); err != nil {
			t.Errorf("%.20q: %v", id, err)
		}
	}
	lower := map[string]bool{}
	for _, n := range names(t, dir) {
		lower[strings.ToLower(n)] = true
	}
	if len(lower) != len(ids) {
		t.Errorf("got %d files for %d IDs, want one each, also where case doesn't count: %v", len(lower), len(ids), lower)
	}
	if got := names(t, parent); len(got) != 1 {
		t.Errorf("got %q beside the folder, want nothing", got)
	}
	m := confirmation()
	m.MessageID = ""
	if err := f.Send(t.Context(), m); err == nil {
		t.Error("no ID: got nil, want an error")
	}
}

// A later start removes what a crash has left, once no process can still be writing it.
func TestFolderIsTidied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long, now := time.Now().Add(-2*time.Hour), time.Now()
	for name, written := range map[string]time.Time{".writing-1": long, ".writing-2": now, "old.eml": long, "somebody's file": long} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	mail.NewFolder(dir)
	if got, want := names(t, dir), []string{".writing-2", "old.eml", "somebody's file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	none := filepath.Join(dir, "none")
	mail.NewFolder(none)
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no folder before the first mail", err)
	}
}

// A symbolic link in the file's place is replaced, not followed.
func TestFolderFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), confirmation()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, m.MessageID+".eml")); err != nil {
		t.Fatal(err)
	}
	if err := mail.NewFolder(dir).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Dir(outside), "outside"); got != "untouched" {
		t.Errorf("got %q, want the file outside untouched", got)
	}
}

func TestFolderBlocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mail.NewFolder(file).Send(t.Context(), confirmation()); err == nil || errors.Is(err, mail.ErrRefused) {
		t.Errorf("a file where the folder should be: got %v, want an error that another attempt may repair", err)
	}
	// A folder in the file's place is an error, and nothing half-written stays behind.
	blocked := filepath.Join(dir, "blocked")
	if err := os.MkdirAll(filepath.Join(blocked, confirmation().MessageID+".eml", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mail.NewFolder(blocked).Send(t.Context(), confirmation()); err == nil {
		t.Error("a folder where the file should be: got nil, want an error")
	}
	if got := names(t, blocked); len(got) != 1 {
		t.Errorf("got %q, want no temporary file left", got)
	}
}

func TestFolderCancelled(t *testing.T) {
	t.Parallel()
	stop := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	dir := filepath.Join(t.TempDir(), "mail")
	if err := mail.NewFolder(dir).Send(ctx, confirmation()); !errors.Is(err, stop) {
		t.Errorf("got %v, want the context's cause", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want nothing done", err)
	}
}
