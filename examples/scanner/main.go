// Command scanner takes files, and has ClamAV's daemon look at them before anybody can read them. While the daemon is
// away, files wait, and no check spends an attempt.
//
//	clamd                                                  # with TCPSocket 3310 and TCPAddr 127.0.0.1 in clamd.conf
//	go run ./examples/scanner -clamd 127.0.0.1:3310
//	curl -s "localhost:8080/keys?name=a.pdf&type=application/pdf&size=$(stat -c %s a.pdf)" -X POST    # says url
//	curl -L -T a.pdf localhost:8080/files/v1…/1            # the one part of a file of up to 8 MB
//	curl -X POST localhost:8080/files/v1…/complete
//	curl localhost:8080/files/v1…                          # its state
package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/storage"
)

func main() { host.Main(program()) }

// newGuard returns what pauses the checks while the daemon is away. A file may be scanned twice.
func newGuard() *guard.Guard { return guard.New("clamd", guard.Config{Repeatable: true}) }

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(valet.Route(), channel.Event[valet.Uploaded](), channel.Event[valet.Rejected]()) // nobody subscribes
}

// files are the same in the web and in the worker.
func files(c *channel.Channels, daemon clamd, g *guard.Guard) (*valet.Valet, error) {
	return valet.New(c, valet.Config{Rules: map[string]valet.Rules{"any": {MaxSize: 100 << 20}}, Scan: daemon.scan, Guard: g})
}

func program() host.Program {
	var addr *string
	scanner := newGuard()
	return host.Program{
		Name:   "scanner",
		About:  "Takes files that ClamAV's daemon finds clean.",
		Routes: routes,
		Flags:  func(f *host.Flags) { addr = f.String("clamd", "127.0.0.1:3310", "the `ADDRESS` of ClamAV's daemon") },
		Register: func(h *handlers.Registry) error {
			v, err := files(h.Channels(), clamd{*addr}, scanner)
			if err == nil {
				v.Register(h)
			}
			return err
		},
		Guards: map[string]*guard.Guard{valet.CheckQueue: scanner}, // the queue waits while the daemon is away
		Web: func(a *host.App) (http.Handler, error) {
			v, err := files(a.Channels, clamd{*addr}, scanner)
			if err != nil {
				return nil, err
			}
			mux := http.NewServeMux()
			mux.Handle("/files/", v)
			mux.HandleFunc("POST /keys", func(w http.ResponseWriter, r *http.Request) { giveKey(w, r, v) })
			return mux, nil
		},
	}
}

// giveKey gives everybody a key. A program of yours asks first who that is.
func giveKey(w http.ResponseWriter, r *http.Request, v *valet.Valet) {
	q := r.URL.Query()
	size, _ := strconv.ParseInt(q.Get("size"), 10, 64) // 0 is refused
	key, err := v.Upload(r.Context(), valet.Upload{Rule: "any", Owner: "somebody", Name: q.Get("name"), Type: q.Get("type"), Size: size})
	switch {
	case errors.Is(err, storage.ErrInvalid), errors.Is(err, storage.ErrTooLarge):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(key) // a client that has gone
	}
}
