package guard_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// requesting returns a call that makes a request and reads its answer.
func requesting(client *http.Client, method, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("x"))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if err := guard.CheckStatus(answer); err != nil {
			return err
		}
		_, err = io.ReadAll(answer.Body)
		return err
	}
}

// Law 11: a client's own Timeout hides nothing of what its transport knows. So an outage in which nothing is ever sent
// poisons nobody.
func TestLaw11AClientsTimeoutHidesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := guard.New("crm", guard.Config{Logger: quietLogger()})
		client := &http.Client{Timeout: 5 * time.Second, Transport: g.Transport(&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			_ = worldtest.Pause(ctx, 30*time.Second) // packets are dropped
			return nil, context.DeadlineExceeded
		}})}
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[job]("jobs"))
		handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error {
			return g.Do(ctx, requesting(client, "POST", "http://crm.example"))
		})
		stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
		for i := range 500 {
			worldtest.Send(w, job{i})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(8 * time.Minute)
		worldtest.Want(t, "poisoned", len(w.Poisoned("jobs")), 0)
		if err := stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// The same with connections: a request whose answer is slow, or ends too late, may be done. One that is safe to repeat
// is repeated.
func TestLaw11AClientsTimeoutOfAnAnswer(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/torn" {
			_ = http.NewResponseController(w).Flush()
		}
		<-hang
	}))
	defer s.Close()
	defer close(hang)
	for _, path := range []string{"/slow", "/torn"} {
		for method, want := range map[string]verdict.Action{"GET": verdict.HandBack, "POST": verdict.ToPoison} {
			g := once(guard.New("crm", guard.Config{Logger: quietLogger()}))
			client := &http.Client{Timeout: 50 * time.Millisecond, Transport: g.Transport(nil)}
			wantAction(t, method+" "+path, g.Do(handling(t, id(1), 1), requesting(client, method, s.URL+path)), want)
		}
	}
}

// A service that knows keys answers 409 while the first request with a key is under way. So its repeat is no refusal,
// but a first request that is answered so is one. The message has its attempts.
func TestARepeatWhileTheFirstRequestIsUnderWay(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if again := seen[key]; again || r.URL.Path == "/taken" {
			w.WriteHeader(http.StatusConflict)
			return
		}
		seen[key] = true
		panic(http.ErrAbortHandler) // the answer is lost
	}))
	defer s.Close()
	g := guard.New("bank", guard.Config{Repeatable: true, Logger: quietLogger()})
	client := &http.Client{Transport: g.Transport(nil)}
	err := g.Do(handling(t, id(1), 1), requesting(client, "POST", s.URL)) // and again in place
	v := verdict.Judge(err)
	worldtest.Want(t, "verdict on a repeat in place", v.Action, verdict.TryAgain)
	worldtest.Want(t, "it waits for some time", v.After >= 30*time.Second, true)
	wantAction(t, "another delivery", g.Do(handling(t, id(1), 2), requesting(client, "POST", s.URL)), verdict.TryAgain)
	wantAction(t, "the first request", g.Do(handling(t, id(2), 1), requesting(client, "POST", s.URL+"/taken")), verdict.ToPoison)
	wantAction(t, "a GET", g.Do(handling(t, id(1), 2), requesting(client, "GET", s.URL+"/taken")), verdict.ToPoison)
	worldtest.Want(t, "open", g.Open(), false)
}
