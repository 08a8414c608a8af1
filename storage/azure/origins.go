package azure

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	blobservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/millrace-go/millrace/storage/driver"
)

// The rule of this driver among those of the account's blobs. By its form it is known again.
const (
	corsMethods = "GET,PUT,OPTIONS"
	corsHeaders = "content-type,x-ms-*,range"
	corsExposed = "etag,x-ms-*"
	corsSeconds = 3600
	maxRules    = 5 // the service takes no more
)

// Origins implements driver.Files. The rules belong to the account, so all places in it share the driver's rule. The
// rules of others stay. Two calls at once may undo each other's change: the service has no condition for that.
func (f *files) Origins(ctx context.Context, set []string) ([]string, error) {
	p := part{f.s, "file", "origins"}
	c := p.call("origins", always)
	var now []string
	err := p.do(ctx, c, func(ctx context.Context) error {
		got, err := f.s.blobs.GetProperties(ctx, nil)
		if err != nil {
			return mayNotSet(err)
		}
		rules := slices.DeleteFunc(got.CORS, func(r *blobservice.CORSRule) bool {
			if isOwnRule(r) {
				now = append(now, strings.Split(*r.AllowedOrigins, ",")...)
			}
			return isOwnRule(r)
		})
		switch {
		case len(set) == 0:
			return nil
		case len(rules) >= maxRules:
			return fmt.Errorf("%w: the account's blobs have %d rules for origins, of others, and can't have more; remove one", driver.ErrUnsupported, len(rules))
		}
		rules = append(rules, &blobservice.CORSRule{
			AllowedOrigins: to.Ptr(strings.Join(set, ",")), AllowedMethods: to.Ptr(corsMethods), AllowedHeaders: to.Ptr(corsHeaders),
			ExposedHeaders: to.Ptr(corsExposed), MaxAgeInSeconds: to.Ptr(int32(corsSeconds)),
		})
		if _, err := f.s.blobs.SetProperties(c.beside(ctx, "set origins"), &blobservice.SetPropertiesOptions{CORS: rules}); err != nil {
			return mayNotSet(err)
		}
		now = slices.Clone(set)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return now, nil
}

func isOwnRule(r *blobservice.CORSRule) bool {
	is := func(s *string, want string) bool {
		return s != nil && strings.EqualFold(strings.ReplaceAll(*s, " ", ""), want)
	}
	return is(r.AllowedMethods, corsMethods) && is(r.AllowedHeaders, corsHeaders) && is(r.ExposedHeaders, corsExposed) &&
		r.MaxAgeInSeconds != nil && *r.MaxAgeInSeconds == corsSeconds && r.AllowedOrigins != nil
}

// mayNotSet says what an identity lacks that may write blobs, but not change the account.
func mayNotSet(err error) error {
	if e, ok := answer(err); ok && e.Status == http.StatusForbidden {
		return fmt.Errorf("%w: %w; check that the identity has the role Storage Account Contributor, which the program itself needn't have", driver.ErrUnavailable, e)
	}
	return err
}
