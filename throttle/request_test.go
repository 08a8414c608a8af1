package throttle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		proxies                 int
		remote, forwarded, want string
	}{
		{0, "192.0.2.1:1234", "198.51.100.7", "192.0.2.1"},
		{0, "[2001:db8:1:2:3:4:5:6]:80", "", "2001:db8:1:2::/64"},
		{0, "[::ffff:192.0.2.1]:80", "", "192.0.2.1"},
		{0, "[fe80::1%eth0]:80", "", "fe80::1"},
		{0, "@", "", "nowhere"},
		{1, "192.0.2.1:1234", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{2, "192.0.2.1:1234", "203.0.113.9, 198.51.100.7", "203.0.113.9"},
		{3, "192.0.2.1:1234", "203.0.113.9, 198.51.100.7", "192.0.2.1"},
		{1, "192.0.2.1:1234", "198.51.100.7:4711", "198.51.100.7"},
		{1, "192.0.2.1:1234", "[2001:db8::1]", "2001:db8::/64"},
		{1, "192.0.2.1:1234", "unknown", "192.0.2.1"},
		{1, "192.0.2.1:1234", "", "192.0.2.1"},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := throttle.Address(c.proxies)(r); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

// An address is that of the connection, or one that the right proxy has told, in one form.
func FuzzAddress(f *testing.F) {
	f.Add(1, "192.0.2.1:1", "1.2.3.4, [::1]:5")
	f.Add(0, "[fe80::1%eth0]:80", ",,")
	f.Add(3, "", "::ffff:1.2.3.4,x,1")
	f.Fuzz(func(t *testing.T, proxies int, remote, forwarded string) {
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = remote
		direct := throttle.Address(0)(r)
		r.Header["X-Forwarded-For"] = []string{forwarded}
		got := throttle.Address(proxies)(r)
		if proxies <= 0 && got != direct {
			t.Errorf("the header of a stranger counts: %q", got)
		}
		if got == "nowhere" {
			return
		}
		ip, err := netip.ParseAddr(got)
		network, err2 := netip.ParsePrefix(got)
		if !(err == nil && (ip.Is4() || ip.IsLinkLocalUnicast())) && !(err2 == nil && network.Addr().Is6() && network.Bits() == 64 && network == network.Masked()) {
			t.Errorf("got %q", got)
		}
	})
}

// An ID is read from a JSON object, and the body stays whole, whatever it is.
func FuzzJSONMember(f *testing.F) {
	f.Add([]byte(`{"id":"a","x":{"id":"b"}}`), false)
	f.Add([]byte(`{"x":[1,{}],"id":"\ud83d"}`), true)
	f.Add([]byte(`{"id":7}`), false)
	f.Add([]byte(`[{"id":"a"}]`), false)
	f.Add([]byte(`{"id":"a"`), true)
	f.Add([]byte(``), false)
	f.Add(bytes.Repeat([]byte(" "), 64<<10+1), true)
	f.Fuzz(func(t *testing.T, body []byte, unknown bool) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		if unknown {
			r.ContentLength = -1
		}
		id := throttle.JSONMember("id")(r)
		if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("the body has become %q, %v", got, err)
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) != nil || strings.Count(strings.ToLower(string(body)), "id") != 1 || strings.Contains(string(body), `\`) {
			return // it is no object, or it isn't told which of several members counts
		}
		var want string
		if err := json.Unmarshal(members["id"], &want); id != want && err == nil {
			t.Errorf("got %q, want %q", id, want)
		}
	})
}

// A body that can't be read fails where the handler reads it.
func TestJSONMemberOfABrokenBody(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{`{"id":"a"}`: "a", `{"id":"a`: ""} {
		broken := errors.New("broken")
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader(part), iotest.ErrReader(broken)))
		if id := throttle.JSONMember("id")(r); id != want {
			t.Errorf("%s: the ID is %q", part, id)
		}
		if body, err := io.ReadAll(r.Body); string(body) != part || !errors.Is(err, broken) {
			t.Errorf("got %q, %v", body, err)
		}
	}
}

// A large body has its ID, wherever the ID is, and stays whole. A flood has a bound.
func TestJSONMemberOfALargeBody(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1000<<10)
	endless := strings.Repeat(" ", 3<<20)
	for name, c := range map[string]struct {
		body string
		id   string
		most int // bytes that are read
	}{
		"first":    {`{"id":"a","text":"` + text + `"}`, "a", 1 << 20},
		"last":     {`{"text":"` + text + `","id":"a"}`, "a", 1 << 20},
		"endless":  {`{"id":"a","text":"` + endless + `"}`, "", 1 << 20},
		"too late": {`{"text":"` + endless + `","id":"a"}`, "", 1 << 20},
		"spaces":   {endless, "", 1 << 20},
	} {
		for _, length := range []int64{int64(len(c.body)), -1} {
			read := 0
			r := httptest.NewRequest("POST", "/", io.TeeReader(strings.NewReader(c.body), counter{&read}))
			r.ContentLength = length
			if id := throttle.JSONMember("id")(r); id != c.id || read > c.most {
				t.Errorf("%s: the ID is %q, after %d bytes; want %q, after %d at most", name, id, read, c.id, c.most)
			}
			if body, err := io.ReadAll(r.Body); string(body) != c.body || err != nil {
				t.Errorf("%s: the body has %d bytes, %v; want %d", name, len(body), err, len(c.body))
			}
		}
	}
}

// A handler may take the other one of two members for the ID, so a body with two has none. It is so for names that the
// JSON package takes for one.
func TestJSONMemberOfABodyThatHasItTwice(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":"a","id":"b"}`:                "",
		`{"id":"a","id":"a"}`:                "",
		`{"id":"a","x":{"id":"b"},"ID":"b"}`: "",
		`{"Id":"b","id":"a"}`:                "",
		`{"id":"a","id":null}`:               "",
		`{"id":7,"id":"a"}`:                  "",
		`{"id":"a","\u0069d":"b"}`:           "",
		`{"id":"a","x":[{"id":"b"}]}`:        "a",
		`{"id":"a"}{"id":"b"}`:               "a",
		`{"id":"a","x":}`:                    "",
		`{"ID":"a"}`:                         "",
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		if id := throttle.JSONMember("id")(r); id != want {
			t.Errorf("%s: the ID is %q, want %q", body, id, want)
		}
		if got, err := io.ReadAll(r.Body); string(got) != body || err != nil {
			t.Errorf("%s: the body has become %q, %v", body, got, err)
		}
	}
}

type counter struct{ n *int }

func (c counter) Write(b []byte) (int, error) { *c.n += len(b); return len(b), nil }

// A repeat of a large order that was accepted is free.
func TestALargeRepeatIsFree(t *testing.T) {
	t.Parallel()
	d, err := throttle.NewRateLimiter("test", throttle.Config{ID: throttle.JSONMember("id"), Tenant: func(*http.Request) string { return "a" }, Quotas: []throttle.Quota{{Name: "orders", Amount: 1, Per: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	h := d.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	for _, c := range []struct {
		id   string
		want int
	}{{"7", http.StatusOK}, {"7", http.StatusOK}, {"8", http.StatusTooManyRequests}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(`{"text":"`+strings.Repeat("x", 100<<10)+`","id":"`+c.id+`"}`)))
		if w.Code != c.want {
			t.Errorf("order %s: got %d, want %d", c.id, w.Code, c.want)
		}
	}
}
