package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	blobservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

const (
	maxMessage = 48 << 10 // the service allows 64 KiB of base64
	maxBlob    = 64 << 20
	maxRow     = 48 << 10
	maxReceive = 32
	poll       = 30 * time.Second

	usualSuffix = "core.windows.net" // in Azure's worldwide cloud

	// connections is per service. With few idle connections, every burst would open and close the rest.
	connections = 256
	dialTime    = 10 * time.Second
	keepAlive   = 60 * time.Second
	keepLocal   = 3 * time.Second // Azurite hangs up after 5 s
)

// EnvConnectionString names the environment variable that holds the connection string of "azure:".
const EnvConnectionString = "AZURE_STORAGE_CONNECTION_STRING"

var errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)

// store implements driver.Store.
type store struct {
	place  string
	prefix string
	queues *azqueue.ServiceClient
	blobs  *blobservice.Client
	tables *aztables.ServiceClient
	files  *files
	http   *http.Client
	meter  *meter
	timing timing
	closed atomic.Bool
}

// Driver opens the places that URLs with "azure:" name; see the package comment.
var Driver = storage.Driver{
	Scheme: "azure",
	Usage: "azure://ACCOUNT?prefix=NAME is a storage account, with the identity of the program. azure:?prefix=NAME is one with the " +
		"connection string in " + EnvConnectionString + ". azure:UseDevelopmentStorage=true is Azurite on this machine.",
	Open: func(ctx context.Context, rest string, _ storage.OpenConfig) (*storage.Store, error) {
		return Open(ctx, rest)
	},
}

// Open opens a place; the package comment describes the text after "azure:". It makes no request: a wrong key or a
// missing role shows at the first call.
func Open(ctx context.Context, rest string) (*storage.Store, error) {
	s, err := open(ctx, rest, nil)
	if err != nil {
		return nil, err
	}
	return storage.New(s), nil
}

// open lets tests replace the transport.
func open(ctx context.Context, rest string, wrap func(policy.Transporter) policy.Transporter) (*store, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := parse(rest, os.Getenv)
	if err != nil {
		return nil, err
	}
	return p.open(wrap)
}

func (p place) open(wrap func(policy.Transporter) policy.Transporter) (*store, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSHandshakeTimeout:   dialTime,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   connections,
		MaxConnsPerHost:       connections,
		IdleConnTimeout:       keepAlive,
		ResponseHeaderTimeout: tryTime,
		ExpectContinueTimeout: time.Second,
	}
	if p.local() {
		transport.IdleConnTimeout = keepLocal
	}
	s := &store{place: p.name(), prefix: p.prefix, http: &http.Client{Transport: transport}, meter: newMeter(), timing: timing{tryTime, firstDelay, slowest}}
	if err := s.connect(p, wrap); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	return s, nil
}

// connect makes the three clients. Each gets its own options, because the SDK writes into them.
func (s *store) connect(p place, wrap func(policy.Transporter) policy.Transporter) error {
	var transport policy.Transporter = s.http
	if wrap != nil {
		transport = wrap(transport)
	}
	options := func() azcore.ClientOptions {
		return azcore.ClientOptions{
			Transport:        ownBodies{transport},
			PerCallPolicies:  []policy.Policy{&s.meter.paces, keepBody{}},
			PerRetryPolicies: []policy.Policy{s.meter},
			Telemetry:        policy.TelemetryOptions{ApplicationID: "millrace"},
		}
	}
	services := [...]string{"queues", "blobs", "tables"}
	var errs [len(services)]error
	var blobKey *azblob.SharedKeyCredential
	switch {
	case p.key != "":
		shared, err := azqueue.NewSharedKeyCredential(p.account, p.key)
		if err != nil {
			return errors.New("AccountKey is not base64")
		}
		blobKey, _ = azblob.NewSharedKeyCredential(p.account, p.key) // fails only if the first does
		tableKey, _ := aztables.NewSharedKeyCredential(p.account, p.key)
		s.queues, errs[0] = azqueue.NewServiceClientWithSharedKeyCredential(p.queue, shared, &azqueue.ClientOptions{ClientOptions: options()})
		s.blobs, errs[1] = blobservice.NewClientWithSharedKeyCredential(p.blob, blobKey, &blobservice.ClientOptions{ClientOptions: options()})
		s.tables, errs[2] = aztables.NewServiceClientWithSharedKey(p.table, tableKey, &aztables.ClientOptions{ClientOptions: options()})
	case p.sas != "":
		s.queues, errs[0] = azqueue.NewServiceClientWithNoCredential(p.queue+"?"+p.sas, &azqueue.ClientOptions{ClientOptions: options()})
		s.blobs, errs[1] = blobservice.NewClientWithNoCredential(p.blob+"?"+p.sas, &blobservice.ClientOptions{ClientOptions: options()})
		s.tables, errs[2] = aztables.NewServiceClientWithNoCredential(p.table+"?"+p.sas, &aztables.ClientOptions{ClientOptions: options()})
	default:
		if p.who == nil {
			chain, err := azidentity.NewDefaultAzureCredential(nil)
			if err != nil {
				return err
			}
			p.who = chain
		}
		who := identity{p.who}
		s.queues, errs[0] = azqueue.NewServiceClient(p.queue, who, &azqueue.ClientOptions{ClientOptions: options()})
		s.blobs, errs[1] = blobservice.NewClient(p.blob, who, &blobservice.ClientOptions{ClientOptions: options()})
		s.tables, errs[2] = aztables.NewServiceClient(p.table, who, &aztables.ClientOptions{ClientOptions: options()})
	}
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("the address of the %s can't be used", services[i]) // the cause may show a signature
		}
	}
	s.files = &files{s: s, keys: newURLKeys(p, blobKey)}
	return nil
}

