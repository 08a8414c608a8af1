package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
)

// said answers each request by what its header says: the status, or how the handler goes wrong.
func said(w http.ResponseWriter, r *http.Request) {
	switch do := r.Header.Get("Do"); do {
	case "panic":
		panic(http.ErrAbortHandler)
	case "goexit":
		runtime.Goexit()
	case "wait":
		<-r.Context().Done()
	case "nothing":
	case "write":
		_, _ = io.WriteString(w, "done")
	case "flush":
		_ = http.NewResponseController(w).Flush()
		w.(http.Flusher).Flush()
	case "read":
		_, _ = io.Copy(io.Discard, r.Body)
	default:
		status := http.StatusAccepted
		_, _ = fmt.Sscan(do, &status)
		w.WriteHeader(status)
	}
}

func byHeader(r *http.Request) string { return r.Header.Get("Tenant") }

func byKey(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

// post sends a request with a header, given in pairs, and returns the answer.
func post(t *testing.T, h http.Handler, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() { // a handler may end the goroutine
		defer close(done)
		defer func() { _ = recover() }()
		h.ServeHTTP(w, r)
	}()
	<-done
	return w
}

// inWords is an answer, with the secret part of its fields replaced.
func inWords(w *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintln(&b, w.Code)
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After", "Content-Type", "Cache-Control"} {
		if v := strings.Join(w.Header().Values(name), " & "); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	b.WriteString(w.Body.String())
	return regexp.MustCompile(`pk=:[A-Za-z0-9+/]{12}:`).ReplaceAllString(b.String(), "pk=:PK:")
}

// The answers are those of RFC 9110, RFC 9457 and the draft.
func TestAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Key: []byte("a secret of 16 bytes or more"), Tenant: byHeader,
			Quotas: []throttle.Quota{{Name: "burst", Amount: 2, Per: time.Minute}, {Name: "daily", Amount: 100, Per: 24 * time.Hour}},
			Plans:  map[string][]throttle.Quota{"units": {{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}, {Name: "under-way", Amount: 1, Unit: throttle.Concurrent}}, "free": nil},
			Plan:   func(tenant string) string { return strings.TrimSuffix(tenant, "-1") },
		})
		h := d.Serve(http.HandlerFunc(said))
		const body429 = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"The quota is used up. Send the request again in %d seconds.","violated-policies":["%s"]}` + "\n"
		policy := "RateLimit-Policy: \"burst\";q=2;w=60;pk=:PK:, \"daily\";q=100;w=86400;pk=:PK:\n"
		units := "RateLimit-Policy: \"body\";q=1000;qu=\"content-bytes\";w=10;pk=:PK:, \"under-way\";q=1;qu=\"concurrent-requests\";pk=:PK:\n"
		const problem = "Content-Type: application/problem+json\nCache-Control: no-store\n"
		for _, c := range []struct {
			name, tenant, do string
			sleep            time.Duration
			want             string // with %d for Retry-After
			after            int
		}{
			{name: "the first request", tenant: "a", want: "202\n" + policy + "RateLimit: \"burst\";r=1;pk=:PK:, \"daily\";r=99;pk=:PK:\n"},
			{name: "a redirection", tenant: "a", do: "303", want: "303\n" + policy},
			{name: "the quota is used up", tenant: "a", want: "429\n" + policy + "RateLimit: \"burst\";r=0;t=30;pk=:PK:, \"daily\";r=98;pk=:PK:\nRetry-After: %d\n" + problem + body429, after: 30},
			{name: "later", tenant: "a", sleep: 29*time.Second + time.Nanosecond, want: "429\n" + policy + "RateLimit: \"burst\";r=0;t=1;pk=:PK:, \"daily\";r=98;pk=:PK:\nRetry-After: %d\n" + problem + body429, after: 1},
			{name: "in time", tenant: "a", sleep: time.Second, want: "202\n" + policy + "RateLimit: \"burst\";r=0;t=30;pk=:PK:, \"daily\";r=97;pk=:PK:\n"},
			{name: "no authentication", tenant: "b", do: "401", want: "401\n"},
			{name: "no permission", tenant: "b", do: "403", want: "403\n"},
			{name: "after those", tenant: "b", do: "write", want: "200\n" + policy + "RateLimit: \"burst\";r=1;pk=:PK:, \"daily\";r=99;pk=:PK:\nContent-Type: text/plain; charset=utf-8\ndone"},
			{name: "a failure", tenant: "b", do: "500", want: "500\n" + policy + "RateLimit: \"burst\";r=0;t=30;pk=:PK:, \"daily\";r=98;pk=:PK:\n"},
			{name: "other units", tenant: "units", do: "flush", want: "200\n" + units + "RateLimit: \"body\";r=1000;pk=:PK:, \"under-way\";r=0;pk=:PK:\n"},
			{name: "a panic ends the request", tenant: "units", do: "panic", want: "200\n"},
			{name: "the end of a goroutine ends it", tenant: "units", do: "goexit", want: "200\n"},
			{name: "a tenant of the same plan", tenant: "units-1", do: "nothing", want: "200\n" + units + "RateLimit: \"body\";r=1000;pk=:PK:, \"under-way\";r=0;pk=:PK:\n"},
			{name: "a plan without quotas", tenant: "free", want: "202\n"},
		} {
			time.Sleep(c.sleep)
			w := post(t, h, "Tenant", c.tenant, "Do", c.do)
			wanted := c.want
			if c.after > 0 {
				var after int
				if _, err := fmt.Sscan(w.Header().Get("Retry-After"), &after); err != nil || after < c.after || after > c.after*5/4+1 {
					t.Errorf("%s: Retry-After is %d; want %d or a little more", c.name, after, c.after)
				}
				wanted = strings.Replace(fmt.Sprintf(c.want, after, after, "burst"), "in 1 seconds", "in 1 second", 1)
			}
			want(t, c.name, inWords(w), wanted)
		}
	})
}

// A concurrent quota is held as long as the handler runs.
func TestUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "under-way", Amount: 1, Unit: throttle.Concurrent}}})
		h := d.Serve(http.HandlerFunc(said))
		ctx, end := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
		r.Header.Set("Do", "wait")
		go h.ServeHTTP(httptest.NewRecorder(), r)
		synctest.Wait()
		w := post(t, h)
		want(t, "beside another one", fmt.Sprint(w.Code, w.Header().Get("RateLimit") != ""), "429 true")
		end()
		synctest.Wait()
		want(t, "afterwards", post(t, h).Code, http.StatusAccepted)
	})
}

// The partition key that clients see of a tenant is the same for all its requests and processes with the same key,
// another one for each tenant, and never the tenant.
func TestPartitionKey(t *testing.T) {
	t.Parallel()
	see := func(key string, header ...string) string {
		d := newLimiter(t, throttle.Config{Key: []byte(key), Tenant: byHeader, Quotas: []throttle.Quota{{Name: "a", Amount: 10, Per: time.Hour}}})
		w := post(t, d.Serve(http.HandlerFunc(said)), header...)
		return regexp.MustCompile(`pk=:(.*):`).FindString(w.Header().Get("RateLimit"))
	}
	const one, other = "0123456789abcdef", "0123456789abcdeg"
	want(t, "in two processes", see(one, "Tenant", "ada"), see(one, "Tenant", "ada"))
	all := map[string]bool{}
	for _, x := range []string{see(one, "Tenant", "ada"), see(other, "Tenant", "ada"), see(one, "Tenant", "bob"), see(one), see(one, "Tenant", "192.0.2.1")} {
		all[x] = true
	}
	want(t, "different ones", len(all), 5)
}

// Early hints have no fields: nobody knows yet whether the request will be authenticated.
func TestEarlyHints(t *testing.T) {
	t.Parallel()
	d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 5, Per: time.Hour}}})
	server := httptest.NewServer(d.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
	})))
	defer server.Close()
	early := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		early++
		want(t, "the field in early hints", h.Get("RateLimit"), "")
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, "POST", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	want(t, "early hints", early, 1)
	want(t, "the field in the answer", answer.Header.Get("RateLimit") != "", true)
}

// A request that fails to authenticate costs its tenant nothing. Without a tenant it counts for its address, and with
// one it learns nothing of it.
func TestFailedAuthenticationCostsItsTenantNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		proved := func(r *http.Request) string {
			if r.Header.Get("Password") != "right" {
				return ""
			}
			return byHeader(r)
		}
		for name, tenant := range map[string]func(*http.Request) string{"authentication before the limiter": proved, "authentication behind it": byHeader} {
			d := newLimiter(t, throttle.Config{Tenant: tenant, Quotas: []throttle.Quota{{Name: "a", Amount: 5, Per: time.Hour}}})
			h := d.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Password") != "right" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			before := name == "authentication before the limiter"
			for n := range 50 {
				w := post(t, h, "Tenant", "victim", "Password", "wrong")
				if told := w.Header().Get("RateLimit")+w.Header().Get("RateLimit-Policy") != ""; told != before || (w.Code == http.StatusUnauthorized) != (!before || n < 5) {
					t.Fatalf("%s: try %d of a stranger got %d %v", name, n, w.Code, w.Header())
				}
			}
			for n := range 6 {
				w := post(t, h, "Tenant", "victim", "Password", "right")
				if (w.Code == http.StatusOK) != (n < 5) {
					t.Errorf("%s: request %d of the tenant: %d", name, n, w.Code)
				}
			}
		}
	})
}

// A client that sends again what was accepted is not punished: ten repeats are let through, though nothing is left. A
// refused or failed request was not accepted, and an ID of one tenant is nothing to another.
func TestRepeatsAreFree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		d := newLimiter(t, throttle.Config{Tenant: byHeader, ID: byKey, Metrics: metrics, Quotas: []throttle.Quota{{Name: "a", Amount: 2, Per: time.Hour}}})
		h := d.Serve(http.HandlerFunc(said))
		send := func(tenant, id, do string) int {
			return post(t, h, "Tenant", tenant, "Idempotency-Key", id, "Do", do).Code
		}
		want(t, "the first", send("a", "1", ""), 202)
		for n := range 300 { // some of them share a part of the memory with the first
			tenant := fmt.Sprint("other", n)
			send(tenant, "", "")
			send(tenant, "", "")
			if got := send(tenant, "1", ""); got != 429 {
				t.Fatalf("the ID of another tenant is known to %s: %d", tenant, got)
			}
		}
		want(t, "a failure", send("a", "2", "503"), 503)
		for n := range 15 {
			if got := send("a", "1", ""); (got == 202) != (n < 10) {
				t.Errorf("repeat %d: %d", n, got)
			}
			want(t, "what failed", send("a", "2", ""), 429)
			want(t, "what is new", send("a", fmt.Sprint("new", n), ""), 429)
			want(t, "without an ID", send("a", "", ""), 429)
			want(t, "with a long ID", send("a", strings.Repeat("x", 257), ""), 429)
		}
		want(t, "another tenant", send("b", "1", "404"), 404)
		want(t, "another tenant", send("b", "3", ""), 202)
		want(t, "another tenant's repeat of the first's ID", send("b", "1", ""), 429)
		want(t, "metrics", counted(t, metrics), `millrace_throttle_accepted_total{limiter=test} 604
