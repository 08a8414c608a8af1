package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A gossip is a mail server that repeats in its answers everything it receives. The recipient decides what it
// answers.
type gossip struct {
	addr  string
	taken atomic.Int64
}

func newGossip(t *testing.T) *gossip {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gossip{addr: ln.Addr().String()}
	srv := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &gossipSession{g: g}, nil }))
	srv.Domain, srv.ErrorLog = "test.example", log.New(io.Discard, "", 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(ln) // ends with Close
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return g
}

type gossipSession struct {
	g  *gossip
	to string
}

func (s *gossipSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *gossipSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	switch {
	case strings.HasPrefix(to, "refused"):
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "nobody here is called " + to}
	case strings.HasPrefix(to, "later"):
		return &smtp.SMTPError{Code: 451, Message: "come back for " + to}
	}
	return nil
}

func (s *gossipSession) Data(r io.Reader) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if strings.HasPrefix(s.to, "spam") {
		return &smtp.SMTPError{Code: 554, Message: "spam: " + strings.Join(strings.Fields(string(body)), " ")}
	}
	s.g.taken.Add(1)
	return nil
}
func (*gossipSession) Reset()        {}
func (*gossipSession) Logout() error { return nil }

// A scene is the whole sample in a folder, with all its output that anybody could see.
type scene struct {
	t        *testing.T
	dir      string
	worker   string // programs
	millrace string
	secret   string // part of every name, address and ID of a person, and of nothing else
	seen     map[string]string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	var b [6]byte
	rand.Read(b[:])
	s := &scene{t: t, dir: t.TempDir(), secret: "zq" + hex.EncodeToString(b[:]), seen: map[string]string{}}
	s.worker, s.millrace = boottest.Other(t, bin, "../worker"), boottest.Other(t, bin, "../millrace")
	return s
}

// start starts a program that logs as much as it can.
func (s *scene) start(bin string, args ...string) *boottest.Program {
	s.t.Helper()
	return boottest.Start(s.t, bin, s.dir, nil, append([]string{"-log", "debug"}, args...)...)
}

// operate runs the operator's command line.
func (s *scene) operate(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(within(s.t), s.millrace, args...)
	cmd.Dir, cmd.Env = s.dir, []string{"MILLRACE_STORE=sqlite:data/reservations.db"}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	s.seen["millrace "+strings.ReplaceAll(strings.Join(args, " "), s.secret, "…")] += string(out)
	return string(out)
}

// look keeps the answer of a page for operators.
func (s *scene) look(url string) {
	s.t.Helper()
	_, body := boottest.Get(s.t, url)
	s.seen[url] += body
}

// person makes a person with a name and an address of their own. The address begins with what the mail server is to
// answer.
func (s *scene) person(mail string, quantity int) map[string]any {
	return map[string]any{"id": channel.NewID()[:14] + "-" + s.secret, "date": bookable(), "name": "Perpetua " + s.secret, "email": mail + "-" + s.secret + "@example.org", "quantity": quantity}
}

