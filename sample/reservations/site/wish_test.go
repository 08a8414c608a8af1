package site_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

// png is a picture of one point.
var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89")

const kitchenKey = "a-password-for-tests"

// booked books a table, and returns its ID.
func (s *stack) booked(date string) string {
	s.t.Helper()
	id := channel.NewID()
	s.postJSON(body(id, date, 2)).want(s.t, http.StatusAccepted)
	s.becomes("/reservations/"+id, reservations.Accepted)
	return id
}

// ask asks for the key of an upload.
func (s *stack) askWish(id, name, kind string, size int64) answer {
	s.t.Helper()
	text, err := json.Marshal(map[string]any{"name": name, "type": kind, "size": size})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do("POST", "/reservations/"+id+"/wish", strings.NewReader(string(text)), "Content-Type", "application/json")
}

// put uploads a file with its key, and waits until it was checked.
func (s *stack) put(key valet.Key, content []byte) valet.Status {
	s.t.Helper()
	parts := decode[valet.PartKeys](s.t, s.do("POST", key.URL+"/parts?n=1", nil).want(s.t, http.StatusOK))
	url := parts.Parts[0].URL
	if strings.HasPrefix(url, "/") {
		url = s.url + url
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, url, strings.NewReader(string(content)))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	s.do("POST", key.URL+"/complete", nil).want(s.t, http.StatusAccepted)
	var last valet.Status
	eventually(s.t, "the file is checked", func() bool {
		last = decode[valet.Status](s.t, s.get(key.URL))
		return last.State != valet.StateGranted && last.State != valet.StateArrived // the command is on its way, or the check
	})
	return last
}

// evening is what the kitchen sees of a date.
func (s *stack) evening(date string) (e struct {
	People int
	Guests []struct {
		Number, Name, Wish, WishName string
		Picture                      bool
	}
}) {
	s.t.Helper()
	text := s.get("/evenings/"+date, "Authorization", basic("kitchen", kitchenKey), "Accept", "application/json").want(s.t, http.StatusOK).body
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		s.t.Fatal(err)
	}
	return e
}

func basic(user, key string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+key))
}

// A guest adds a picture, and the kitchen sees it after the check.
func TestWish(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{KitchenKey: kitchenKey})
	s.work()
	id := s.booked(in(3))
	if e := s.evening(in(3)); len(e.Guests) != 1 || e.People != 2 || e.Guests[0].Wish != "" {
		t.Errorf("before: got %+v, want a guest without a wish", e)
	}
	s.get("/reservations/"+id, "Accept", "text/html").has(t, `id="wish"`, "/static/wish.")
	key := decode[valet.Key](t, s.askWish(id, "cake.png", "image/png", int64(len(png))).want(t, http.StatusCreated, "Cache-Control", "no-store"))
	if got := s.put(key, png); got.State != valet.StateClean {
		t.Fatalf("got %+v, want it accepted", got)
	}
	eventually(t, "the kitchen sees the wish", func() bool { return s.evening(in(3)).Guests[0].Wish != "" })
	g := s.evening(in(3)).Guests[0]
	if g.WishName != "cake.png" || !g.Picture {
		t.Errorf("got %+v", g)
	}
	if got := s.get(g.Wish).want(t, http.StatusOK, "Content-Type", "image/png", "Content-Disposition", "inline; filename=cake.png").body; got != string(png) {
		t.Errorf("got %q", got)
	}
	s.get("/reservations/"+id, "Accept", "text/html").has(t, "cake.png")
	s.get("/evenings/"+in(3), "Authorization", basic("kitchen", kitchenKey), "Accept", "text/html").has(t, `alt="Menu wish of Ada Lovelace: cake.png"`)
	if text := s.log.String(); strings.Contains(text, id) || strings.Contains(text, "v1.") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// Nobody gets a key without a reservation that may have a wish, nor for a file that can't be one.
func TestWishesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	size := int64(len(png))
	pending := channel.NewID()
	s.postJSON(body(pending, in(3), 2)).want(t, http.StatusAccepted)
	s.askWish(pending, "cake.png", "image/png", size).want(t, http.StatusConflict, "Content-Type", "application/problem+json")
	if page := s.get("/reservations/"+pending, "Accept", "text/html"); strings.Contains(page.body, `id="wish"`) {
		t.Error("a receipt that waits has the form")
	}
	s.work()
	id := s.booked(in(3))
	for _, test := range []struct {
		what, id, name, kind string
		size                 int64
		want                 int
	}{
		{"no reservation", channel.NewID(), "a.png", "image/png", size, http.StatusNotFound},
		{"a key of a reservation, as names have it", reservations.Key(id), "a.png", "image/png", size, http.StatusNotFound},
		{"no ID at all", "..%2f", "a.png", "image/png", size, http.StatusNotFound},
		{"too large", id, "a.png", "image/png", reservations.MaxWish + 1, http.StatusRequestEntityTooLarge},
		{"empty", id, "a.png", "image/png", 0, http.StatusUnprocessableEntity},
		{"negative", id, "a.png", "image/png", -1, http.StatusUnprocessableEntity},
		{"a script", id, "a.svg", "image/svg+xml", size, http.StatusUnprocessableEntity},
		{"a page", id, "a.html", "text/html", size, http.StatusUnprocessableEntity},
		{"no type", id, "a.png", "", size, http.StatusUnprocessableEntity},
		{"a name with an end of line", id, "a\n.png", "image/png", size, http.StatusUnprocessableEntity},
	} {
		if got := s.askWish(test.id, test.name, test.kind, test.size); got.StatusCode != test.want {
			t.Errorf("%s: got %s, want %d: %s", test.what, got.Status, test.want, got.body)
		}
	}
	for kind, text := range map[string]string{"application/x-www-form-urlencoded": "name=a.png", "text/plain": `{"name":"a.png","type":"image/png","size":5}`} {
		s.do("POST", "/reservations/"+id+"/wish", strings.NewReader(text), "Content-Type", kind).want(t, http.StatusUnsupportedMediaType)
	}
	s.do("POST", "/reservations/"+id+"/wish", strings.NewReader("{"), "Content-Type", "application/json").want(t, http.StatusBadRequest)
	s.do("POST", "/reservations/"+id+"/cancel", nil).want(t, http.StatusAccepted)
	s.becomes("/reservations/"+id, reservations.Cancelled)
	s.askWish(id, "a.png", "image/png", size).want(t, http.StatusConflict)
}

