package assets

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// The times between looks at another origin, and how long a look may take.
const (
	lookAgain = 30 * time.Second
	lookLimit = 10 * time.Second
)

// An origin is another place that may have the files. It is looked at while pages are made, beside them: all files
// until all were seen, and then one of them at a time.
type origin struct {
	base   string
	source string // scheme and host, for a Content-Security-Policy
	files  []*file
	log    *slog.Logger
	client *http.Client

	pause time.Duration // between two looks

	mu     sync.Mutex
	all    bool      // all files were there, and are as far as is known
	looks  bool      // a look is under way
	next   time.Time // of the next look
	at     int       // the file of the next look
	warned bool
}

func newOrigin(cfg Config, files []*file) *origin {
	u, _ := url.Parse(cfg.Base) // it was read before
	return &origin{
		base: cfg.Base, source: u.Scheme + "://" + u.Host, files: files, log: cfg.Logger, pause: lookAgain,
		client: &http.Client{Timeout: lookLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// hasAll reports whether pages may name the origin. Now and then it starts a look.
func (o *origin) hasAll() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.looks && !time.Now().Before(o.next) {
		o.looks = true
		go o.look(o.all)
	}
	return o.all
}

// look asks for one file, or where the origin isn't in use, for all.
func (o *origin) look(one bool) {
	files := o.files
	if one {
		o.mu.Lock()
		files = o.files[o.at : o.at+1]
		o.at = (o.at + 1) % len(o.files)
		o.mu.Unlock()
	}
	var err error
	for _, f := range files {
		if err = o.ask(f); err != nil && one {
			err = o.ask(f) // the network may have failed
		}
		if err != nil {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks, o.next = false, time.Now().Add(o.pause)
	switch {
	case err != nil && !o.warned:
		o.warned = true
		o.log.Warn("assets: pages name this program's own files, because the other origin lacks some", "error", err)
	case err == nil && o.warned:
		o.warned = false
		o.log.Info("assets: the other origin has all files, so pages name it", "base", o.base)
	}
	o.all = err == nil
}

// ask fails unless the origin has a file, and lets pages of this program use it.
func (o *origin) ask(f *file) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, o.base+f.name, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Origin", "https://example.com") // whatever the site's is: the answer has to be for all
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	kind, _, _ := strings.Cut(f.kind, ";")
	switch got := resp.Header; {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s%s: the answer is %s; push the files of this version there, for anybody to read", o.base, f.name, resp.Status)
	case !strings.HasPrefix(got.Get("Content-Type"), kind):
		return fmt.Errorf("%s%s: its type is %q; want %s", o.base, f.name, got.Get("Content-Type"), kind)
	case got.Get("Content-Encoding") == "" && resp.ContentLength >= 0 && resp.ContentLength != int64(len(f.body)):
		return fmt.Errorf("%s%s: it has %d bytes; want %d", o.base, f.name, resp.ContentLength, len(f.body))
	case got.Get("Access-Control-Allow-Origin") != "*":
		return fmt.Errorf("%s%s: its answer has no header Access-Control-Allow-Origin: *, without which browsers refuse scripts and style sheets whose digest they check", o.base, f.name)
	}
	return nil
}
