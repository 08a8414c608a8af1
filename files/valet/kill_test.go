//go:build unix

package valet_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// A client, a web and a worker are killed at random moments while a file of many parts comes, five times in all. The
// file becomes clean all the same, and its subscriber is told once.
//
// MILLRACE_UPLOAD_SIZE is how many bytes the file has, and MILLRACE_SEED decides the moments.
func TestUploadSurvivesKills(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the messages of killed workers are visible again, several seconds")
	}
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		parttest.InTurn(t)
		t.Parallel()
		dir, size := t.TempDir(), int64(100<<20)
		if text := os.Getenv("MILLRACE_UPLOAD_SIZE"); text != "" {
			var err error
			if size, err = strconv.ParseInt(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		k := newKilling(t, dir, "sqlite:"+filepath.Join(dir, "k.db"), size)
		k.run()
		k.wantFolder(filepath.Join(dir, "k.db-files"))
	})
	// With the account's key: a program takes no other credential that this Azurite would know.
	t.Run("azure", func(t *testing.T) {
		parttest.InTurn(t)
		t.Parallel()
		newKilling(t, t.TempDir(), "azure:"+azuretest.Place(t, azurite, azure.Wipe), 20<<20).run()
	})
}

// A killing is one run of the test.
type killing struct {
	t      *testing.T
	dir    string
	url    string // of the store
	random *rand.Rand

	store    *storage.Store
	channels *channel.Channels
	v        *valet.Valet
	key      valet.Key
	size     int64

	now   map[string]*boottest.Program
	all   []*boottest.Program
	kills []string
}

