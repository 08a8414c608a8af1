package host

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
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
		header:   flags.String("ops-header", "", "the `HEADER` in which a proxy names who asks for the pages of operators, such as X-Forwarded-User"),
		proxies:  flags.String("ops-proxies", "", "the `ADDRESSES` of the proxies whose -ops-header is believed, with commas, as in 10.0.0.7,10.1.0.0/16"),
		hosts:    flags.String("ops-hosts", "", "the `NAMES` under which the pages of operators are reached, with commas, beside localhost"),
		insecure: flags.Bool("ops-insecure", false, "serve the pages of operators to other machines without TLS and without a proxy"),
	}
	flags.Check("ops-proxies", func() error {
		_, err := prefixes(*l.proxies)
		return err
	})
	return l
}

// prefixes reads addresses and ranges of addresses.
func prefixes(text string) (all []netip.Prefix, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		p, err := netip.ParsePrefix(one)
		if at, fault := netip.ParseAddr(one); fault == nil {
			p, err = at.Prefix(at.BitLen())
		}
		if err != nil {
			return nil, errors.New("want addresses such as 10.0.0.7 or 10.1.0.0/16, with commas between them")
		}
		all = append(all, p)
	}
	return all, nil
}

// words splits names at commas.
func words(text string) (all []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// pages are the pages of operators, or nil where nobody may have them: then the program starts all the same, and its
// log says which setting is missing.
func (s *service) pages(a *App) (*ops.Pages, error) {
	proxies, err := prefixes(*s.login.proxies)
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(boot.URL(a.admin), "/") + opsPath
	login := ops.Login{Tokens: *s.login.tokens, Header: *s.login.header, Proxies: proxies, Hosts: words(*s.login.hosts),
		Link: func(way string) {
			a.Log.Info("a link lets an operator in, once", slog.String("url", url+way))
		}}
	if err := login.Check(a.admin.Addr(), false, *s.login.insecure); err != nil {
		a.Log.Warn("the pages of operators are not served", slog.Any("error", err),
			slog.String("fix", "start the program with -ops-tokens FILE or with -ops-header and -ops-proxies, or with -admin on an address of this machine alone"))
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
		return nil, &boot.UsageError{Err: fmt.Errorf("-ops-tokens, -ops-header, -ops-proxies: %w", err)}
	}
	return pages, nil
}
