package redis

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// secret is the password of tests. No error holds it.
const secret = "S3cret-Password"

// as returns a URL with a user and a password.
func as(rawURL, user, password string) string {
	return strings.Replace(rawURL, "://", "://"+url.UserPassword(user, password).String()+"@", 1)
}

// refused opens a store that can't be opened, and checks what the error says.
func refused(t *testing.T, rawURL string, kind error, fragments ...string) {
	t.Helper()
	s, err := Open(t.Context(), rawURL)
	if err == nil {
		_ = s.Close()
	}
	wantError(t, err, kind, fragments...)
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error holds the password: %v", err)
	}
}

// A store that can't be opened says what to do, and leaves no connection.
func TestRefusedOpenings(t *testing.T) {
	t.Parallel()
	locked := redistest.Start(t, redistest.Config{Password: secret})
	encrypted := redistest.Start(t, redistest.Config{TLS: true})
	plain := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: plain})
	evicting := redistest.Start(t, redistest.Config{Settings: []string{"--maxmemory-policy", "allkeys-lru"}})
	forgetful := redistest.Start(t, redistest.Config{Settings: []string{"--appendonly", "no"}})
	other := redistest.Start(t, redistest.Config{TLS: true})
	gone := redistest.Start(t, redistest.Config{})
	goneURL := gone.URL("app")
	gone.Kill(t)
	plain.Do(t, "SET", "{text}", "of another program")
	plain.Do(t, "HSET", "{hash}", "field", "of another program")
	plain.Do(t, "HSET", "{newer}", "mark", "x", "format", "millrace 9")
	wrongCA := strings.Replace(encrypted.URL("app"), url.QueryEscape(encrypted.Dir()), url.QueryEscape(other.Dir()), 1)
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(notPEM, []byte("no certificate"), 0o600))

	refused(t, locked.URL("app"), storage.ErrUnavailable, "wants a password", passwordVariable)
	refused(t, as(locked.URL("app"), "default", secret+"?"), storage.ErrUnavailable, "password is wrong")
	refused(t, as(locked.URL("app"), "nobody", secret), storage.ErrUnavailable, "user or the password is wrong")
	refused(t, replica.URL("app"), storage.ErrUnsupported, "is a replica", "master")
	refused(t, evicting.URL("app"), storage.ErrUnsupported, "allkeys-lru", "noeviction")
	refused(t, forgetful.URL("app"), storage.ErrUnsupported, "appendonly", "durable=no")
	refused(t, wrongCA, storage.ErrUnavailable, "certificate is by nobody", "parameter ca")
	refused(t, strings.Replace(plain.URL("app"), "redis:", "rediss:", 1), storage.ErrUnavailable, "no TLS connection", "redis: URL")
	refused(t, "redis://"+encrypted.Addr()+"/?prefix=app", storage.ErrUnavailable, "isn't one of a Redis server", "rediss: URL")
	refused(t, "redis://"+web(t)+"/?prefix=app", storage.ErrUnavailable, "isn't one of a Redis server", "another port")
	refused(t, "redis+sentinel://"+plain.Addr()+"/shop?prefix=app", storage.ErrUnavailable, "no sentinel", "26379")
	refused(t, plain.URL("app")+"&db=99", storage.ErrUnavailable, "parameter db", "databases")
	refused(t, "rediss://h/?prefix=a&ca="+url.QueryEscape(notPEM), storage.ErrInvalid, "PEM")
	refused(t, goneURL, storage.ErrUnavailable, "no server answers")
	refused(t, plain.URL("text"), storage.ErrInvalid, "another program's", "another prefix")
	refused(t, plain.URL("hash"), storage.ErrInvalid, "another program's", "another prefix")
	refused(t, plain.URL("newer"), storage.ErrInvalid, "millrace 9", "newer")
	openStore(t, forgetful.URL("app")+"&durable=no")

	for _, server := range []*redistest.Server{locked, replica, evicting, plain, encrypted} {
		until(t, "the refused programs have no connection", func() bool {
			return !strings.Contains(server.Do(t, "CLIENT", "LIST", "TYPE", "NORMAL"), "name=millrace")
		})
	}
}

// web returns the address of a server that speaks HTTP.
func web(t *testing.T) string {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A URL that can't be right is refused before anybody is asked, and the error says what is wanted.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"redis://h:port/?prefix=a": "port", "redis://h:99999/?prefix=a": "1 to 65535", "redis://h:0/?prefix=a": "1 to 65535", "redis://h:-1/?prefix=a": "1 to 65535",
		"redis://h/?prefix=a&durable=maybe": "want yes or no", "redis://h/?prefix=a&bell=1": "want yes or no", "redis://h/?prefix=a&wake=no": "want on or off",
		"redis://h/?prefix=a&db=x": "a number from 0", "redis://h/?prefix=a&wait=0": "a number from 1", "redis://h/?prefix=a&timeout=3": "known are",
		"redis://h/?prefix=": "prefix", "redis://h/": "no prefix", "redis://h/3?prefix=a": "db=NUMBER", "redis://a,b/?prefix=a": "sentinels",
		"redis+sentinel://h/?prefix=a": "name", "redis+unix://h/s?prefix=a": "absolute path", "redis+sentinel://h/my/master?prefix=a": "slash", "redis://?prefix=a": "missing",
	} {
		refused(t, rest, storage.ErrInvalid, want)
	}
}

