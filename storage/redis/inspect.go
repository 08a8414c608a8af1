package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	// memoryHigh is the part of the server's memory, in per cent, above which somebody should do something.
	memoryHigh = 80

	// memoryFull is the part above which memory is as good as full: a call needs some memory itself.
	memoryFull = 97

	// A loss of changes is a fault for a day, and good to know for a month.
	lossWrong = 24 * time.Hour
	lossKnown = 30 * 24 * time.Hour
)

// An inspector implements driver.Inspector.
type inspector struct{ s *store }

// Inspect implements driver.Inspector.
func (i inspector) Inspect(ctx context.Context) ([]driver.Fault, error) {
	s := i.s
	s.tally.count("inspect", "store", "")
	if err := s.e.Closed(); err != nil {
		return nil, err
	}
	r, err := s.e.Read(ctx, "INFO")
	if err != nil {
		return nil, err
	}
	lost, at, err := s.e.Losses(ctx)
	if err != nil {
		return nil, err
	}
	info := readInfo(r.Text())
	var all []driver.Fault
	for _, f := range []*driver.Fault{
		faultOfRole(info), faultOfPolicy(info), faultOfFile(info, s.cfg.durable), faultOfMemory(info), faultOfReplicas(info, s.cfg.wait),
		faultOfLoss(lost, at, time.Since(at)),
	} {
		if f != nil {
			all = append(all, *f)
		}
	}
	return all, nil
}

func faultOfRole(info map[string]string) *driver.Fault {
	if info["role"] != "slave" {
		return nil
	}
	return &driver.Fault{Name: "role", Text: "the server of the store is a replica, so the store takes no writes",
		Fix: "Make the server a master again (REPLICAOF NO ONE), or name its master in the store's URL. A URL of sentinels finds the master by itself."}
}

func faultOfPolicy(info map[string]string) *driver.Fault {
	policy := info["maxmemory_policy"]
	if policy == "noeviction" || policy == "" {
		return nil
	}
	return &driver.Fault{Name: "policy", Text: "the server's maxmemory-policy is " + policy + ", so the server may delete what it has acknowledged. The store takes no writes meanwhile",
		Fix: "Set it by CONFIG SET maxmemory-policy noeviction, and set the same in the server's file. Programs see the change within a minute."}
}

// faultOfFile is about the append-only file. The cause that stops most comes first.
func faultOfFile(info map[string]string, durable bool) *driver.Fault {
	const look = "Look into the server's log; the usual cause is a full disk. The server tries again by itself."
	switch {
	case info["aof_enabled"] == "1" && failed(info, "aof_last_write_status"):
		return &driver.Fault{Name: "file", Text: "the server can't write its append-only file, so it takes no writes", Fix: look}
	case info["aof_enabled"] != "1" && durable:
		return &driver.Fault{Name: "file", Text: "the server has no append-only file, so a restart loses what it has acknowledged. The store takes no writes meanwhile",
			Fix: "Set it by CONFIG SET appendonly yes, and set the same in the server's file. Programs see the change within a minute. If acknowledged changes may be lost, durable=no in the store's URL says so."}
	case failed(info, "rdb_last_bgsave_status"):
		return &driver.Fault{Name: "file", Text: "the server's last snapshot failed. Unless stop-writes-on-bgsave-error is no, the server takes no writes", Fix: look}
	case failed(info, "aof_last_bgrewrite_status"):
		return &driver.Fault{Name: "file", Text: "the server can't rewrite its append-only file, so the file grows", Fix: look}
	}
	return nil
}

func failed(info map[string]string, status string) bool {
	return info[status] != "" && info[status] != "ok"
}

// faultOfMemory counts as the server does when it decides whether memory is full.
func faultOfMemory(info map[string]string) *driver.Fault {
	most := number(info, "maxmemory")
	used := number(info, "used_memory") - number(info, "mem_not_counted_for_evict")
	const fix = "Raise maxmemory (by CONFIG SET maxmemory, and in the server's file), or move other programs' data elsewhere. A handler that writes can decide nothing while memory is full."
	switch {
	case most == 0 || used*100 < most*memoryHigh:
		return nil
	case used*100 >= most*memoryFull:
		return &driver.Fault{Name: "memory", Text: fmt.Sprintf("the server's memory is full, %d of %d MB, so sends and writes are refused. Messages that are there can still be received and deleted", used>>20, most>>20), Fix: fix}
	}
	return &driver.Fault{Name: "memory", Text: fmt.Sprintf("%d %% of the server's memory is used, %d of %d MB. Once it is full, sends and writes are refused", used*100/most, used>>20, most>>20), Fix: fix}
}

func faultOfReplicas(info map[string]string, wait int) *driver.Fault {
	if have := number(info, "connected_slaves"); have < int64(wait) {
		return &driver.Fault{Name: "replicas", Text: fmt.Sprintf("a change waits for %d replica(s), and the server has %d. So each change takes long, and its outcome is unknown", wait, have),
			Fix: "Look why replicas are away (INFO replication, and their logs), or let the store's URL wait for fewer."}
	}
	return nil
}

func faultOfLoss(lost int64, at time.Time, age time.Duration) *driver.Fault {
	if lost == 0 || age > lossKnown {
		return nil
	}
	return &driver.Fault{Name: "loss", Note: age > lossWrong,
		Text: fmt.Sprintf("%d acknowledged change(s) are lost; the last loss was found at %s", lost, at.UTC().Format("2006-01-02 15:04 UTC")),
		Fix: "A failover to a replica that lagged, or a restart of the server from an older file, has taken them back: its log, and the log of the sentinels, say which. Messages may be missing, or be there again, and documents may be older. " +
			"Effects outside of the store, such as mails, may have happened twice. appendfsync always keeps a restart from losing changes, wait=1 in the store's URL a failover; docs/redis.md has the table."}
}

// number is a number in the answer to INFO, or 0.
func number(info map[string]string, name string) int64 {
	n, err := strconv.ParseInt(info[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