millrace_throttle_degraded_total{limiter=test} 0
millrace_throttle_refused_total{limiter=test,quota=a} 366
millrace_throttle_repeats_total{limiter=test} 10
`)
	})
}

// counted are the metrics in words.
func counted(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range all {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Fprintf(&b, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue())
		}
	}
	return b.String()
}

// Config.Known knows what other processes accepted. It is asked only about a request that would be refused, and not
// without end.
func TestKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked, broken := 0, false
		d := newLimiter(t, throttle.Config{
			Quotas: []throttle.Quota{{Name: "a", Amount: 1, Per: time.Hour}},
			Known: func(ctx context.Context, tenant, id string) (bool, error) {
				if _, bounded := ctx.Deadline(); !bounded || tenant != "a" {
					t.Errorf("asked about %q, with a bound: %v", tenant, bounded)
				}
				asked++
				if broken {
					return true, errors.New("broken")
				}
				return strings.HasPrefix(id, "old"), nil
			},
		})
		send := func(id string) bool {
			p, _ := ask(t, d, throttle.Call{Tenant: "a", ID: id})
			if p != nil {
				p.End(throttle.Accepted)
			}
			return p != nil
		}
		want(t, "the first", send("1"), true)
		want(t, "a repeat", send("1"), true)
		want(t, "asked while nothing was refused", asked, 0)
		for n := range 15 {
			want(t, fmt.Sprint("repeat ", n, " of what another process accepted"), send("old"), n < 10)
		}
		want(t, "asked about one ID", asked, 1)
		want(t, "what nobody accepted", send("new"), false)
		want(t, "without an ID", send(""), false)
		for n := range 100 {
			send(fmt.Sprint("new", n))
		}
		want(t, "asked in no time", asked, 10)
		time.Sleep(10 * time.Second)
		want(t, "another old one", send("older"), true)
		broken = true
		want(t, "an error", send("oldest"), false)
		want(t, "asked later", asked, 12)
	})
}

// An address has no name that Config.Known could take for a tenant's, and a quota may have any name.
func TestKnownOfAnAddress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked := 0
		d := newLimiter(t, throttle.Config{
			ID: byKey, Quotas: []throttle.Quota{{Name: "known", Amount: 1, Per: 10 * time.Second}},
			Known: func(_ context.Context, tenant, _ string) (bool, error) {
				asked++
				want(t, "the tenant", tenant, "")
				return false, nil
			},
		})
		h := d.Serve(http.HandlerFunc(said))
		for n := range 4 {
			want(t, "status", post(t, h, "Idempotency-Key", fmt.Sprint(n)).Code == http.StatusTooManyRequests, n > 0)
		}
		want(t, "asked", asked, 3)
	})
}

// A handler may write its header while another goroutine reads the body for it, as a proxy does.
func TestABodyIsReadWhileTheHeaderIsWritten(t *testing.T) {
	t.Parallel()
	d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "body", Amount: 1 << 40, Per: time.Hour, Unit: throttle.Bytes}}})
	h := d.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, r.Body)
		}()
		w.WriteHeader(http.StatusAccepted)
		<-read
	}))
	for range 20 {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", io.MultiReader(strings.NewReader("x"), strings.NewReader("y")))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want(t, "status", w.Code, http.StatusAccepted)
	}
}

// A body whose length nobody told is charged as it is read.
func TestABodyWithoutALength(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}}})
		h := d.Serve(http.HandlerFunc(said))
		send := func(do string, bytes int) int {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(strings.Repeat("x", bytes)))
			r.ContentLength = -1
			r.Header.Set("Do", do)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		want(t, "a body that nobody reads", send("202", 5000), 202)
		want(t, "a body that is read", send("read", 5000), 200)
		want(t, "at once", send("read", 1), 429)
		time.Sleep(40*time.Second - time.Nanosecond)
		want(t, "before it is paid", send("read", 0), 429)
		time.Sleep(time.Nanosecond)
		want(t, "when it is paid", send("read", 10), 200)
	})
}

// A body that fails to authenticate is given back, too, though it came without a length.
func TestAVoidBodyWithoutALength(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{
			Tenant: func(*http.Request) string { return "a" },
			Quotas: []throttle.Quota{{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}},
		})
		h := d.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		for range 20 {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 600)), strings.NewReader("y")))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want(t, "status", w.Code, http.StatusUnauthorized)
		}
	})
}

// An answer speaks of one second, and of several. Which tenant waits longer is chance.
func TestAnswersCountSeconds(t *testing.T) {
	t.Parallel()
	d := newLimiter(t, throttle.Config{Tenant: byHeader, Quotas: []throttle.Quota{{Name: "a", Amount: 1}}})
	h := d.Serve(http.HandlerFunc(said))
	seen := map[string]int{}
	for i := 0; i < 1000 && len(seen) < 2; i++ {
		w := post(t, h, "Tenant", strconv.Itoa(i))
		for w.Code != http.StatusTooManyRequests {
			w = post(t, h, "Tenant", strconv.Itoa(i))
		}
		after := w.Header().Get("Retry-After")
		seen[after]++
		text := map[string]string{"1": "again in 1 second.", "2": "again in 2 seconds."}[after]
		if text == "" || !strings.Contains(w.Body.String(), text) {
			t.Errorf("Retry-After %s: got %s, want %q", after, w.Body, text)
		}
	}
	want(t, "kinds of answers", len(seen), 2)
}

// All faults are told at once.
func TestFaults(t *testing.T) {
	t.Parallel()
	_, err := throttle.NewRateLimiter("A limiter", throttle.Config{
		Quotas: []throttle.Quota{
			{Name: "backlog", Amount: -1}, {Name: "a", Amount: 1, Per: time.Millisecond}, {Name: "b", Amount: 1, Burst: 2}, {Name: "c", Amount: 1, Unit: 9},
			{Name: "d", Amount: 1, Unit: throttle.Concurrent, Per: time.Second},
		},
		Plans: map[string][]throttle.Quota{"gold": {{Name: "a", Amount: 1}}}, MaxKeys: 5, Key: []byte("short"),
		Backlog: throttle.Backlog{Hard: 10, Within: -1, Every: 1},
	})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, words := range []string{
		`name "A limiter"`, `quota "backlog": want a Name`, `quota "backlog": Amount is -1`, `quota "a": Per is 1ms`, `quota "b": Burst is 2`, `quota "c": Unit is 9`,
		`quota "d": Per is 1s, Burst 0`, "Plan is nil", "MaxKeys is 5", "Key has 5 bytes", "a limit needs a Queue", "Within -1ns",
		"Every is 1ns",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error doesn't say %q:\n%v", words, err)
		}
	}
	if text := err.Error(); !errors.Is(err, storage.ErrInvalid) || strings.Count(text, storage.ErrInvalid.Error()) != 1 || strings.Contains(text, "\n") || strings.Contains(text, "Burst is -1") {
		t.Errorf("got %q, want that it is invalid, once and on one line, and nothing of a Burst that nobody has set", text)
	}
	const two = `invalid argument: quota "a": Amount is 0; want 1 to 999999999999999; quota "b": Over is Degrade; a quota of Concurrent can't degrade`
	if err := throttle.CheckQuotas([]throttle.Quota{{Name: "a"}, {Name: "b", Amount: 1, Unit: throttle.Concurrent, Over: throttle.Degrade}}); err == nil || err.Error() != two {
		t.Errorf("two quotas: got %v, want %s", err, two)
	}
	if err := newLimiter(t, throttle.Config{}).Set(nil, map[string][]throttle.Quota{"gold": nil}); err == nil {
		t.Error("plans that nobody has were taken")
	}
	if _, err := throttle.NewRateLimiter("test", throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 1}, {Name: "a", Amount: 2}}}); err == nil || !strings.Contains(err.Error(), "two quotas") {
		t.Errorf("two quotas with one name: %v", err)
	}
	d := newLimiter(t, throttle.Config{})
	want(t, "without quotas", admitted(t, d, "a", 100, throttle.Spent), 100)
}