// The user that docs/redis.md makes can open a store, and no store of another prefix.
func TestTheDocumentedUser(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/redis.md")
	must(t, err)
	_, line, _ := strings.Cut(string(text), "ACL SETUSER tables ")
	line, _, _ = strings.Cut(strings.Replace(line, "PASSWORD", secret, 1), "\n")
	server := redistest.Start(t, redistest.Config{})
	server.Do(t, append([]string{"ACL", "SETUSER", "tables"}, strings.Fields(line)...)...)
	s, _ := openStore(t, as(server.URL("tables"), "tables", secret))
	l, err := NewList(s, "readings")
	must(t, err)
	must(t, l.Push(t.Context(), []byte("a"), []byte("b"), []byte("c")))
	taken, err := l.TakeFirst(t.Context())
	must(t, err)
	must(t, taken.HandBack(t.Context()))
	if taken, err = l.TakeLast(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, taken.Done(t.Context()))
	_, err = l.PopFirst(t.Context())
	must(t, err)
	_, err = l.Recover(t.Context())
	must(t, err)
	if n, held, err := l.Len(t.Context()); err != nil || n != 1 || held != 0 {
		t.Errorf("the list has %d values, and %d are held (%v); want 1 and none", n, held, err)
	}
	if log := server.Do(t, "ACL", "LOG"); log != "" {
		t.Errorf("the server has refused:\n%s", log)
	}
	refused(t, as(server.URL("other"), "tables", secret), storage.ErrUnavailable, "lacks a right", "docs/redis.md")
}

// rights are those that a store needs of a user, for prefix app.
var rights = strings.Fields(`resetkeys ~{app}* resetchannels &{app}* -@all
	+evalsha +eval +info +ping +hello +auth +select +client|setname +wait +role
	+time +publish +subscribe +unsubscribe +pubsub|numsub +pubsub|channels
	+del +exists +rename +persist +set +get +getrange +strlen
	+hset +hsetnx +hincrby +hget +hmget +hexists +hlen +hscan +hkeys +hgetall +hdel
	+rpush +lpush +lset +lindex +llen +lpos +lrange +lpop +rpop
	+zadd +zcard +zcount +zrange +zrangebylex +zrangebyscore +zscore +zrem
	+sadd +scard +smembers +srem`)

func setUser(t *testing.T, server *redistest.Server, more ...string) {
	t.Helper()
	server.Do(t, append([]string{"ACL", "SETUSER", "app", "reset", "on", ">" + secret}, append(append([]string{}, rights...), more...)...)...)
}

// A user with these rights and no others is enough, and each is needed.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	setUser(t, server)
	t.Run("enough", func(t *testing.T) {
		server.Do(t, "ACL", "SETUSER", "app", "~{t*", "&{t*") // the suite needs many stores
		cfg := storagetest.Driver(Open, func(*testing.T) string { return as(server.URL(redistest.Fresh()), "app", secret) })
		storagetest.Run(t, cfg)
		if log := server.Do(t, "ACL", "LOG"); log != "" {
			t.Errorf("the server has refused:\n%s", log)
		}
	})
	missing := []string{"-evalsha", "-eval", "-info", "-time", "-subscribe", "-pubsub|numsub"}
	for _, x := range rights {
		if name, ok := strings.CutPrefix(x, "+"); ok && strings.Contains(" publish del exists rename persist set get getrange strlen hset hsetnx hincrby hget hmget"+
			" hexists hlen hscan hkeys hgetall hdel rpush lpush lset lindex llen lpos lrange lpop rpop zadd zcard zcount zrange zrangebylex zrangebyscore zscore zrem sadd scard smembers srem ", " "+name+" ") {
			missing = append(missing, "-"+name)
		}
	}
	for _, x := range append(missing, "resetkeys", "resetchannels") {
		server.Do(t, "SCRIPT", "FLUSH")
		server.Do(t, "DEL", "{app}")
		setUser(t, server, x)
		refused(t, as(server.URL("app"), "app", secret), storage.ErrUnavailable, "lacks ", "right", "docs/redis.md")
	}
}