// Committer, Listener and Finder implement driver.Store: the service supports none of them. It lists queues, and
// shows what is ready in a queue.
func (s *store) Committer() driver.Committer { return nil }
func (s *store) Listener() driver.Listener   { return nil }
func (s *store) Finder() driver.Finder       { return nil }
func (s *store) Lister() driver.Lister       { return s }
func (s *store) Peeker() driver.Peeker       { return s }
func (s *store) Inspector() driver.Inspector { return nil }

// PublicFiles implements driver.Store.
func (s *store) PublicFiles() driver.PublicFiles { return s }

// Files implements driver.Store.
func (s *store) Files() driver.Files { return s.files }

func (s *store) Props() driver.Props {
	return driver.Props{
		Driver:       "azure",
		Place:        s.place,
		MaxMessage:   maxMessage,
		MaxBlob:      maxBlob,
		MaxRow:       maxRow,
		MaxReceive:   maxReceive,
		PollInterval: poll,
		Billed:       true,
	}
}

func (s *store) Close() error {
	s.closed.Store(true)
	s.http.CloseIdleConnections()
	return nil
}

// A place has the addresses of a store's services, and the credentials for them.
type place struct {
	prefix             string
	account            string
	key, sas           string                 // at most one of them
	who                azcore.TokenCredential // set by tests, if both are empty; nil is the default chain
	queue, blob, table string                 // addresses of the services
}

// local reports that the store is an Azurite, on any machine.
func (p place) local() bool {
	u, err := url.Parse(p.queue)
	return p.account == devAccount || err == nil && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost" || u.Hostname() == "::1")
}

// name says which account it is, and which part of it. parse has seen that the address has no secret.
func (p place) name() string {
	_, address, _ := strings.Cut(p.blob, "://")
	name := "azure " + strings.Trim(address, "/")
	if p.prefix != "" {
		name += " prefix " + p.prefix
	}
	return name
}

// parse reads the text after "azure:". Its errors quote no value, which may be a secret.
func parse(rest string, getenv func(string) string) (place, error) {
	var p place
	bad := func(format string, args ...any) (place, error) {
		return place{}, fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
	}
	// A signature may be written with its own question mark. So the parameters begin at the last one, unless a
	// signature follows it.
	suffix := "" // empty for the usual one
	if i := strings.LastIndexByte(rest, '?'); i >= 0 && !strings.Contains(rest[i:], "sig=") {
		query, err := url.ParseQuery(rest[i+1:])
		if err != nil {
			return bad("the parameters after the question mark can't be read; known are prefix, endpoint")
		}
		rest = rest[:i]
		for name, values := range query {
			switch {
			case len(values) > 1:
				return bad("parameter%s occurs twice", harmless(name))
			case name == "prefix":
				p.prefix = values[0]
			case name == "endpoint" && isHost(values[0]):
				suffix = values[0]
			case name == "endpoint":
				return bad("the parameter endpoint is the part of an address after the service's name; want one like core.chinacloudapi.cn")
			default:
				return bad("unknown parameter%s, or no value for it; known are prefix=shop, endpoint=core.windows.net", harmless(name))
			}
		}
	}
	if err := checkPrefix(p.prefix); err != nil {
		return place{}, err
	}
	if account, ok := strings.CutPrefix(rest, "//"); ok {
		if !isAccount(account) {
			return bad("want azure://ACCOUNT, the account's name of 3 to 24 lower-case letters and digits")
		}
		p.account = account
		p.endpoints("https", cmp.Or(suffix, usualSuffix))
		return p, nil
	}
	if rest == "" {
		if rest = getenv(EnvConnectionString); rest == "" {
			return bad("no account; want azure://ACCOUNT, azure:UseDevelopmentStorage=true, or azure: and a connection string in the environment variable %s", EnvConnectionString)
		}
	}
	if err := p.readConnectionString(rest, suffix); err != nil {
		return place{}, err
	}
	return p, nil
}

// harmless returns a field's name for an error, with a blank before it, if it looks like a name. A key without its
// field name looks like a field, too, because it ends with an equals sign.
func harmless(name string) string {
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return ""
		}
	}
	if name == "" || len(name) > 30 {
		return ""
	}
	return " " + name
}

// isHost reports that a text can be the end of a host's name in an address, and nothing else.
func isHost(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return s != ""
}

func isAccount(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return len(s) >= 3 && len(s) <= 24
}

// endpoints fills in the missing addresses.
func (p *place) endpoints(scheme, suffix string) {
	for service, address := range map[string]*string{"queue": &p.queue, "blob": &p.blob, "table": &p.table} {
		if *address == "" {
			*address = scheme + "://" + p.account + "." + service + "." + suffix
		}
		*address = strings.TrimSuffix(*address, "/") + "/"
	}
}
