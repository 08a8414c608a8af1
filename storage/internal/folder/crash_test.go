package folder

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/storage/driver"
)

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	if role := os.Getenv("MILLRACE_FOLDER_CHILD"); role != "" {
		os.Exit(child(role, os.Getenv("MILLRACE_FOLDER_PATH")))
	}
	os.Exit(m.Run())
}

const (
	partSize = 70_000
	workers  = 4
)

// partBody is a part that tells its key, its number and its round, and is as long as any other.
func partBody(key string, number, round int) []byte {
	one := fmt.Sprintf("[%s %d %d]", key, number, round)
	return []byte(strings.Repeat(one, partSize/len(one)+1)[:partSize])
}

func wholeBody(key string) []byte {
	return slices.Concat(partBody(key, 1, 0), partBody(key, 2, 0), partBody(key, 3, 0))
}

func threeSizes() []int64 { return []int64{partSize, partSize, partSize} }

// child is the program of another process. It goes on until it is killed, and says what was done.
func child(role, path string) int {
	d := New(path, "")
	failed := make(chan error)
	for w := range workers {
		go func() {
			if role == "share" {
				failed <- share(d)
			} else {
				failed <- work(d, fmt.Sprintf("%d-%d", os.Getpid(), w))
			}
		}()
	}
	fmt.Println("failed", <-failed)
	return 1
}

// work makes one file after another, and copies it. It deletes every third file.
func work(d *Folder, name string) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-%d", name, i)
		for n := range 3 {
			if err := d.PutPart(ctx, "inbox", key, n+1, partSize, bytes.NewReader(partBody(key, n+1, 0))); err != nil {
				return err
			}
		}
		fmt.Println("put", key)
		info, err := d.Commit(ctx, "inbox", key, threeSizes())
		if err != nil {
			return err
		}
		fmt.Println("committed", key, info.ETag)
		copied, err := d.Copy(ctx, "inbox", key, info.ETag, "files", key)
		if err != nil {
			return err
		}
		fmt.Println("copied", key, copied.ETag)
		if i%3 == 0 {
			fmt.Println("deleting", key)
			if err := d.Delete(ctx, "inbox", key); err != nil {
				return err
			}
			fmt.Println("deleted", key)
		}
	}
}

// share does all to a few keys that others change, too.
func share(d *Folder) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		key := fmt.Sprint("key-", i%3)
		var err error
		for n := range 3 {
			err = errors.Join(err, d.PutPart(ctx, "inbox", key, n+1, partSize, bytes.NewReader(partBody(key, n+1, i%10))))
		}
		info, failed := d.Commit(ctx, "inbox", key, threeSizes())
		if err = errors.Join(err, failed); err == nil {
			_, err = d.Copy(ctx, "inbox", key, info.ETag, "files", key)
		}
		if i%5 == 0 {
			err = errors.Join(err, d.Delete(ctx, "inbox", key))
		}
		if i%7 == 0 {
			err = errors.Join(err, d.Delete(ctx, "files", key))
		}
		if err != nil && !errors.Is(err, driver.ErrPrecondition) {
			return err
		}
		fmt.Println("round", i)
	}
}

// process is a child that runs.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, role, path string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Stderr = os.Stderr
	p.cmd.Env = append(os.Environ(), "MILLRACE_FOLDER_CHILD="+role, "MILLRACE_FOLDER_PATH="+path)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// read returns the next n lines, or fewer when the process has ended.
func (p *process) read(n int) []string {
	p.t.Helper()
	var lines []string
	for len(lines) < n && p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), "failed") {
			p.t.Fatalf("the other process: %s", p.lines.Text())
		}
		lines = append(lines, p.lines.Text())
	}
	return lines
}

// kill kills the process, and returns the rest of what it said.
func (p *process) kill() []string {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	return p.read(1 << 30)
}

// A process is killed while it puts, commits, copies and deletes. All that it was told is done is done, and all can be
// done again.
func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "files")
	var said []string
	for round := range 6 {
		p := start(t, "work", path)
		said = append(said, p.read(20+37*round)...)
		said = append(said, p.kill()...)
	}
	last := map[string][]string{}
	for _, line := range said {
		words := strings.Fields(line)
		last[words[1]] = append(last[words[1]], line)
	}
	d := New(path, "")
	var all sync.WaitGroup
	for key, lines := range last {
		all.Go(func() { checkKilled(t, d, key, lines) })
	}
	all.Wait()
	t.Logf("%d files, %d lines", len(last), len(said))
}

