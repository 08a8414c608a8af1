package pubsub

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A request to give that comes again is given once and answered again, also while the first is under way.
func TestRepeatedRequestIsGivenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []Kind{GiveOne, GiveAll} {
			var e Receivers
			b := &basket{room: 1000}
			slow := time.Second
			subscribe(t, &e, "topic", func(data []byte, most int) int {
				time.Sleep(slow)
				slow = 0
				return b.receiver(data, min(most, 3))
			})
			d := &Desk{Receivers: &e}
			answer := func() int {
				n, ok := d.Answer(t.Context(), Request{Kind: kind, ID: ID{1}, Topic: "topic"})
				if !ok {
					t.Error("no answer")
				}
				return n
			}
			first := make(chan int)
			go func() { first <- answer() }()
			synctest.Wait()
			second, third, fourth := answer(), <-first, answer()
			if want := map[Kind]int{GiveOne: 1, GiveAll: 3}[kind]; second != want || third != want || fourth != want || b.count() != want {
				t.Errorf("kind %d: counts %d, %d, %d, given %d; want %d each", kind, third, second, fourth, b.count(), want)
			}
			if n, ok := d.Answer(t.Context(), Request{Kind: kind, ID: ID{2}, Topic: "topic"}); n == 0 || !ok {
				t.Errorf("kind %d: another request: %d, %v", kind, n, ok)
			}
		}
	})
}

// A desk's memory is bounded. It forgets what is old, and gives nothing while all that it remembers is young.
func TestDeskIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e Receivers
		b := &basket{room: driver.Everyone}
		subscribe(t, &e, "topic", func(data []byte, most int) int { return b.receiver(data, most) })
		d := &Desk{Receivers: &e}
		give := func(i int) int {
			r := Request{Kind: GiveOne, Topic: "topic"}
			binary.BigEndian.PutUint32(r.ID[:], uint32(i))
			n, _ := d.Answer(t.Context(), r)
			return n
		}
		for i := range maxGiven {
			if give(i) != 1 {
				t.Fatalf("request %d was refused", i)
			}
		}
		if give(maxGiven) != 0 {
			t.Error("one too many was given")
		}
		time.Sleep(time.Hour)
		if give(0) != 1 || b.count() != maxGiven {
			t.Error("a request from before a long stop was given again")
		}
		if give(maxGiven) != 1 || len(d.order) != fewGiven+1 || len(d.given) != len(d.order) {
			t.Errorf("%d are remembered of those that are old; want %d", len(d.order), fewGiven)
		}
	})
}

// A request whose outcome isn't known gets no answer.
func TestNoAnswerForAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e Receivers
		over := make(chan struct{})
		defer close(over)
		subscribe(t, &e, "topic", func([]byte, int) int { <-over; return 1 })
		d := &Desk{Receivers: &e}
		for range 2 {
			if n, ok := d.Answer(t.Context(), Request{Kind: GiveOne, ID: ID{1}, Topic: "topic"}); ok {
				t.Errorf("answer %d", n)
			}
		}
		if n, ok := d.Answer(t.Context(), Request{Kind: Ask, Topic: "topic"}); n != 0 || !ok {
			t.Errorf("asked: %d, %v; want that nobody would take it", n, ok)
		}
	})
}

// A stream that the other side has closed for being idle is opened again.
func TestIdleStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	var e Receivers
	b := &basket{room: 10}
	subscribe(t, &e, "topic", b.receiver)
	p := remote(t, &e)
	if n, err := p.Call(t.Context(), Request{Kind: Ask, Topic: "topic"}); n != 10 || err != nil {
		t.Fatalf("asked: %d, %v", n, err)
	}
	p.conn.Close()
	if n, err := p.Call(t.Context(), Request{Kind: GiveOne, Topic: "topic"}); n != 1 || err != nil || b.count() != 1 {
		t.Errorf("given: %d, %v", n, err)
	}
}

