package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A bill is what a store has asked of its engine, by operation and target.
type bill map[[2]string]int64

func billOf(s *storage.Store) bill {
	b := bill{}
	for _, r := range s.Requests() {
		b[[2]string{r.Op, r.Target}] += r.Count
	}
	return b
}

// since is what has come since an earlier bill. Of the requests that receive, it counts one for each message that was
// deleted: how many find nothing depends on how long the worker waits.
func (b bill) since(before bill) bill {
	more, messages := bill{}, bill{}
	for what, n := range b {
		if n -= before[what]; n > 0 && what[0] != "receive" {
			more[what] = n
			if what[0] == "delete" && before[[2]string{"receive", what[1]}]+b[[2]string{"receive", what[1]}] > 0 {
				messages[[2]string{"receive", what[1]}] = n
			}
		}
	}
	for what, n := range messages {
		more[what] = n
	}
	return more
}

func (b bill) total() (n int64) {
	for _, m := range b {
		n += m
	}
	return n
}

func (b bill) show(out io.Writer, who string) {
	var all [][2]string
	for what := range b {
		all = append(all, what)
	}
	slices.SortFunc(all, func(x, y [2]string) int { return cmp.Or(cmp.Compare(x[1], y[1]), cmp.Compare(x[0], y[0])) })
	for _, what := range all {
		_, _ = fmt.Fprintf(out, "| %s | %s %s | %d |\n", who, what[0], what[1], b[what])
	}
}

// measureRequests counts the requests of the web and of the worker for one upload and one download.
func measureRequests(ctx context.Context, p plan, out io.Writer) (err error) {
	w, err := openAzure(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	stop, err := w.work(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := w.uploaded(ctx, mib); err != nil { // makes the containers
		return err
	}
	size := p.azure * mib
	before := billOf(w.store)
	id, err := w.uploaded(ctx, size)
	if err != nil {
		return err
	}
	up := billOf(w.store).since(before)
	before = billOf(w.store)
	key, err := w.valet.Download(ctx, id, valet.Download{Owner: "cook"})
	if err == nil { // only of a file that was accepted
		err = w.web.ask(ctx, http.MethodHead, key.URL, 0, http.StatusOK, nil)
	}
	if err == nil {
		err = w.web.ask(ctx, http.MethodGet, key.URL, 0, http.StatusOK, nil)
	}
	if err != nil {
		return err
	}
	down := billOf(w.store).since(before)
	_, _ = fmt.Fprintf(out, "\n### Requests of the program on Azure Storage\n\nThe client's own, one a part and one a download, come on top. A worker's requests that receive nothing aren't counted.\n\n")
	_, _ = fmt.Fprintf(out, "| | request | number |\n|---|---|---|\n")
	up.show(out, fmt.Sprintf("upload of %d MiB in %d parts", p.azure, (size+partSize-1)/partSize))
	_, _ = fmt.Fprintf(out, "| | in all | **%d** |\n", up.total())
	down.show(out, "key for a download, and its use by HEAD and GET")
	_, _ = fmt.Fprintf(out, "| | in all | **%d** |\n", down.total())
	return nil
}

// work runs a worker, which asks often whether there is work.
func (w *world) work(ctx context.Context) (stop func() error, err error) {
	c, err := channel.New(storagetest.WithProps(w.store, func(p *storage.Props) { p.PollInterval = 100 * time.Millisecond }), w.channels.Routes(), "/bench")
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	h := handlers.NewRegistry(c, handlers.Config{Logger: quiet})
	v, err := valet.New(c, config())
	if err != nil {
		return nil, err
	}
	v.Register(h)
	handlers.React(h, "told", func(context.Context, valet.Uploaded) error { return nil })
	handlers.React(h, "told", func(context.Context, valet.Rejected) error { return nil })
	run, err := worker.New(h, worker.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// uploaded makes a file, and waits until nothing is to be done for it any more. It looks by another store, whose
// requests aren't counted.
func (w *world) uploaded(ctx context.Context, size int64) (id string, err error) {
	key, err := w.grant(ctx, size)
	if err == nil {
		err = w.upload(ctx, key)
	}
	if err != nil {
		return "", err
	}
	other, err := azure.Open(ctx, w.connection)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	c, err := channel.New(other, w.channels.Routes(), "/bench")
	if err != nil {
		return "", err
	}
	v, err := valet.New(c, config())
	if err != nil {
		return "", err
	}
	inbox := other.Files("file-inbox")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		f, err := v.File(ctx, key.ID)
		if err != nil {
			return "", err
		}
		parts, err := inbox.Parts(ctx, key.ID)
		if err != nil {
			return "", err
		}
		if f.State == valet.StateClean && len(parts) == 0 {
			return key.ID, w.idle()
		}
		if time.Since(began) > 2*time.Minute {
			return "", fmt.Errorf("after two minutes, the file is %s, with %d parts in the inbox", f.State, len(parts))
		}
	}
}

// idle waits until only empty requests have been made for a while: the event is taken beside the cleaning.
func (w *world) idle() error {
	began, at, seen := time.Now(), time.Now(), int64(0)
	for ; time.Since(at) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		if n := billOf(w.store).since(nil).total(); n != seen {
			seen, at = n, time.Now()
		}
		if time.Since(began) > time.Minute {
			return errors.New("the worker doesn't come to an end")
		}
	}
	return nil
}

// measureKeys measures how long it takes to make keys, beside a row that is put.
func measureKeys(ctx context.Context, p plan, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "\n### A key, on SQLite, one after the other\n\n| | Upload, µs | Download, µs | a row is put, µs |\n|---|---|---|---|\n")
	for _, sync := range []string{"full", "normal"} {
		if err := measureKeysOf(ctx, p, out, sync); err != nil {
			return err
		}
	}
	return nil
}

func measureKeysOf(ctx context.Context, p plan, out io.Writer, sync string) (err error) {
	w, err := openSQLite(ctx, "?sync="+sync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var up, down, put []float64
	var id string
	rows := w.store.Table("rows")
	for i := range p.keys {
		began := time.Now()
		key, err := w.grant(ctx, partSize)
		up = append(up, micros(began))
		if err != nil {
			return err
		}
		id = key.ID
		began = time.Now()
		if _, err := w.valet.Download(ctx, id, valet.Download{Owner: "cook"}); err != nil {
			return err
		}
		down = append(down, micros(began))
		began = time.Now()
		if _, err := rows.Put(ctx, "all", strconv.Itoa(i), content()[:200], storage.Condition{IfAbsent: true}); err != nil {
			return err
		}
		put = append(put, micros(began))
	}
	p50 := func(all []float64) float64 { return stats.Percentile(all, 50) }
	_, _ = fmt.Fprintf(out, "| sync=%s | %.0f | %.0f | %.0f |\n", sync, p50(up), p50(down), p50(put))
	return nil
}

func micros(since time.Time) float64 { return float64(time.Since(since)) / float64(time.Microsecond) }
