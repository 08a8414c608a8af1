package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	mib      = 1 << 20
	atOnce   = 4 // parts
	partSize = 8 * mib
)

// content is what all parts are made of.
var content = sync.OnceValue(func() []byte {
	b := make([]byte, partSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // it never fails
	return b
})

// A world is a program that serves keys, and a client.
type world struct {
	dir      string
	store    *storage.Store
	channels *channel.Channels
	valet    *valet.Valet
	web      *web
	undo     []func() error

	connection string // of an account on Azurite
}

// openSQLite makes a world on a file. Its folder is dir.
func openSQLite(ctx context.Context, options string) (*world, error) {
	dir, err := os.MkdirTemp("", "millrace-bench-files-")
	if err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "bench.db")+options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	w := &world{dir: dir, store: s, undo: []func() error{func() error { return os.RemoveAll(dir) }, s.Close}}
	return w, w.serve()
}

// openAzure makes a world on an Azurite.
func openAzure(ctx context.Context) (*world, error) {
	server, err := azuretest.Launch()
	if err != nil {
		return nil, err
	}
	w := &world{undo: []func() error{func() error { server.Stop(); return nil }}}
	account, err := server.Take()
	if err == nil {
		w.connection = account.ConnectionString()
		w.store, err = azure.Open(ctx, w.connection)
	}
	if err == nil {
		w.undo = append(w.undo, w.store.Close)
		err = w.serve()
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// serve begins to serve keys.
func (w *world) serve() error {
	routes, err := channel.NewRoutes(valet.Route(), channel.Event[valet.Uploaded]("told"), channel.Event[valet.Rejected]("told"))
	if err == nil {
		w.channels, err = channel.New(w.store, routes, "/bench")
	}
	if err == nil {
		w.valet, err = valet.New(w.channels, config())
	}
	if err == nil {
		w.web, err = listen(w.valet)
	}
	if err != nil {
		return errors.Join(err, w.close())
	}
	w.undo = append(w.undo, w.web.close)
	return nil
}

func config() valet.Config {
	return valet.Config{Rules: map[string]valet.Rules{"any": {MaxSize: 1 << 40}}, Logger: slog.New(slog.DiscardHandler)}
}

// close undoes all that was made, the last first.
func (w *world) close() (err error) {
	for len(w.undo) > 0 {
		last := len(w.undo) - 1
		err = errors.Join(err, w.undo[last]())
		w.undo = w.undo[:last]
	}
	return err
}

// grant makes a key for an upload.
func (w *world) grant(ctx context.Context, size int64) (valet.Key, error) {
	return w.valet.Upload(ctx, valet.Upload{Rule: "any", Owner: "ada", Name: "film.bin", Type: "application/octet-stream", Size: size})
}

// upload puts a file by the protocol, and completes it.
func (w *world) upload(ctx context.Context, key valet.Key) error {
	var keys valet.PartKeys
	if err := w.web.ask(ctx, http.MethodPost, fmt.Sprintf("%s/parts?n=1-%d", key.URL, key.Parts), 0, http.StatusOK, &keys); err != nil {
		return err
	}
	err := each(len(keys.Parts), func(i int) error {
		p := keys.Parts[i]
		return w.web.ask(ctx, http.MethodPut, p.URL, p.Size, http.StatusCreated, nil)
	})
	if err != nil {
		return err
	}
	return w.web.ask(ctx, http.MethodPost, key.URL+"/complete", 0, http.StatusAccepted, nil)
}

// each calls f for all numbers below n, some at once.
func each(n int, f func(i int) error) error {
	todo, failed := make(chan int), make([]error, atOnce)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for n := range todo {
				failed[i] = errors.Join(failed[i], f(n))
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	all.Wait()
	return errors.Join(failed...)
}

// A web is a server on this machine, and its client.
type web struct {
	url    string
	server *http.Server
	client *http.Client
}

func listen(h http.Handler) (*web, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &web{
		url: "http://" + l.Addr().String(), server: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * atOnce}},
	}
	go func() { _ = v.server.Serve(l) }() // it ends with an error, as always
	return v, nil
}

func (v *web) close() error {
	v.client.CloseIdleConnections()
	return v.server.Close()
}

// ask makes a request with so many bytes, and reads its answer.
func (v *web) ask(ctx context.Context, method, to string, size int64, want int, answer any) error {
	if to[0] == '/' {
		to = v.url + to
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(content()[:size]))
	if err != nil {
		return err
	}
	res, err := v.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != want:
		return fmt.Errorf("%s: the answer is %d %s; want %d", method, res.StatusCode, text, want)
	case answer != nil:
		return json.Unmarshal(text, answer)
	}
	return nil
}
