package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// watchPause is how often the server's settings are looked at.
const watchPause = time.Minute

// watch looks whether a server keeps what it acknowledges.
type watch struct {
	conn client.Conn
	p    params
	log  *slog.Logger

	cancel context.CancelFunc
	over   sync.WaitGroup
}

// check reads what the server tells of itself, and says what a store can't live with. CONFIG may be forbidden, so
// everything is from INFO.
func (w *watch) check(ctx context.Context) error {
	r, err := w.conn.Do(ctx, "INFO")
	if err != nil {
		return explainDial(err)
	}
	return judge(readInfo(r.Text()), w.p)
}

// readInfo reads the answer to INFO.
func readInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// judge returns an error that says what is wrong with a server, or nil.
func judge(info map[string]string, p params) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{driver.ErrUnsupported}, args...)...)
	}
	name, version, least := "Redis", info["redis_version"], "7.0"
	if v := info["valkey_version"]; v != "" {
		name, version, least = "Valkey", v, "7.2"
	}
	if older(version, least) {
		return refuse("the server is %s %s; want %s or newer, because scripts must run when memory is full", name, version, least)
	}
	if info["role"] == "slave" {
		return refuse("the server is a replica; give the address of its master, or of sentinels that know the master")
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" && policy != "" {
		return refuse("maxmemory-policy is %s, so the server may delete what it has acknowledged; set it to noeviction", policy)
	}
	if p.durable && info["aof_enabled"] != "1" {
		return refuse("the server has no append-only file, so it may lose minutes of what it has acknowledged; set appendonly to yes, or durable=no in the URL if that may be lost")
	}
	return nil
}

// older reports whether a version is below another one, by its first two numbers.
func older(version, least string) bool {
	number := func(v string) int {
		major, rest, _ := strings.Cut(v, ".")
		minor, _, _ := strings.Cut(rest, ".")
		a, _ := strconv.Atoi(major) // a version that can't be read is old
		b, _ := strconv.Atoi(minor)
		return a*1000 + b
	}
	return number(version) < number(least)
}

// begin looks again and again. refuse gets what is wrong, or nil.
func (w *watch) begin(refuse func(error)) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.over.Go(func() {
		bad := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchPause):
			}
			r, err := w.conn.Do(ctx, "INFO")
			if err != nil {
				continue // calls tell of that
			}
			err = judge(readInfo(r.Text()), w.p)
			refuse(err)
			switch {
			case err != nil && !bad:
				w.log.Error("redis: the store takes no writes until the server is set right", "store", w.p.place(), "error", err)
			case err == nil && bad:
				w.log.Info("redis: the server is set right, so the store takes writes again", "store", w.p.place())
			}
			bad = err != nil
		}
	})
}

func (w *watch) end() {
	w.cancel()
	w.over.Wait()
}
