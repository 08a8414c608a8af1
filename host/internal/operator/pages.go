package operator

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
)

// A pagesInput is what the pages of operators take.
type pagesInput struct {
	address, tokens, header, hosts string
	proxies                        []netip.Prefix
	insecure                       bool
}

// pages is the act that serves the pages of operators, for a store whose program isn't at hand.
func (s *session) pages() *act.Act {
	return act.New(act.Act{Noun: "ops", Role: act.Viewer, About: "serve the pages of operators, until a signal",
		More: "Without --tokens and --header it prints a link that works once, for whoever sees this terminal. ops token makes a token, and the line " +
			"of --tokens that lets it in.",
	}, func(in *pagesInput) []act.Field {
		in.address = "127.0.0.1:9091"
		proxies := act.Text(new(string), "proxies", "the `ADDRESSES` of the proxies that may forward requests, with commas, as in 10.0.0.7,10.1.0.0/16. Their header is believed")
		proxies.Set = func(text string) (err error) {
			in.proxies, err = ops.ParseProxies(text)
			return err
		}
		return []act.Field{
			act.Text(&in.address, "listen", "the `ADDRESS` to serve, HOST:PORT; port 0 takes a free port"),
			act.Text(&in.tokens, "tokens", "the `FILE` with the tokens of people"),
			act.Text(&in.header, "header", "the `HEADER` in which a proxy names the person, such as X-Forwarded-User"), proxies,
			act.Text(&in.hosts, "hosts", "the `NAMES` under which the pages are reached, with commas, each with its port if it isn't 80 or 443"),
			act.Flag(&in.insecure, "insecure", "serve other machines without TLS and without a proxy"),
		}
	}, s.servePages)
}

// A tokenLine is a token that was made.
type tokenLine struct {
	Token string `json:"token"` // for the person
	Line  string `json:"line"`  // for the file
}

// newToken is the act that makes a token for a person.
func newToken() *act.Act {
	type input struct{ name, role string }
	return act.New(act.Act{Noun: "ops", Verb: "token", Role: act.Viewer, Local: true, About: "make a token with which a person logs in to the pages",
		More: "It prints the token, for the person, and a line for the file of ops --tokens, which serves the pages. Nothing is stored: the line lets nobody in.",
	}, func(in *input) []act.Field {
		return []act.Field{
			act.Text(&in.name, "name", "the person").At("NAME"),
			act.Text(&in.role, "role", "what they may do").At("ROLE").OneOf("viewer", "operator", "admin"),
		}
	}, func(_ context.Context, c *act.Call, in *input) error {
		token, line, err := ops.NewToken(in.name, in.role)
		if err != nil {
			return act.Usage("%w", err)
		}
		return c.Say(tokenLine{token, line}, "The token, for %s alone:\n%s\nThe line for the file of tokens:\n%s", in.name, token, line)
	})
}

// servePages serves the pages until ctx ends.
func (s *session) servePages(ctx context.Context, c *act.Call, in *pagesInput) error {
	ln, err := boot.Listen(ctx, "listen", in.address)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }() // fails only where the server has closed it already
	log := boot.NewLogger(s.process.Stderr, slog.LevelWarn, s.process.Getenv)
	const path = "/ops"
	url := strings.TrimSuffix(boot.URL(ln), "/") + path
	login := ops.Login{Tokens: in.tokens, Header: in.header, Proxies: in.proxies, Hosts: ops.ParseHosts(in.hosts), Insecure: in.insecure, Operator: c.By, Flag: "--",
		Link: func(way string) { _, _ = fmt.Fprintf(s.process.Stderr, "Open %s%s\n", url, way) }} // nobody could read an error either
	if no := login.Check(ln.Addr()); no != nil {
		return act.Usage("%w", no)
	}
	pages, err := ops.New(ops.Config{Desk: c.Desk, Path: path, Login: login, Logger: log})
	if err != nil {
		return act.Usage("%w", err)
	}
	_, _ = fmt.Fprintf(s.process.Stderr, "The pages are at %s/\n", url) // nobody could read an error either
	return boot.Run(ctx, boot.Part{Name: "bulk acts", Run: pages.Run},
		boot.Part{Name: "server", Run: func(ctx context.Context) error { return boot.Serve(ctx, ln, pages, log) }})
}
