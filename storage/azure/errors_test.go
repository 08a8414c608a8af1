package azure

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// everyService makes a request to each service.
func everyService(t *testing.T, s *opened) map[string]error {
	t.Helper()
	_, blob := s.Blobs("docs").Get(t.Context(), "doc", "")
	_, row := s.Table("rows").Get(t.Context(), "p", "k")
	_, write := s.Table("rows").Put(t.Context(), "p", "k", nil, storage.Condition{IfMatch: `W/"1"`})
	return map[string]error{
		"blob": blob, "row": row, "guarded row": write,
		"list":  firstError(s.Blobs("docs").List(t.Context(), "")),
		"rows":  s.Table("rows").PutBatch(t.Context(), "p", []storage.RowPut{{Key: "k"}}),
		"queue": s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte("x")}}),
	}
}

func firstError[T any](items func(func(T, error) bool)) (failed error) {
	for _, err := range items {
		failed = err
		break
	}
	return failed
}

// An account that doesn't exist must not look like an empty account.
func TestNoAccount(t *testing.T) {
	t.Parallel()
	a := azuretest.Shared(t, azurite).Account(t)
	for name, c := range map[string]struct{ url, says string }{
		"unknown account":     {strings.ReplaceAll(a.ConnectionString(), a.Name, "nosuchaccount"), `127.0.0.1:* has no account "nosuchaccount"`},
		"none in an endpoint": {strings.ReplaceAll(a.ConnectionString(), "/"+a.Name, ""), "the endpoint*127.0.0.1:"},
	} {
		for service, err := range everyService(t, openStore(t, c.url)) {
			before, after, _ := strings.Cut(c.says, "*")
			if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) || storage.LostRace(err) {
				t.Errorf("%s, %s: got %v; want one that says that the store is unavailable", name, service, err)
			} else if !strings.Contains(err.Error(), before) || !strings.Contains(err.Error(), after) || strings.Contains(err.Error(), a.Key) {
				t.Errorf("%s, %s: got %v; want one that says %s", name, service, err, c.says)
			}
		}
	}
}

// An answer from elsewhere than the account's services names its host. A failure without an answer says what to
// check.
func TestWrongPlace(t *testing.T) {
	t.Parallel()
	fails := func(err error) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: req.Method, URL: req.URL.String() + "&sig=" + secret, Err: err}
		}
	}
	for name, c := range map[string]struct {
		do   func(*http.Request) (*http.Response, error)
		says string
	}{
		"a page":  {func(req *http.Request) (*http.Response, error) { return respond(req, 404, ""), nil }, "check the account's name and the endpoint acct."},
		"a proxy": {func(req *http.Request) (*http.Response, error) { return respond(req, 400, ""), nil }, "check the account's name and the endpoint acct."},
		"no host": {fails(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "acct.x", IsNotFound: true}}), "acct.x: no such host; check the account's name"},
		"no port": {fails(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), "nothing listens there"},
	} {
		for service, err := range everyService(t, answeredBy(t, transport(c.do))) {
			if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "https:") {
				t.Errorf("%s, %s: got %v; want one that says %q", name, service, err, c.says)
			}
		}
	}
}

// nobody is a credential that has no token. Its error is the SDK's, for all kinds of identity it tried or for a
// single one.
type nobody struct{ err error }

func (n nobody) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, n.err
}

// A program that can't prove its identity makes no request. Its error says in one line what to do.
func TestNoIdentity(t *testing.T) {
	t.Parallel()
	nothing := azidentity.NewCredentialUnavailableError("DefaultAzureCredential: failed to acquire a token.\nAttempted credentials:\n\tEnvironmentCredential: missing\n\tAzureCLICredential: Azure CLI not found on path\n\t\tmore")
	failed := &azidentity.AuthenticationFailedError{RawResponse: says(400, "")}
	failed.RawResponse.Request = nil
	for _, c := range []struct {
		cause error
		says  string
	}{
		{nothing, "store unavailable: DefaultAzureCredential: failed to acquire a token; tried last: AzureCLICredential: Azure CLI not found on path; on your own machine run az login; in production "},
		{failed, "store unavailable:  authentication failed; on your own machine run az login; "},
	} {
		asked := transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("somebody was asked") })
		s := answeredBy(t, asked)
		p := must[place](t)(parse("//acct", none))
		p.who = nobody{c.cause}
		noError(t, s.d.connect(p, func(policy.Transporter) policy.Transporter { return asked }))
		for service, err := range everyService(t, s) {
			var whole *storage.Error
			if !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, c.cause) || !errors.As(err, &whole) || !strings.HasPrefix(whole.Err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: got %v; want one that says %q", service, err, c.says)
			}
		}
		if got := s.Requests(); len(got) != 0 {
			t.Errorf("counted %+v; want nothing", got)
		}
	}
}

// An error says everything once.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	s, _ := service(t, says(403, "AuthorizationFailure"))
	_, forbidden := s.Blobs("docs").Get(t.Context(), "doc", "")
	_, open1 := storage.Drivers{Driver}.Open(t.Context(), "azure://Acct", storage.OpenConfig{})
	_, open2 := storage.Drivers{Driver}.Open(t.Context(), "azure:AccountName=acct;AccountKey=%", storage.OpenConfig{})
	_, open3 := storage.Drivers{Driver}.Open(t.Context(), "azure://acct?prefix=Shop", storage.OpenConfig{})
	s, _ = service(t, says(404, "BlobNotFound"))
	_, missing := s.Blobs("docs").Get(t.Context(), "doc", "")
	_, name := s.Blobs("x").Get(t.Context(), "doc", "")
	for got, want := range map[error]string{
		forbidden: `storage: get blob docs/"doc": store unavailable: azure: 403 AuthorizationFailure (request scripted); check the key or signature, `,
		missing:   `storage: get blob docs/"doc": not found: azure: 404 BlobNotFound (request scripted)`,
		name:      `storage: get blob "x"/"doc": invalid argument: name "x": want `,
		open1:     `storage: open azure store: invalid argument: want azure://ACCOUNT, `,
		open2:     `storage: open azure store: invalid argument: AccountKey is not base64`,
		open3:     `storage: open azure store: invalid argument: the prefix: want `,
	} {
		if got == nil || !strings.HasPrefix(got.Error(), want) {
			t.Errorf("got  %v\nwant %s…", got, want)
		}
		for _, word := range []string{"storage: ", "azure: ", "invalid argument", "store unavailable", "not found"} {
			if strings.Count(got.Error(), word) > 1 {
				t.Errorf("says %q twice: %v", word, got)
			}
		}
	}
}