// checkKilled looks whether what was said of a file is so, and does the rest again.
func checkKilled(t *testing.T, d *Folder, key string, lines []string) {
	ctx := t.Context()
	said := map[string]string{}
	for _, line := range lines {
		verb, rest, _ := strings.Cut(line, " ")
		_, said[verb], _ = strings.Cut(rest, " ")
	}
	_, isCopied := said["copied"]
	_, mayBeGone := said["deleting"]
	if _, gone := said["deleted"]; gone {
		if _, err := d.Stat(ctx, "inbox", key); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%s was deleted: got error %v", key, err)
		}
	}
	if isCopied {
		checkFile(t, d, "files", key, driver.ETag(said["copied"]))
	}
	if mayBeGone {
		if err := d.Delete(ctx, "inbox", key); err != nil {
			t.Errorf("delete %s again: %v", key, err)
		}
		checkNoGarbage(t, d, "inbox", key, 0)
		return
	}
	if _, ok := said["committed"]; ok {
		checkFile(t, d, "inbox", key, driver.ETag(said["committed"]))
	}
	info, err := d.Commit(ctx, "inbox", key, threeSizes())
	if err != nil {
		t.Errorf("commit %s again, after %q: %v", key, lines, err)
		return
	}
	checkFile(t, d, "inbox", key, info.ETag)
	copied, err := d.Copy(ctx, "inbox", key, info.ETag, "files", key)
	if err != nil {
		t.Errorf("copy %s again: %v", key, err)
		return
	}
	checkFile(t, d, "files", key, copied.ETag)
	checkNoGarbage(t, d, "inbox", key, 3)
	checkNoGarbage(t, d, "files", key, 3)
}

func checkFile(t *testing.T, d *Folder, container, key string, etag driver.ETag) {
	want := wholeBody(key)
	r, err := d.Open(t.Context(), container, key, etag, 0, int64(len(want)))
	if err != nil {
		t.Errorf("open %s of %s: %v", key, container, err)
		return
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s of %s has %d bytes, error %v; or other bytes than those %d that were put", key, container, len(got), err, len(want))
	}
}

// checkNoGarbage looks whether a key has its parts and the manifest, and nothing else.
func checkNoGarbage(t *testing.T, d *Folder, container, key string, parts int) {
	entries, err := os.ReadDir(filepath.Join(d.disk.path, placeOf(container, key).dir))
	if parts == 0 && errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil || len(entries) != parts+1 {
		t.Errorf("%s of %s has %v, error %v; want a manifest and %d parts", key, container, entries, err, parts)
	}
}

// Processes that share keys are killed. Whatever file is there then is whole.
func TestKilledProcessesThatShareKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "files")
	for range 3 {
		a, b := start(t, "share", path), start(t, "share", path)
		a.read(25)
		b.read(25)
		a.kill()
		b.kill()
	}
	d := New(path, "")
	found := 0
	for i := range 3 {
		for _, container := range []string{"inbox", "files"} {
			key := fmt.Sprint("key-", i)
			info, err := d.Stat(t.Context(), container, key)
			if errors.Is(err, driver.ErrNotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			found++
			checkParts(t, d, container, key, info)
		}
	}
	t.Logf("%d files were left", found)
}

func checkParts(t *testing.T, d *Folder, container, key string, info driver.FileInfo) {
	t.Helper()
	r, err := d.Open(t.Context(), container, key, info.ETag, 0, info.Size)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || len(got) != 3*partSize {
		t.Fatalf("%s of %s: %d bytes, error %v", key, container, len(got), err)
	}
	for n := range 3 {
		part, ok := got[n*partSize:(n+1)*partSize], false
		for round := range 10 {
			ok = ok || bytes.Equal(part, partBody(key, n+1, round))
		}
		if !ok {
			t.Errorf("%s of %s: part %d is none that was put", key, container, n+1)
		}
	}
}