// A peer that answers with something else, breaks off, or can't be reached is an error. Only the last one says that
// nothing has happened.
func TestStreamBreaks(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		answer []byte
		gone   bool
	}{
		"nothing":            {nil, false},
		"half an answer":     {AppendAnswer(nil, ID{7}, 1)[:5], false},
		"another's":          {AppendAnswer(nil, ID{8}, 1), false},
		"a count beyond all": {append(AppendAnswer(nil, ID{7}, 0)[:16], 0xff, 0xff, 0xff, 0xff), false},
		"no stream":          {nil, true},
	} {
		p := &StreamPeer{Dial: func(context.Context) (net.Conn, error) {
			if c.gone {
				return nil, errors.New("refused")
			}
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				if _, err := there.Read(make([]byte, 2+MaxRequest)); err == nil {
					there.Write(c.answer)
				}
			}()
			return here, nil
		}}
		n, err := p.Call(t.Context(), Request{Kind: GiveOne, ID: ID{7}, Topic: "topic"})
		if n != 0 || err == nil || errors.Is(err, ErrGone) != c.gone {
			t.Errorf("%s: %d, error %v", what, n, err)
		}
		p.Close()
	}
}

// The end of the context ends a call to a peer that doesn't answer.
func TestStreamCallEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := &StreamPeer{Dial: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		t.Cleanup(func() { there.Close() })
		go func() {
			there.Read(make([]byte, 2+MaxRequest))
			cancel()
		}()
		return here, nil
	}}
	if n, err := p.Call(ctx, Request{Kind: GiveOne, Topic: "topic"}); n != 0 || err == nil || errors.Is(err, ErrGone) {
		t.Errorf("%d, error %v; want an unknown outcome", n, err)
	}
}

// frame is a request as a stream brings it.
func frame(r Request) []byte {
	b := r.Append(nil)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// A stream that brings no request is closed, and harms nobody.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	var e Receivers
	subscribe(t, &e, "topic", func([]byte, int) int { t.Error("a receiver was called"); return 1 })
	long := Request{Kind: Ask, Topic: strings.Repeat("t", maxTopic), Data: make([]byte, driver.MaxPublish)}
	tooLong := long
	tooLong.Data = make([]byte, driver.MaxPublish+1)
	if _, ok := ReadRequest(long.Append(nil)); !ok {
		t.Error("the longest request is refused")
	}
	for what, b := range map[string][]byte{
		"too long a frame": {0xff, 0xff},
		"an empty frame":   {0, 0},
		"an unknown kind":  frame(Request{Kind: GiveAll + 1, Topic: "topic"}),
		"no topic":         frame(Request{Kind: Ask}),
		"a topic too long": frame(Request{Kind: Ask, Topic: strings.Repeat("t", maxTopic+1)}),
		"too much data":    frame(tooLong),
		"text":             []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&Desk{Receivers: &e}).Serve(t.Context(), there)
		}()
		go here.Write(b)
		if got, err := io.ReadAll(here); len(got) > 0 {
			t.Errorf("%s: answer %x, %v", what, got, err)
		}
		<-done
		here.Close()
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(Request{Kind: GiveOne, ID: ID{1}, Topic: "topic", Data: []byte("data")}.Append(nil))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := ReadRequest(b)
		if ok && !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%x is taken for %+v", b, r)
		}
		if id, n, ok := ReadAnswer(b); ok && !bytes.Equal(AppendAnswer(nil, id, n), b) {
			t.Errorf("%x is taken for the answer %d", b, n)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add(frame(Request{Kind: Ask, Topic: "topic"}))
	f.Add(append(frame(Request{Kind: GiveAll, Topic: "topic", Data: []byte("data")}), 0, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&Desk{Receivers: new(Receivers)}).Serve(t.Context(), there)
		}()
		go io.Copy(io.Discard, here)
		here.Write(b)
		here.Close()
		<-done
	})
}
