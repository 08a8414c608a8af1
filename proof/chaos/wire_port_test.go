package main

import (
	"net"
	"testing"
	"time"
)

// A port that another listener leaves soon is waited for.
func TestWireWaitsForItsPort(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = ln.Close() })
	w, err := newWire("test", ln.Addr().String(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	w.down()
}
