package main

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// service is the HTTP server that all jobs call, at /SYSTEM/NUMBER. It can be away.
type service struct {
	url    string
	server *http.Server
	books  map[string]*book // by system
}

// book is what the service knows of a system's jobs.
type book struct {
	mu        sync.Mutex
	away      bool
	whenAway  int
	done      map[int]int // how often each job was done
	twice     int         // calls for a job that was done already
	back      time.Time   // when the service came back
	first     time.Time   // the first job that was done after that
	backlog   int         // jobs up to this number were sent before that
	left      int         // of them
	last      time.Time   // when the last of them was done, so far
	doneAfter int         // of all jobs, after the service came back
}

// serve starts the service.
func serve(systems []System) (*service, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{url: "http://" + ln.Addr().String(), books: map[string]*book{}}
	mux := http.NewServeMux()
	for _, x := range systems {
		b := &book{done: map[int]int{}}
		s.books[x.Name] = b
		mux.Handle("POST /"+x.Name+"/{job}", b)
	}
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(ln) }() // ends by close
	return s, nil
}

func (s *service) close() { _ = s.server.Close() }

// ServeHTTP is one job's call.
func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, err := strconv.Atoi(r.PathValue("job"))
	if err != nil {
		http.Error(w, "no number of a job", http.StatusBadRequest)
		return
	}
	if !b.call(job, time.Now()) {
		http.Error(w, "away", http.StatusServiceUnavailable)
	}
}

// call counts a call, and reports that it is done.
func (b *book) call(job int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		b.whenAway++
		return false
	}
	b.done[job]++
	if b.done[job] > 1 {
		b.twice++
		return true
	}
	if b.back.IsZero() {
		return true
	}
	b.doneAfter++
	if b.first.IsZero() {
		b.first = now
	}
	if job <= b.backlog {
		b.left--
		b.last = now
	}
	return true
}

// leave lets the service be away.
func (b *book) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = true
}

// comeBack lets the service be back. The jobs up to number sent were sent before.
func (b *book) comeBack(sent int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.back, b.last, b.backlog, b.left = false, now, now, sent, sent
	for job := range b.done {
		if job <= sent {
			b.left--
		}
	}
}

// figures returns what the book says of a system, of whose jobs some are dead.
func (b *book) figures(dead int) Figures {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := Figures{Sent: b.backlog, Dead: dead, CallsAway: b.whenAway, Twice: b.twice, Left: max(0, b.left-dead), First: -1, Gone: -1}
	if !b.first.IsZero() {
		f.First = b.first.Sub(b.back).Seconds()
	}
	if f.Left == 0 {
		f.Gone = b.last.Sub(b.back).Seconds()
	}
	return f
}

// undone returns how many of the first sent jobs the service has not done.
func (b *book) undone(sent int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return sent - len(b.done)
}
