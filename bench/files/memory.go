package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/millrace-go/millrace/files/valet"
)

// measureMemory holds uploads in the middle of a part, as slow clients do. The clients' connections are in the same
// process, and counted.
func measureMemory(ctx context.Context, p plan, out io.Writer) (err error) {
	w, err := openSQLite(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var urls []string
	for range p.held {
		key, err := w.grant(ctx, partSize)
		var keys valet.PartKeys
		if err == nil {
			err = w.web.ask(ctx, http.MethodPost, key.URL+"/parts?n=1", 0, http.StatusOK, &keys)
		}
		if err != nil {
			return err
		}
		urls = append(urls, keys.Parts[0].URL)
	}
	warm, err := w.grant(ctx, partSize)
	if err == nil {
		err = w.upload(ctx, warm)
	}
	if err != nil {
		return err
	}
	w.web.client.CloseIdleConnections()
	idle := settled()
	end, err := w.hold(ctx, urls)
	defer end()
	if err != nil {
		return err
	}
	held := settled()
	each := func(now, before uint64) float64 { return (float64(now) - float64(before)) / 1024 / float64(p.held) }
	_, _ = fmt.Fprintf(out, "\n### Memory of a web that takes %d parts of 8 MiB from slow clients\n\n| | heap in use | stacks | both |\n|---|---|---|---|\n", p.held)
	_, _ = fmt.Fprintf(out, "| idle, KiB | %d | %d | %d |\n", idle.HeapInuse/1024, idle.StackInuse/1024, (idle.HeapInuse+idle.StackInuse)/1024)
	_, _ = fmt.Fprintf(out, "| more for each upload, KiB | %.1f | %.1f | %.1f |\n", each(held.HeapInuse, idle.HeapInuse), each(held.StackInuse, idle.StackInuse),
		each(held.HeapInuse+held.StackInuse, idle.HeapInuse+idle.StackInuse))
	return nil
}

// settled is the memory after all garbage is gone, and what pools have kept.
func settled() (m runtime.MemStats) {
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

// hold sends the half of each part, and waits until the web has taken it.
func (w *world) hold(ctx context.Context, urls []string) (end func(), err error) {
	var all []net.Conn
	end = func() {
		for _, c := range all {
			_ = c.Close() // the web gives up the part
		}
	}
	address := strings.TrimPrefix(w.web.url, "http://")
	for _, url := range urls {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return end, err
		}
		all = append(all, c)
		if _, err := fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", url, address, partSize); err != nil {
			return end, err
		}
		if _, err := c.Write(content()[:partSize/2]); err != nil {
			return end, err
		}
	}
	for began := time.Now(); ; {
		taken, err := w.taken()
		if err != nil || taken == len(urls) {
			return end, err
		}
		if time.Since(began) > time.Minute {
			return end, fmt.Errorf("the web has taken %d of %d halves within a minute", taken, len(urls))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// taken is how many parts the web has the half of.
func (w *world) taken() (n int, err error) {
	names, err := filepath.Glob(filepath.Join(w.dir, "bench.db-files", ".temp", "*"))
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		if info.Size() >= partSize/2 {
			n++
		}
	}
	return n, err
}
