package redis

import (
	"cmp"
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
	bad  bool // the server is set so that it may lose what it acknowledges

	lately bool // the server may have been started or promoted within settled, when check was called

	pause time.Duration // between two looks. Defaults to watchPause

	cancel context.CancelFunc
	over   sync.WaitGroup
}

// check reads what the server tells of itself, and says what a store can't live with. CONFIG may be forbidden, so
// everything is from INFO. unsafe is what keeps the store from taking writes, and may be read under.
func (w *watch) check(ctx context.Context) (unsafe, err error) {
	r, err := w.conn.Do(ctx, "INFO")
	if err != nil {
		return nil, explainDial(ctx, w.p, err)
	}
	info := readInfo(r.Text())
	w.lately = lately(info)
	return judge(info, w.p), unfit(info)
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

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrUnsupported}, args...)...)
}

// unfit returns an error that says why a server can run no script of a store, or nil.
func unfit(info map[string]string) error {
	if info["loading"] == "1" { // meanwhile it tells of no append-only file
		return fmt.Errorf("%w: the server reads its file, as after a restart", driver.ErrUnavailable)
	}
	if info["redis_mode"] == "sentinel" {
		return refuse("the server is a sentinel; want a redis+sentinel: URL, with the name by which it knows the master")
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
	return nil
}

// judge returns an error that says why a server may lose what it acknowledges, or nil.
func judge(info map[string]string, p params) error {
	if p.bell {
		return nil
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" && policy != "" {
		return refuse("maxmemory-policy is %s, so the server may delete what it has acknowledged; set it to noeviction, or bell=yes in the URL if the server only rings", policy)
	}
	if p.durable && info["aof_enabled"] != "1" {
		return refuse("the server has no append-only file, so it may lose minutes of what it has acknowledged; set appendonly to yes, or durable=no in the URL if that may be lost, or bell=yes if the server only rings")
	}
	return nil
}

// lately reports that a server may have been started or promoted within settled. INFO doesn't tell when a server was
// promoted, only that its data has an older history.
func lately(info map[string]string) bool {
	up, err := strconv.Atoi(info["uptime_in_seconds"])
	return err != nil || time.Duration(up)*time.Second <= settled || cmp.Or(info["second_repl_offset"], "-1") != "-1"
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

// begin looks again and again. refuse gets what is wrong, or nil. A server that was right can be set right again, so
// the running program's callers are told to try again: no message is to spend its attempts meanwhile.
func (w *watch) begin(refuse func(error)) {
	later := func(wrong error) {
		if wrong != nil {
			wrong = fmt.Errorf("%w: the store takes no writes until the server is set right: %v", driver.ErrUnavailable, wrong)
		}
		refuse(wrong)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.over.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(cmp.Or(w.pause, watchPause)):
			}
			w.look(ctx, later)
		}
	})
}

// look looks once. A failover may still leave this process with the demoted master. That isn't for refuse, because the
// server tells each write so, and the next write may reach the new master.
func (w *watch) look(ctx context.Context, refuse func(error)) {
	r, err := w.conn.Do(ctx, "INFO")
	if err != nil {
		return // calls tell of that
	}
	if info := readInfo(r.Text()); info["loading"] != "1" && info["role"] != "slave" {
		w.tell(judge(info, w.p), refuse)
	}
}

// tell lets the store take no writes while something is wrong. It logs the change.
func (w *watch) tell(wrong error, refuse func(error)) {
	refuse(wrong)
	switch {
	case wrong != nil && !w.bad:
		w.log.Error("redis: the store takes no writes until the server is set right", "store", w.p.place(), "error", wrong)
	case wrong == nil && w.bad:
		w.log.Info("redis: the server is set right, so the store takes writes again", "store", w.p.place())
	}
	w.bad = wrong != nil
}

func (w *watch) end() {
	w.cancel()
	w.over.Wait()
}
