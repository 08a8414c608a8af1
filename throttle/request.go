package throttle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
)

// nowhere is the address of a request that has none.
const nowhere = "nowhere"

// Address returns a function for Config.Address. It returns the IP address of the client, and of IPv6 the network of
// 64 bits, because whoever has one address there has them all. proxies is the number of proxies before the server
// that add the address of their client to the header X-Forwarded-For. With 0 the header counts for nothing, because
// anybody can send it, and the address is that of the connection; behind a proxy all requests then have the proxy's.
func Address(proxies int) func(r *http.Request) string {
	return func(r *http.Request) string {
		from := r.RemoteAddr
		if proxies > 0 {
			said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
			if len(said) >= proxies {
				if a := canonical(strings.TrimSpace(said[len(said)-proxies])); a != nowhere {
					return a
				}
			}
		}
		return canonical(from)
	}
}

// canonical returns an address, given with or without a port, in one form.
func canonical(text string) string {
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		both, err := netip.ParseAddrPort(text)
		if err != nil {
			return nowhere
		}
		ip = both.Addr()
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() || ip.IsLinkLocalUnicast() { // which all neighbours share the network of
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return nowhere
	}
	return network.String()
}

// maxPeeked bounds what JSONMember reads of a body. host.Accept takes no longer one.
const maxPeeked = 1 << 20

// JSONMember returns a function for Config.ID: the ID is a string of the body, which is a JSON object, under the
// given name. It reads the body, at most 1 MiB, and puts back what it has read. A longer body has no ID. Nor has one in
// which the member occurs twice, also in another case of letters, because the handler may take the other one. It waits
// for the body before any quota is asked, so set http.Server.ReadTimeout.
func JSONMember(name string) func(r *http.Request) string {
	return func(r *http.Request) string {
		if r.Body == nil {
			return ""
		}
		p := &peek{of: r.Body, left: maxPeeked}
		id, _ := member(p, name) // a body that is no object has no ID
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&p.seen, p.rest()), r.Body}
		return id
	}
}

// A peek reads the beginning of a body, and keeps it.
type peek struct {
	of   io.Reader
	left int
	seen bytes.Buffer
	err  error // of reading
}

func (p *peek) Read(b []byte) (int, error) {
	if p.left == 0 || p.err != nil {
		return 0, io.EOF
	}
	n, err := p.of.Read(b[:min(len(b), p.left)])
	p.seen.Write(b[:n])
	p.left -= n
	p.err = err
	return n, err
}

// rest is what follows, also if that is an error.
func (p *peek) rest() io.Reader {
	if p.err != nil {
		return failing{p.err}
	}
	return p.of
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

var (
	errNoObject = errors.New("want a JSON object")
	errTwice    = errors.New("two members have the name")
)

// member returns the member of an object that has a name, if it is a string and the only one. Names that differ in the
// case of letters are one for the JSON package, so they are here.
func member(body io.Reader, name string) (string, error) {
	d := json.NewDecoder(body)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", errNoObject
	}
	var text string
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", err
		}
		called, _ := key.(string)
		if !strings.EqualFold(called, name) {
			continue
		}
		if found {
			return "", errTwice
		}
		found = true
		if called != name {
			continue
		}
		if err := json.Unmarshal(value, &text); err != nil {
			return "", err
		}
	}
	if _, err := d.Token(); err != nil { // the end of the object
		return "", err
	}
	return text, nil
}