func newKilling(t *testing.T, dir, url string, size int64) *killing {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MILLRACE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MILLRACE_SEED=%d", seed)
	k := &killing{t: t, dir: dir, url: url, size: size, random: rand.New(rand.NewPCG(seed, 0)), now: map[string]*boottest.Program{}}
	var err error
	if k.store, k.channels, err = openWorld(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.store.Close() })
	large := map[string]valet.Rules{"any": {MaxSize: size}}
	if k.v, err = valet.New(k.channels, valet.Config{Rules: large}); err != nil {
		t.Fatal(err)
	}
	if k.key, err = k.v.Upload(t.Context(), valet.Upload{Rule: "any", Owner: "ada", Name: "film.bin", Type: "application/octet-stream", Size: size, For: "a test"}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(k.key)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, keyFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// run uploads the file, kills, and looks at what has become of it.
func (k *killing) run() {
	began := time.Now()
	for _, child := range []string{"web", "worker", "client"} {
		k.start(child)
	}
	first := []string{"client", "web"}
	k.random.Shuffle(2, func(i, j int) { first[i], first[j] = first[j], first[i] })
	for i, child := range first {
		// In the first and in the second third of the upload.
		k.await(func() bool { return k.parts() >= 1+(i*k.key.Parts+k.random.IntN(max(1, k.key.Parts)))/3 })
		k.kill(child, 10*time.Millisecond)
	}
	k.await(func() bool { return k.parts() == k.key.Parts || k.state() != valet.StateGranted })
	k.kill("web", 20*time.Millisecond) // just when the client completes
	k.await(func() bool { return k.state() != valet.StateGranted })
	k.kill("worker", 100*time.Millisecond) // just when it checks
	k.await(func() bool {
		return k.state() == valet.StateClean || strings.Contains(k.now["worker"].Output(), "scan\n")
	})
	k.kill("worker", 50*time.Millisecond) // just when it scans, copies or settles
	if code := k.now["client"].Wait(k.t); code != 0 {
		k.t.Fatalf("the client has ended with %d", code)
	}
	k.t.Logf("%d bytes in %d parts, clean after %v, killed: %s", k.size, k.key.Parts, time.Since(began).Round(time.Millisecond), strings.Join(k.kills, "; "))
	k.quiet()
	k.audit()
}

func (k *killing) start(child string) {
	p := boottest.Start(k.t, os.Args[0], k.dir, []string{childVar + "=" + child, storeVar + "=" + k.url})
	k.now[child], k.all = p, append(k.all, p)
}

// kill kills a child some time later, and starts the next one at once.
func (k *killing) kill(child string, within time.Duration) {
	k.t.Helper()
	<-time.After(time.Duration(k.random.Int64N(int64(within))))
	parts, state := k.parts(), k.state()
	k.now[child].Signal(k.t, syscall.SIGKILL)
	k.now[child].Wait(k.t)
	k.kills = append(k.kills, fmt.Sprintf("%s (%d of %d parts, %s)", child, parts, k.key.Parts, state))
	k.start(child)
}

// await waits until something is so.
func (k *killing) await(so func() bool) {
	k.t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for late := time.After(2*time.Minute + time.Duration(k.size/(10<<20))*time.Second); !so(); { // 10 MiB/s is slow
		select {
		case <-look.C:
		case <-late:
			k.t.Fatalf("nothing has happened for long; the file is %s, with %d of %d parts", k.state(), k.parts(), k.key.Parts)
		}
	}
}

// parts is how many parts are in the inbox.
func (k *killing) parts() int {
	parts, err := k.store.Files("file-inbox").Parts(k.t.Context(), k.key.ID)
	if err != nil {
		k.t.Logf("parts: %v", err) // a busy store
	}
	return len(parts)
}

func (k *killing) state() valet.State {
	f, err := k.v.File(k.t.Context(), k.key.ID)
	if err != nil {
		k.t.Logf("file: %v", err) // a busy store
	}
	return f.State
}

// quiet waits until no queue has had a message for as long as messages of a killed worker may be hidden.
func (k *killing) quiet() {
	k.t.Helper()
	since := time.Now()
	k.await(func() bool {
		for _, q := range k.channels.Routes().Queues() {
			if st, err := k.store.Queue(q).Stats(k.t.Context()); err != nil || st.Ready > 0 || st.InFlight > 0 {
				since = time.Now()
			}
		}
		return time.Since(since) > 2*hidden
	})
}

// audit looks at all that the upload has left.
func (k *killing) audit() {
	k.t.Helper()
	ctx, sum := k.t.Context(), sumOfParts(k.size, k.key.PartSize)
	f, err := k.v.File(ctx, k.key.ID)
	if err != nil || f.State != valet.StateClean || f.SHA256 != sum {
		k.t.Errorf("the file is %+v (%v); want a clean one with %s", f, err, sum)
	}
	told, err := tellers(k.channels).Get(ctx, k.key.ID, "")
	if err != nil || !slices.Equal(told.Value.Events, []string{"uploaded " + sum}) {
		k.t.Errorf("the subscriber was told %q (%v), want one event", told.Value.Events, err)
	}
	if got := k.download(); got != sum {
		k.t.Errorf("a download has the digest %s, want %s", got, sum)
	}
	if n := k.parts(); n > 0 {
		k.t.Errorf("the inbox has %d parts", n)
	}
	acts := map[string]int{}
	for e, err := range valet.Log(k.store).List(ctx, time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour)) {
		if err != nil {
			k.t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(e), "v1.") {
			k.t.Errorf("a row has a key: %+v", e)
		}
		acts[e.Act]++
	}
	if acts["files issue"] != 2 || acts["files renew"] < 1 || acts["files complete"] < 1 || acts["files use"] != 1 {
		k.t.Errorf("the audit log has %v; want two keys, and each use of them", acts)
	}
	for _, p := range k.all {
		if strings.Contains(p.Output(), "v1.") {
			k.t.Error("a process has printed a key")
		}
	}
}

// download returns the digest of what a key reads.
func (k *killing) download() string {
	k.t.Helper()
	key, err := k.v.Download(k.t.Context(), k.key.ID, valet.Download{Owner: "cook"})
	if err != nil {
		k.t.Fatal(err)
	}
	web, err := os.ReadFile(filepath.Join(k.dir, webFile))
	if err != nil {
		k.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, string(web)+key.URL, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	hash := sha256.New()
	if n, err := io.Copy(hash, res.Body); err != nil || n != k.size || res.StatusCode != http.StatusOK {
		k.t.Errorf("a download has %d bytes: %d, %v", n, res.StatusCode, err)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// wantFolder looks at the folder of a store: a part lies there once, and nothing in the inbox. Temporary files of a
// killed web may stay for a day, as many as it was taking parts.
func (k *killing) wantFolder(folder string) {
	k.t.Helper()
	list := func(pattern string) []string {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			k.t.Fatal(err)
		}
		return names
	}
	if left := list("c-file-inbox/*"); len(left) > 0 {
		k.t.Errorf("the inbox's folder has %q", left)
	}
	if files := list("c-file-store/*/*"); len(files) != k.key.Parts+1 {
		k.t.Errorf("the store's folder has %d files, want a manifest and %d parts", len(files), k.key.Parts)
	}
	temps := list(".temp/*")
	k.t.Logf("%d temporary files of killed processes, for a day", len(temps))
	if len(temps) > 2*4 {
		k.t.Errorf("there are %d temporary files; two killed webs have left 4 each at most", len(temps))
	}
}