// ask sends a request whose headers are personal as well, and returns the answer's status and its Location.
func (s *scene) ask(method, address string, body io.Reader, contentType string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(within(s.t), method, address, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range []string{"Referer", "User-Agent", "Cookie", "Traceparent", "Accept-Language", "X-Forwarded-For", "Authorization"} {
		r.Header.Set(h, s.secret+"@example.org")
	}
	r.Header.Set("Content-Type", contentType)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode, res.Header.Get("Location")
}

// book asks for a table, and checks the decision.
func (s *scene) book(url string, person map[string]any, want string) (receipt string) {
	s.t.Helper()
	body, err := json.Marshal(person)
	if err != nil {
		s.t.Fatal(err)
	}
	code, receipt := s.ask("POST", url+"/reservations", bytes.NewReader(body), "application/json")
	if code != http.StatusAccepted {
		s.t.Fatalf("got %d, want 202", code)
	}
	if got := follow(s.t, url+receipt); got != want {
		s.t.Errorf("got %q, want %q", got, want)
	}
	return receipt
}

// blunder sends requests that can't be right, with a person in each.
func (s *scene) blunder(web string) {
	s.t.Helper()
	const jsonType, form = "application/json", "application/x-www-form-urlencoded"
	field := func(name string, value any) string {
		p := s.person("ada", 1)
		p[name] = value
		b, err := json.Marshal(p)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(b)
	}
	x := s.secret
	for _, c := range []struct {
		contentType, body string
		want              int
	}{
		{jsonType, field("email", "no address "+x), 422}, {jsonType, field("name", x+"\n\x1b[31m"+x), 422}, {jsonType, field("date", x), 422}, {jsonType, field("id", x+"\x00"), 422},
		{jsonType, field("quantity", x), 422}, {jsonType, field("name", []string{x}), 422}, {jsonType, `{"name":"` + x, 400}, {jsonType, `"` + x + `"`, 400}, {jsonType, strings.Repeat(x, 10_000), 413},
		{form, url.Values{"name": {x}, "email": {x}}.Encode(), 422}, {form, "name=" + x + "%zz", 400}, {"text/" + x, x, 415}, {form, strings.Repeat("name="+x+"&", 5_000), 413},
	} {
		if got, _ := s.ask("POST", web+"/reservations", strings.NewReader(c.body), c.contentType); got != c.want {
			s.t.Errorf("%s %.60q: got %d, want %d", c.contentType, c.body, got, c.want)
		}
	}
	for path, want := range map[string]int{
		"/?month=" + x: 404, "/?name=" + x: 200, "/reservations/new?date=" + x: 200, "/reservations/" + x + "?email=" + x: 404, "/" + x: 404, "/views/months/" + x: 404, "/static/" + x: 404, "/readyz?name=" + x: 200,
	} {
		if got, _ := s.ask("GET", web+path, nil, ""); got != want {
			s.t.Errorf("GET %s: got %d, want %d", path, got, want)
		}
	}
	conn, err := (&net.Dialer{}).DialContext(within(s.t), "tcp", strings.TrimPrefix(web, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST /reservations HTTP/1.1\r\n%s\r\nHost: %s@\r\n\r\n", x, x)
	if answer, readErr := io.ReadAll(conn); err != nil || readErr != nil || !bytes.Contains(answer, []byte(" 400 ")) {
		s.t.Errorf("a broken header: got %q (%v, %v), want 400", answer, err, readErr)
	}
	_ = conn.Close() // read to its end
}

// smuggle puts messages into the queues that the sample would not send, with a person in each.
func (s *scene) smuggle(ctx context.Context) (n int) {
	s.t.Helper()
	store, err := sqlite.Open(ctx, filepath.Join(s.dir, "data", "reservations.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	x := s.secret
	event := func(kind, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/web","type":"reservations.%s.v1","data":%s}`, channel.NewID(), kind, data)
	}
	for queue, bodies := range map[string][]string{
		"reservations": {
			x, `{"name":"` + x + `"}`, `{"` + x + `":1,"` + x + `":2}`, event("make", `{"quantity":"`+x+`"}`), event("make", `{"name":{"`+x+`":1}}`), event("make", `{"`+x+`":1,"`+x+`":2}`),
			event("make", `"`+x+`"`), event("make", `{"date":"","name":"`+x+`"}`), event("nothing", `{"name":"`+x+`"}`)[:60],
		},
		"mails":    {event("numbered", `{"id":"12345678","email":"no address `+x+`"}`), event("numbered", `{"email":["`+x+`"]}`)},
		"ledger":   {event("accepted", `{"date":"\u0000","name":"`+x+`"}`)[:70], event("accepted", `{"quantity":1e99,"name":"`+x+`"}`)},
		"statuses": {event("numbered", `{"id":{"`+x+`":0}}`)},
	} {
		for _, b := range bodies {
			if err := store.Queue(queue).Send(ctx, []storage.Message{{Body: []byte(b)}}); err != nil {
				s.t.Fatal(err)
			}
			n++
		}
	}
	return n
}

// A person's name, address and reservation ID are in no log, in no metric, and in no list of the operator's command
// line. The test covers refusals, cancellations, bad input, mails that fail, messages that can't be decoded, an
// operator at work, a store that goes away, and a restart.
func TestNamesAndAddressesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	s, mails := newScene(t), newGossip(t)
	web := s.start(bin, "-addr", "127.0.0.1:0", "-worker=false", "-seats", "8")
	url := web.URL(t)
	wk := s.start(s.worker, "-admin", "127.0.0.1:0", "-seats", "8", "-smtp", "smtp://"+mails.addr, "-url", "https://tables.example.org")
	admin := wk.URL(t)

	receipt := s.book(url, s.person("ada", 4), "accepted")
	s.book(url, s.person("ada", 7), "rejected")
	for _, answer := range []string{"refused", "later", "spam"} {
		s.book(url, s.person(answer, 1), "accepted")
	}
	if code, _ := s.ask("POST", url+receipt+"/cancel", nil, ""); code != http.StatusAccepted && code != http.StatusSeeOther {
		t.Errorf("cancel: got %d", code)
	}
	eventually(t, "three mails are taken", func() bool { return mails.taken.Load() == 3 })
	s.blunder(url)
	poisoned := 2 + s.smuggle(within(t)) // two are refused mails
	eventually(t, "what can't be handled is poisoned", func() bool {
		return strings.Count(s.operate("poison", "list"), "\n") == poisoned+1
	})

	s.operate("queues")
	s.operate("queues", "-json")
	s.operate("poison", "list", "-json")
	s.operate("poison", "retry", "-all", "-dry-run")
	s.operate("poison", "retry", "-all", "-json")
	eventually(t, "what was sent back is poisoned again", func() bool {
		return strings.Count(s.operate("poison", "list"), "\n") == poisoned+1
	})
	s.operate("poison", "discard", "-queue", "ledger", "-all", "-dry-run")
	s.operate("poison", "discard", "-queue", "ledger", "-all", "-yes", "-why", "an erasure")
	s.operate("views", "rebuild", "months")
	command := filepath.Join(s.dir, "command.json")
	if err := os.WriteFile(command, []byte(`{"id":"1234567890","date":"2026-12-24","name":"`+s.secret+`","email":"`+s.secret+`","quantity":"`+s.secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.operate("send", "reservations.make.v1", command)
	for _, u := range []string{url, admin} {
		for _, page := range []string{"/metrics", "/readyz", "/healthz"} {
			s.look(u + page)
		}
	}

	// A worker is killed. Another one, without a mail server, runs in the web's process.
	wk.Signal(t, syscall.SIGKILL)
	wk.Wait(t)
	web.Signal(t, syscall.SIGTERM)
	if code := web.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	again := s.start(bin, "-addr", "127.0.0.1:0", "-seats", "8", "-smtp", "smtp://127.0.0.1:1") // nobody listens there
	url = again.URL(t)
	s.book(url, s.person("ada", 1), "accepted")
	again.Line(t, "connection refused")
	s.look(url + "/metrics")

	// The store goes away.
	db := filepath.Join(s.dir, "data", "reservations.db")
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is missed", func() bool { code, _ := boottest.Get(t, url+"/readyz"); return code == http.StatusServiceUnavailable })
	body, err := json.Marshal(s.person("ada", 1))
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := s.ask("POST", url+"/reservations", bytes.NewReader(body), "application/json"); code != http.StatusServiceUnavailable {
		t.Errorf("without a store: got %d, want 503", code)
	}
	again.Line(t, "request failed")
	s.look(url + "/readyz")
	again.Signal(t, syscall.SIGTERM)
	again.Wait(t)
	if err := os.Rename(db+".away", db); err != nil {
		t.Fatal(err)
	}

	// The search is worth something only if the texts are there where they belong.
	if line := wk.Line(t, "message is in the poison queue"); !strings.Contains(line, `"level":"ERROR"`) {
		t.Errorf("got %s", line)
	}
	if shown := s.operate("poison", "list", "-json", "-queue", "mails"); !strings.Contains(shown, `"reason":"mail refused"`) {
		t.Errorf("got %s, want the mails that were refused", shown)
	}
	var entry struct{ Key string }
	if err := json.NewDecoder(strings.NewReader(s.operate("poison", "list", "-json"))).Decode(&entry); err != nil {
		t.Fatal(err)
	}
	show := exec.CommandContext(within(t), s.millrace, "poison", "show", entry.Key, "--reveal", "--why", "test", "-store", "sqlite:"+db)
	if out, err := show.CombinedOutput(); err != nil || !strings.Contains(string(out), s.secret) {
		t.Errorf("poison show tells nothing of the person (%v): %s", err, out)
	}

	s.seen["web"], s.seen["worker"], s.seen["web again"] = web.Output(), wk.Output(), again.Output()
	for what, text := range s.seen {
		if text == "" {
			t.Errorf("%s: nothing was seen", what)
		}
		for line := range strings.Lines(text) {
			if strings.Contains(strings.ToLower(line), s.secret) {
				t.Errorf("%s tells of a person: %.600s", what, line)
			}
		}
	}
}
