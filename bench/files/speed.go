package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/millrace-go/millrace/bench/stats"
)

// A rival is one of two ways to do something. done follows each run, and isn't measured.
type rival struct {
	name string
	run  func(ctx context.Context, round int) error
	done func(ctx context.Context, round int) error
}

// duel lets two rivals take turns, and returns the seconds of each. The first round warms up.
func duel(ctx context.Context, rounds int, a, b rival) (sa, sb []float64, err error) {
	once := func(r rival, round int) (float64, error) {
		began := time.Now()
		err := r.run(ctx, round)
		took := time.Since(began).Seconds()
		if err == nil {
			err = r.done(ctx, round)
		}
		return took, err
	}
	for round := range rounds + 1 {
		var ta, tb float64
		var errA, errB error
		if round%2 == 0 {
			ta, errA = once(a, round)
			tb, errB = once(b, round)
		} else {
			tb, errB = once(b, round)
			ta, errA = once(a, round)
		}
		if err := errors.Join(errA, errB, ctx.Err()); err != nil {
			return nil, nil, err
		}
		if round > 0 {
			sa, sb = append(sa, ta), append(sb, tb)
		}
	}
	return sa, sb, nil
}

// showDuel prints the rates of two rivals, and how fast the first is by the second.
func showDuel(out io.Writer, title string, size int64, a, b rival, sa, sb []float64) {
	rates := func(seconds []float64) (all []float64) {
		for _, s := range seconds {
			all = append(all, float64(size)/mib/s)
		}
		return all
	}
	var ratios []float64
	for i := range sa {
		ratios = append(ratios, sb[i]/sa[i])
	}
	_, _ = fmt.Fprintf(out, "\n### %s\n\n| | MiB/s | ratio |\n|---|---|---|\n", title)
	_, _ = fmt.Fprintf(out, "| %s | %s | %s |\n| %s | %s | |\n", a.name, span(rates(sa), "%.0f"), span(ratios, "%.2f"), b.name, span(rates(sb), "%.0f"))
}

// span writes the median of some values, and the lowest and highest.
func span(values []float64, format string) string {
	s := stats.Summarize(values)
	return fmt.Sprintf(strings.ReplaceAll("% [%, %]", "%", format), s.Median, s.Min, s.Max)
}

// protocol is an upload with a key.
func protocol(w *world, size int64) rival {
	var keys []string
	return rival{
		name: "by the protocol",
		run: func(ctx context.Context, _ int) error {
			key, err := w.grant(ctx, size)
			if err != nil {
				return err
			}
			keys = append(keys, key.ID)
			return w.upload(ctx, key)
		},
		done: func(ctx context.Context, _ int) error {
			return w.store.Files("file-inbox").Delete(ctx, keys[len(keys)-1])
		},
	}
}

// measureDisk compares an upload to a folder with a server that only writes files.
func measureDisk(ctx context.Context, p plan, out io.Writer) (err error) {
	w, err := openSQLite(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	size, folder := p.size*mib, filepath.Join(w.dir, "bare")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	bare, err := listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := writeBare(filepath.Join(folder, filepath.Base(r.URL.Path)), r.Body); err != nil {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		rw.WriteHeader(http.StatusCreated)
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	a := protocol(w, size)
	parts := int((size + partSize - 1) / partSize)
	name := func(round, i int) string { return strconv.Itoa(round) + "-" + strconv.Itoa(i) }
	b := rival{
		name: "bare handlers that write files and sync them",
		run: func(ctx context.Context, round int) error {
			return each(parts, func(i int) error {
				return bare.ask(ctx, http.MethodPut, "/"+name(round, i), min(partSize, size-int64(i)*partSize), http.StatusCreated, nil)
			})
		},
		done: func(_ context.Context, round int) (err error) {
			for i := range parts {
				err = errors.Join(err, os.Remove(filepath.Join(folder, name(round, i))))
			}
			return err
		},
	}
	sa, sb, err := duel(ctx, p.rounds, a, b)
	if err != nil {
		return err
	}
	showDuel(out, fmt.Sprintf("Upload of %d MiB to a folder, %d parts at once", p.size, atOnce), size, a, b, sa, sb)
	return nil
}

func writeBare(path string, body io.Reader) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Sync(), f.Close())
}

// measureAzure compares an upload by URLs of parts with the store's own calls.
func measureAzure(ctx context.Context, p plan, out io.Writer) (err error) {
	w, err := openAzure(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	size := p.azure * mib
	var sizes []int64
	for rest := size; rest > 0; rest -= partSize {
		sizes = append(sizes, min(rest, partSize))
	}
	// The store itself takes no bytes of a part, so this is what a program does that has the account's key.
	sdk, err := azblob.NewClientFromConnectionString(w.connection, nil)
	if err != nil {
		return err
	}
	container := sdk.ServiceClient().NewContainerClient("direct")
	if _, err := container.Create(ctx, nil); err != nil {
		return err
	}
	a := protocol(w, size)
	b := rival{
		name: "StageBlock and CommitBlockList of Azure's SDK",
		run: func(ctx context.Context, round int) error {
			blob, ids := container.NewBlockBlobClient(strconv.Itoa(round)), make([]string, len(sizes))
			err := each(len(sizes), func(i int) error {
				ids[i] = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%05d", i))
				_, err := blob.StageBlock(ctx, ids[i], streaming.NopCloser(bytes.NewReader(content()[:sizes[i]])), nil)
				return err
			})
			if err == nil {
				_, err = blob.CommitBlockList(ctx, ids, nil)
			}
			return err
		},
		done: func(ctx context.Context, round int) error {
			_, err := container.NewBlobClient(strconv.Itoa(round)).Delete(ctx, nil)
			return err
		},
	}
	sa, sb, err := duel(ctx, p.rounds, a, b)
	if err != nil {
		return err
	}
	showDuel(out, fmt.Sprintf("Upload of %d MiB to Azurite, %d parts at once", p.azure, atOnce), size, a, b, sa, sb)
	return nil
}