// Versions, policies and roles as INFO tells them.
func TestJudge(t *testing.T) {
	t.Parallel()
	good := map[string]string{"redis_version": "7.0.15", "role": "master", "maxmemory_policy": "noeviction", "aof_enabled": "1"}
	for name, x := range map[string]struct {
		changes map[string]string
		durable bool
		want    string // "" is good
	}{
		"good":                {nil, true, ""},
		"Redis 8":             {map[string]string{"redis_version": "8.2.1"}, true, ""},
		"Redis 6":             {map[string]string{"redis_version": "6.2.14"}, true, "Redis 6.2.14; want 7.0"},
		"no version":          {map[string]string{"redis_version": ""}, true, "want 7.0"},
		"Valkey 7.2":          {map[string]string{"valkey_version": "7.2.5"}, true, ""},
		"Valkey 10":           {map[string]string{"valkey_version": "10.0"}, true, ""},
		"Valkey 7.1":          {map[string]string{"valkey_version": "7.1.9"}, true, "Valkey 7.1.9; want 7.2"},
		"a sentinel":          {map[string]string{"redis_mode": "sentinel"}, true, "redis+sentinel:"},
		"a replica":           {map[string]string{"role": "slave"}, true, "replica"},
		"volatile-ttl":        {map[string]string{"maxmemory_policy": "volatile-ttl"}, true, "volatile-ttl"},
		"no file":             {map[string]string{"aof_enabled": "0"}, true, "appendonly"},
		"no file, durable=no": {map[string]string{"aof_enabled": "0"}, false, ""},
	} {
		all := map[string]string{}
		for _, m := range []map[string]string{good, x.changes} {
			for k, v := range m {
				all[k] = v
			}
		}
		err := cmp.Or(unfit(all), judge(all, params{durable: x.durable}))
		if x.want == "" && err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		if x.want != "" {
			wantError(t, err, storage.ErrUnsupported, x.want)
		}
	}
}

// A policy that is changed under a running program stops its writes, and goes on to let it handle what is there.
func TestThePolicyIsChanged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, inner := openStore(t, server.URL("app"))
	inner.watch.end()
	inner.watch.pause = 10 * time.Millisecond
	inner.watch.begin(inner.e.Refuse)
	q := s.Queue("jobs")
	must(t, q.Send(t.Context(), texts("a")))
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	var err error
	until(t, "sends are refused", func() bool { err = q.Send(t.Context(), texts("b")); return err != nil })
	wantError(t, err, storage.ErrUnavailable, "allkeys-lru", "noeviction")
	d, err := q.Receive(t.Context(), 1, time.Hour)
	must(t, err)
	must(t, q.Delete(t.Context(), []storage.Receipt{d[0].Receipt}))
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	until(t, "sends are taken", func() bool { return q.Send(t.Context(), texts("c")) == nil })
}

// A server that is a replica for a while, as the old master of a failover is, refuses writes itself. A look at it keeps
// the store from nothing once calls reach a master.
func TestALookAtADemotedMaster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, inner := openStore(t, server.URL("app"))
	inner.watch.end()
	server.Do(t, "REPLICAOF", "127.0.0.1", "1") // nobody is there
	inner.watch.look(t.Context(), inner.e.Refuse)
	wantError(t, s.Queue("jobs").Send(t.Context(), texts("a")), storage.ErrUnavailable, "replica")
	server.Do(t, "REPLICAOF", "NO", "ONE")
	must(t, s.Queue("jobs").Send(t.Context(), texts("b")))
}

// A server may have been promoted within seconds if its data has an older history.
func TestLately(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		up, offset string
		want       bool
	}{{"13", "-1", false}, {"12", "-1", true}, {"100000", "4711", true}, {"100000", "", false}, {"", "-1", true}} {
		if got := lately(map[string]string{"uptime_in_seconds": x.up, "second_repl_offset": x.offset}); got != x.want {
			t.Errorf("up for %q s, an older history until %q: got %v, want %v", x.up, x.offset, got, x.want)
		}
	}
}

// A store that is closed, or was never opened, leaves no goroutine.
func TestNothingIsLeft(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	before := runtime.NumGoroutine()
	for range 5 {
		s, err := Open(t.Context(), server.URL("app"))
		must(t, err)
		sub := s.Listen("jobs")
		must(t, s.Queue("jobs").Send(t.Context(), texts("x")))
		sub.Close()
		must(t, s.Close())
		refused(t, as(server.URL("app"), "nobody", secret), storage.ErrUnavailable)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Open(ctx, server.URL("app")); err == nil {
			t.Error("opened after the end of the context")
		}
	}
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// FuzzURL reads any URL. No error tells the password.
func FuzzURL(f *testing.F) {
	for _, x := range []string{"", "host", ":6379/?prefix=a", "@host/?prefix=a", "?x@host/?prefix=a", "/y@host?prefix=a", "#@h", "%@h/", "://@h", "@h/?prefix=" + "&ca=x"} {
		f.Add("redis://user:", x)
		f.Add("redis+sentinel://", x)
		f.Add("rediss://:", x)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		p, err := parse(before + secret + after)
		if err == nil && (p.prefix == "" || len(p.server.Addrs) == 0 && p.server.Socket == "") {
			t.Errorf("parse took a URL without a place: %+v", p)
		}
		at := strings.LastIndex(after, "@")
		if err != nil && at >= 0 && strings.HasPrefix(before, "redis://user:") && strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells the password: %v", err)
		}
	})
}