// A file that isn't what it says is refused, and the kitchen keeps the wish before it.
func TestWishThatLies(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{KitchenKey: kitchenKey})
	s.work()
	id := s.booked(in(3))
	wish := func(name string, content []byte, want valet.State) {
		t.Helper()
		key := decode[valet.Key](t, s.askWish(id, name, "image/png", int64(len(content))).want(t, http.StatusCreated))
		if got := s.put(key, content); got.State != want {
			t.Errorf("%s: got %+v, want %s", name, got, want)
		}
	}
	wish("good.png", png, valet.StateClean)
	wish("evil.png", []byte("<!DOCTYPE html><script>alert(1)</script>"), valet.StateRejected)
	page := func() string { return s.get("/reservations/"+id, "Accept", "text/html").body }
	eventually(t, "the receipt tells why", func() bool { return strings.Contains(page(), "the content is text/html") })
	if !strings.Contains(page(), "good.png") {
		t.Error("the receipt doesn't have the wish that counts")
	}
	if g := s.evening(in(3)).Guests[0]; g.WishName != "good.png" {
		t.Errorf("the kitchen sees %+v", g)
	}
}

// A reservation gets so many keys in an hour, and no other one pays for that.
func TestTooManyWishes(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	s.work()
	id, other := s.booked(in(3)), s.booked(in(3))
	for range 10 {
		s.askWish(id, "a.png", "image/png", 5).want(t, http.StatusCreated)
	}
	if got := s.askWish(id, "a.png", "image/png", 5).want(t, http.StatusTooManyRequests).has(t, "Please try again in"); got.Header.Get("Retry-After") == "" {
		t.Error("the refusal doesn't say when to come back")
	}
	s.askWish(other, "a.png", "image/png", 5).want(t, http.StatusCreated)
}

// The restaurant's page is for whoever has its password.
func TestEveningIsForTheKitchen(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{KitchenKey: kitchenKey})
	for what, header := range map[string][]string{
		"nothing":          nil,
		"another password": {"Authorization", basic("kitchen", kitchenKey+"x")},
		"no password":      {"Authorization", basic("kitchen", "")},
		"another user":     {"Authorization", basic("ada", kitchenKey)},
		"a token":          {"Authorization", "Bearer " + kitchenKey},
	} {
		got := s.get("/evenings/"+in(3), header...)
		if got.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: got %s", what, got.Status)
		}
	}
	s.get("/evenings/today", "Authorization", basic("kitchen", kitchenKey)).want(t, http.StatusNotFound)
	newStack(t, site.Config{}).get("/evenings/"+in(3), "Authorization", basic("kitchen", "")).want(t, http.StatusNotFound)
	if _, err := site.New(s.channels, site.Config{KitchenKey: "short"}); err == nil {
		t.Error("a short password: got no error")
	}
}

// Where the store keeps no files, the site has no wishes.
func TestSiteWithoutWishes(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	bare, err := site.New(s.channels, site.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.work()
	id := s.booked(in(3))
	server := httptest.NewServer(bare)
	t.Cleanup(server.Close)
	s.url = server.URL
	if page := s.get("/reservations/"+id, "Accept", "text/html").want(t, http.StatusOK); strings.Contains(page.body, "wish") {
		t.Error("the receipt speaks of wishes")
	}
	s.askWish(id, "a.png", "image/png", 5).want(t, http.StatusNotFound)
	s.get("/files/upload.js").want(t, http.StatusNotFound)
}

// Only a page that uploads or shows files may reach the origin of the store's own keys.
func TestWishPolicy(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *stack) {
		s.work()
		id := s.booked(in(3))
		origins, err := s.files.Sources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more := strings.Join(append([]string{""}, origins...), " ")
		for path, allowed := range map[string]string{"/": "", "/reservations/" + id: more} {
			csp := s.get(path, "Accept", "text/html").want(t, http.StatusOK).Header.Get("Content-Security-Policy")
			if want := fmt.Sprintf("img-src 'self'%s; connect-src 'self'%[1]s;", allowed); !strings.Contains(csp, want) {
				t.Errorf("%s: got %s, want %s", path, csp, want)
			}
		}
	})
}
