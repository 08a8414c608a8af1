package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/servers"
	"github.com/millrace-go/millrace/channel"
)

const connections = 16

// pageBench measures the pages of the web program.
type pageBench struct{ *bench }

func pageTables(b *bench, ctx context.Context) ([]*table, error) { return pageBench{b}.tables(ctx) }

func (b pageBench) tables(ctx context.Context) ([]*table, error) {
	t := &table{Name: "views", Title: "Pages from the cache against a bare server",
		Note: fmt.Sprintf("cmd/web with its worker, and a net/http handler that serves the same bytes, header and body, from memory, in turn; %d connections from one more process. Median of %d rounds of %v.",
			connections, b.rounds, b.most),
		Columns: []string{"answer", "bytes", "cmd/web/s", "bare/s", "ratio", "cmd/web p50, ms", "cmd/web p99, ms", "bare p99, ms"}}
	posts := &table{Name: "post", Title: "POST /reservations under load", Note: fmt.Sprintf("The same client and program; the worker decides meanwhile what was sent. Each of %d connections asks again at once.", connections),
		Columns: []string{"connections", "requests/s", "p50, ms", "p99, ms"}}
	program, err := b.buildWeb(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.pages(ctx, program, t); err != nil {
		return []*table{t}, err
	}
	return []*table{t, posts}, b.posts(ctx, program, posts)
}

// buildWeb builds the sample's web from the module that contains this one.
func (b pageBench) buildWeb(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/millrace-go/millrace").Output()
	if err != nil {
		return "", fmt.Errorf("find the module, which needs the Go tool and the folder bench: %w", err)
	}
	program := filepath.Join(b.dir, "web")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/web")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/web: %w\n%s", err, out)
	}
	return program, nil
}

// A web is a running cmd/web.
type web struct {
	url  string
	addr string
	stop func()
}

// startWeb starts the program on an empty store. It ends with ctx, and with this process.
func (b pageBench) startWeb(ctx context.Context, program string, seats int) (*web, error) {
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "-addr", "127.0.0.1:0", "-store", "sqlite:"+filepath.Join(dir, "store.db"), "-seats", fmt.Sprint(seats), "-log", "error")
	cmd.Dir, cmd.Stderr = dir, b.errs // mails go into its working directory
	servers.DieWithUs(cmd)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, childGrace
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.Copy(io.Discard, lines) // the summary
	}()
	w := &web{stop: func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		late := time.AfterFunc(childGrace, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		<-said
		_ = cmd.Wait()
	}}
	_, w.url, _ = strings.Cut(strings.TrimSpace(first), " at ")
	u, e := url.Parse(w.url)
	if err = errors.Join(err, e); err == nil && u.Host == "" {
		err = fmt.Errorf("cmd/web said %q", first)
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	w.addr = u.Host
	return w, nil
}

var stylesheet = regexp.MustCompile(`href="(/[^"]+\.css)"`)

// pages compares pages that are served from memory.
func (b pageBench) pages(ctx context.Context, program string, t *table) error {
	w, err := b.startWeb(ctx, program, 1)
	if err != nil {
		return err
	}
	defer w.stop()
	month, err := w.sellOut(ctx)
	if err != nil {
		return err
	}
	front, err := get(ctx, w.url, "/")
	if err != nil {
		return err
	}
	href := stylesheet.FindSubmatch(front.Body)
	if href == nil {
		return errors.New("the first page names no style sheet")
	}
	style, err := get(ctx, w.url, string(href[1]))
	if err != nil {
		return err
	}
	bare, ready, err := startChild(ctx, spec{Bare: []file{month, style}}, b.errs)
	if err != nil {
		return err
	}
	defer func() { _ = bare.stop() }()
	for _, c := range []struct {
		name string
		file file
		etag bool
	}{{"month", month, false}, {"month, 304", month, true}, {"stylesheet", style, false}, {"stylesheet, 304", style, true}} {
		ask := clientSpec{Connections: connections, For: b.most, Path: c.file.Path, Want: http.StatusOK}
		bytes := len(c.file.Body)
		if c.etag {
			ask.ETag, ask.Want, bytes = c.file.ETag, http.StatusNotModified, 0
		}
		mid, err := b.medians(ctx, func() (x []float64, err error) {
			for _, ask.Addr = range []string{w.addr, ready.Addr} {
				load, err := b.load(ctx, ask)
				if err != nil {
					return nil, err
				}
				x = append(x, load.Rate, load.P50, load.P99)
			}
			return append(x, x[0]/x[3]), nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.add(c.name, bytes, mid[0], mid[3], mid[6], mid[1], mid[2], mid[5])
		b.say("%s done", c.name)
	}
	return nil
}

// load runs a client process.
func (b pageBench) load(ctx context.Context, s clientSpec) (*loadStats, error) {
	c, _, err := startChild(ctx, spec{Client: &s}, b.errs)
	if err != nil {
		return nil, err
	}
	if err := c.tell("begin"); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	x, err := c.listen()
	if err == nil && x.Load == nil {
		err = errors.New("the client said something else than what it has seen")
	}
	return x.Load, errors.Join(err, c.stop())
}

// posts books tables, with a growing number of connections.
func (b pageBench) posts(ctx context.Context, program string, t *table) error {
	for _, n := range []int{1, connections, 4 * connections} {
		mid, err := b.medians(ctx, func() ([]float64, error) {
			w, err := b.startWeb(ctx, program, 10_000)
			if err != nil {
				return nil, err
			}
			defer w.stop()
			load, err := b.load(ctx, clientSpec{Addr: w.addr, Connections: n, For: b.most, Path: "/reservations", Book: true, Want: http.StatusAccepted})
			if err != nil {
				return nil, err
			}
			return []float64{load.Rate, load.P50, load.P99}, nil
		})
		if err != nil {
			return fmt.Errorf("POST by %d connections: %w", n, err)
		}
		t.add(n, mid[0], mid[1], mid[2])
	}
	return nil
}

// sellOut books every day of the first half of the month after next, and returns the view once it has them all.
func (w *web) sellOut(ctx context.Context) (file, error) {
	const days = 15
	first := time.Now().AddDate(0, 0, 1-time.Now().Day()).AddDate(0, 2, 0)
	for day := range days {
		body := booking(channel.NewID(), first.AddDate(0, 0, day).Format(time.DateOnly))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/reservations", strings.NewReader(body))
		if err != nil {
			return file{}, err
		}
		request.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			return file{}, err
		}
		_ = resp.Body.Close() // the status is enough
		if resp.StatusCode != http.StatusAccepted {
			return file{}, fmt.Errorf("booking a table: %s", resp.Status)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the view doesn't come"))
	defer cancel()
	month := first.Format("2006-01")
	var view file
	err := until(ctx, 50*time.Millisecond, func() (bool, error) {
		f, err := get(ctx, w.url, "/views/months/"+month)
		view = f
		return strings.Count(string(f.Body), `"`+month+"-") == days, err
	})
	return view, err
}

// get reads a file for the bare server.
func get(ctx context.Context, url, path string) (file, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
	if err != nil {
		return file{}, err
	}
	request.Header.Set("Accept-Encoding", "identity") // as the load asks
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	header := resp.Header.Clone()
	header.Del("Date") // the server makes its own
	return file{path, header.Get("ETag"), header, body}, err
}
