package azure

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// identity is a credential whose errors are noToken errors.
type identity struct{ azcore.TokenCredential }

func (i identity) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := i.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = &noToken{err}
	}
	return token, err
}

// noToken says that the program couldn't prove its identity, so that no request was made. The SDK's text has a
// paragraph for each kind of identity that it tried. This one has one line: the first, and the last kind tried.
type noToken struct{ cause error }

func (e *noToken) Error() string {
	text := e.cause.Error()
	first, rest, _ := strings.Cut(text, "\n")
	last := ""
	for line := range strings.Lines(rest) {
		if kind, ok := strings.CutPrefix(line, "\t"); ok && !strings.HasPrefix(kind, "\t") {
			last = kind
		}
	}
	first = strings.TrimRight(first, ". ")
	if last = strings.TrimRight(last, ". \n"); last != "" {
		first += "; tried last: " + last
	}
	return first
}

func (e *noToken) Unwrap() error { return e.cause }

// NonRetriable tells the SDK to make no further try.
func (e *noToken) NonRetriable() {}
