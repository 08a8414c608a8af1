package redistest

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sentinels watch a master. When most of them can't reach the master for a second or two, they make one of its replicas
// the master.
type Sentinels struct {
	All  []*Server // may be killed, stalled and asked like other servers
	name string
}

// StartSentinels launches n sentinels that end with the test. The sentinels watch a master under a name, and know one
// another and the replicas that the master has now. A failed test shows the ends of their logs.
func StartSentinels(tb testing.TB, n int, master *Server, name string) *Sentinels {
	tb.Helper()
	if master.tls {
		tb.Fatal("redistest: sentinels watch servers without TLS only")
	}
	s := &Sentinels{name: name}
	for i := range n {
		one := demand(tb, func() (*Server, error) {
			// Sentinels that see the master's end at once vote for themselves, again and again.
			patience := time.Second + time.Duration(i)*300*time.Millisecond
			return launch(func(one *Server) error { return one.watch(master, name, n/2+1, patience) })
		})
		tb.Cleanup(one.Stop)
		one.showLog(tb) // before Stop removes the log
		s.All = append(s.All, one)
	}
	replicas := field(master.Do(tb, "INFO", "replication"), "connected_slaves:")
	for _, one := range s.All {
		err := one.await("a sentinel knows the others and the replicas", func(ctx context.Context) bool {
			answer, err := one.Ask(ctx, "SENTINEL", "MASTER", name)
			return err == nil && field(answer, "num-slaves\n") == replicas &&
				field(answer, "num-other-sentinels\n") == strconv.Itoa(n-1)
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// watch writes the settings of a sentinel, and makes the server one. The sentinel changes the file itself.
func (s *Server) watch(master *Server, name string, quorum int, patience time.Duration) error {
	const file = "sentinel.conf"
	s.child.args = []string{s.child.file(file), "--sentinel"}
	// Ordinary sentinels look less often. With their one look in a second, a second's silence may be one late answer,
	// and the new master is given up as soon as it is one. With their pause of half a minute after a hiccup of the
	// machine, tests would wait that long.
	s.tune = []string{"SENTINEL", "DEBUG", "PING-PERIOD", "100", "INFO-PERIOD", "1000", "PUBLISH-PERIOD", "200",
		"TILT-PERIOD", "1000"}
	settings := append(s.common(), "port "+s.port,
		fmt.Sprintf("sentinel monitor %s %s %s %d", name, host, master.port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", name, patience.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 1000", name))
	if master.password != "" {
		settings = append(settings, fmt.Sprintf("sentinel auth-pass %s %q", name, master.password))
	}
	return s.child.write(file, settings)
}

// URL is the URL of a store with a prefix on the master that the sentinels name. It has no password.
func (s *Sentinels) URL(prefix string) string {
	addrs := make([]string, len(s.All))
	for i, one := range s.All {
		addrs[i] = one.Addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + s.name + "?" + url.Values{"prefix": {prefix}}.Encode()
}

// Await waits until all sentinels that run name a server as the master, and the server is one.
func (s *Sentinels) Await(tb testing.TB, master *Server) {
	tb.Helper()
	for _, one := range s.All {
		if one.child.ended() != nil {
			continue
		}
		err := one.await("a sentinel names "+master.Addr()+" as the master", func(ctx context.Context) bool {
			answer, err := one.Ask(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name)
			return err == nil && answer == host+"\n"+master.port
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := master.await("it is a master", func(ctx context.Context) bool {
		answer, err := master.Ask(ctx, "INFO", "replication")
		return err == nil && field(answer, "role:") == "master"
	}); err != nil {
		tb.Fatal(err)
	}
}

// field is what follows a name up to the end of the line, in what INFO or a sentinel answers.
func field(answer, name string) string {
	_, after, _ := strings.Cut(answer, name)
	value, _, _ := strings.Cut(after, "\n")
	return strings.TrimSuffix(value, "\r")
}