// No time that a rate limiter is given is so long that a multiple of it is short.
func TestLongTimesOfABacklog(t *testing.T) {
	t.Parallel()
	const most, year = time.Duration(math.MaxInt64), 366 * 24 * time.Hour
	q := worldtest.OpenStore(t, worldtest.Virtual).Queue("orders")
	for _, b := range []throttle.Backlog{{Hard: 1, Every: most}, {Hard: 1, Every: most / 3}, {Within: most}, {Within: year + 1}} {
		b.Queue = q
		if _, err := throttle.NewRateLimiter("test", throttle.Config{Backlog: b}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: got %v", b, err)
		}
	}
	for _, b := range []throttle.Backlog{{Hard: 1, Every: time.Hour}, {Within: year}} {
		b.Queue = q
		if _, err := throttle.NewRateLimiter("test", throttle.Config{Backlog: b}); err != nil {
			t.Errorf("%+v: got %v", b, err)
		}
	}
}

// Refused answers for a program, and may use the Refusal.
func TestRefused(t *testing.T) {
	t.Parallel()
	d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 1, Per: time.Hour}}, Refused: func(w http.ResponseWriter, _ *http.Request, x *throttle.Refusal) {
		x.SetFields(w.Header())
		http.Error(w, x.Error(), x.Status())
	}})
	h := d.Serve(http.HandlerFunc(said))
	post(t, h)
	w := post(t, h)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.HasPrefix(w.Body.String(), "throttle: rate limiter test: used up: a; send the request again in ") {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}
