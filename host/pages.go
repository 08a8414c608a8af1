package host

import (
	"log/slog"
	"strings"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
)

// opsPath is the path of the pages of operators, on the address of -admin.
const opsPath = "/ops"

// loginFlags say who may see the pages of operators.
type loginFlags struct {
	tokens, header, proxies, hosts *string
	insecure                       *bool
}

func addLogin(flags *boot.Flags) *loginFlags {
	l := &loginFlags{
		tokens: flags.String("ops-tokens", "", "the `FILE` with the tokens of the people who may see the pages of operators; see docs/ops.md. Without it and\n"+
			"without -ops-header a link in the log lets somebody in, on an address of this machine alone"),
		header: flags.String("ops-header", "", "the `HEADER` in which a proxy names who asks for the pages of operators, such as X-Forwarded-User"),
		proxies: flags.String("ops-proxies", "", "the `ADDRESSES` of the proxies that may forward requests for the pages, with commas, as in 10.0.0.7,10.1.0.0/16. Their -ops-header\n"+
			"is believed"),
		hosts:    flags.String("ops-hosts", "", "the `NAMES` under which the pages of operators are reached, with commas, beside localhost"),
		insecure: flags.Bool("ops-insecure", false, "serve the pages of operators to other machines without TLS and without a proxy"),
	}
	flags.Check("ops-proxies", func() error {
		_, err := ops.ParseProxies(*l.proxies)
		return err
	})
	return l
}

// pages are the pages of operators, or nil where nobody may have them: then the program starts all the same, and its
// log says which setting is missing.
func (s *service) pages(a *App) (*ops.Pages, error) {
	proxies, err := ops.ParseProxies(*s.login.proxies)
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(boot.URL(a.admin), "/") + opsPath
	login := ops.Login{Tokens: *s.login.tokens, Header: *s.login.header, Proxies: proxies, Hosts: ops.ParseHosts(*s.login.hosts), Insecure: *s.login.insecure, Flag: "-ops-",
		Link: func(way string) {
			a.Log.Info("a link lets an operator in, once", slog.String("url", url+way))
		}}
	if no := login.Check(a.admin.Addr()); no != nil {
		a.Log.Warn("the pages of operators are not served", slog.String("error", no.Why), slog.String("fix", no.Fix))
		return nil, nil
	}
	desk, err := act.At(a.plain, act.Program{Command: s.command, Settings: s.Name, Alias: s.Alias})
	if err != nil {
		return nil, err
	}
	if s.registry != nil { // so people can try what a command would do
		desk.Registry, desk.Handled = s.registry, s.registry.Inside().Handlers.About()
	}
	pages, err := ops.New(ops.Config{Desk: desk, Path: opsPath, Login: login, Logger: a.Log})
	if err != nil {
		return nil, &boot.UsageError{Err: err}
	}
	return pages, nil
}
