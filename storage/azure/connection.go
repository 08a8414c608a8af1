package azure

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
)

// Fields of a connection string, as Azure's SDKs name them.
const (
	fieldDevelopment = "UseDevelopmentStorage"
	fieldProxy       = "DevelopmentStorageProxyUri"
	fieldProtocol    = "DefaultEndpointsProtocol"
	fieldSuffix      = "EndpointSuffix"
	fieldAccount     = "AccountName"
	fieldKey         = "AccountKey"
	fieldSignature   = "SharedAccessSignature"
	fieldQueue       = "QueueEndpoint"
	fieldBlob        = "BlobEndpoint"
	fieldTable       = "TableEndpoint"
	fieldFile        = "FileEndpoint" // written by the portal; this driver doesn't use files
)

var knownFields = []string{
	fieldDevelopment, fieldProxy, fieldProtocol, fieldSuffix, fieldAccount, fieldKey, fieldSignature,
	fieldQueue, fieldBlob, fieldTable, fieldFile,
}

// secondaryFields are fields that the SDKs know. Ignoring them would promise that reads go there when the account
// fails.
var secondaryFields = []string{"QueueSecondaryEndpoint", "BlobSecondaryEndpoint", "TableSecondaryEndpoint", "FileSecondaryEndpoint"}

// All emulators have the same account, and its key is no secret.
const (
	devAccount = "devstoreaccount1"
	devKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// readConnectionString reads a connection string as the portal gives it. endpoint is the URL parameter beside it,
// or empty.
func (p *place) readConnectionString(text, endpoint string) error {
	given, err := readFields(text)
	if err != nil {
		return err
	}
	if given[fieldDevelopment] != "" || given[fieldProxy] != "" {
		err = p.useEmulator(given, endpoint)
	} else {
		err = p.useAccount(given, endpoint)
	}
	if err != nil {
		return err
	}
	for _, e := range [...]struct{ field, address string }{{fieldQueue, p.queue}, {fieldBlob, p.blob}, {fieldTable, p.table}} {
		if u, err := url.Parse(e.address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
			return fmt.Errorf("%w: the connection string's %s is no address like https://ACCOUNT.queue.core.windows.net", driver.ErrInvalid, e.field)
		}
	}
	return nil
}

// readFields returns a connection string's fields by the names that the SDKs give them. No value is empty.
func readFields(text string) (map[string]string, error) {
	if strings.ContainsAny(text, `"'`) {
		return nil, fmt.Errorf("%w: the connection string contains quotation marks: remove them", driver.ErrInvalid)
	}
	given := map[string]string{}
	n := 0
	for part := range strings.SplitSeq(text, ";") {
		n++
		if strings.TrimSpace(part) == "" {
			continue
		}
		written, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, fmt.Errorf("%w: a connection string is pairs like AccountName=…; one of its parts has no equals sign", driver.ErrInvalid)
		}
		same := func(name string) bool { return strings.EqualFold(name, written) }
		i := slices.IndexFunc(knownFields, same)
		switch {
		case slices.ContainsFunc(secondaryFields, same):
			return nil, fmt.Errorf("%w: the connection string has a %s, and nothing is ever read from an account's secondary: remove the field", driver.ErrInvalid, written)
		case i < 0:
			return nil, fmt.Errorf("%w: the connection string has an unknown field%s, its part %d", driver.ErrInvalid, harmless(written), n)
		}
		name := knownFields[i]
		switch {
		case given[name] != "":
			return nil, fmt.Errorf("%w: the connection string has the field %s twice, again as its part %d", driver.ErrInvalid, name, n)
		case value == "":
			return nil, fmt.Errorf("%w: the connection string's %s has no value: give it one, or remove the field", driver.ErrInvalid, name)
		}
		given[name] = value
	}
	return given, nil
}

// useEmulator reads the short form for Azurite, which implies the account, its key and the ports.
func (p *place) useEmulator(given map[string]string, endpoint string) error {
	if given[fieldDevelopment] != "true" {
		return fmt.Errorf("%w: want %s=true in the connection string, which %s needs beside it", driver.ErrInvalid, fieldDevelopment, fieldProxy)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name != fieldDevelopment && name != fieldProxy {
			return fmt.Errorf("%w: the connection string has %s=true, beside which %s has no effect: remove one of them", driver.ErrInvalid, fieldDevelopment, name)
		}
	}
	if endpoint != "" {
		return fmt.Errorf("%w: the connection string says where all services are, so the parameter endpoint has no effect: leave it out", driver.ErrInvalid)
	}
	machine := cmp.Or(given[fieldProxy], "http://127.0.0.1")
	u, err := url.Parse(machine)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.TrimSuffix(machine, "/") != u.Scheme+"://"+u.Host ||
		u.Port() != "" || strings.HasSuffix(u.Host, ":") {
		return fmt.Errorf("%w: the connection string's %s is the machine that Azurite runs on, with its usual ports: want http://HOST", driver.ErrInvalid, fieldProxy)
	}
	machine = strings.TrimSuffix(machine, "/")
	p.account, p.key = devAccount, devKey
	p.blob, p.queue, p.table = machine+":10000/"+devAccount+"/", machine+":10001/"+devAccount+"/", machine+":10002/"+devAccount+"/"
	return nil
}

// useAccount reads the long form. A given endpoint takes precedence over the one that follows from the account's
// name.
func (p *place) useAccount(given map[string]string, endpoint string) error {
	p.account, p.key, p.sas = given[fieldAccount], given[fieldKey], strings.TrimPrefix(given[fieldSignature], "?")
	p.queue, p.blob, p.table = given[fieldQueue], given[fieldBlob], given[fieldTable]
	scheme, suffix := cmp.Or(given[fieldProtocol], "https"), given[fieldSuffix]
	var missing []string
	for _, name := range []string{fieldQueue, fieldBlob, fieldTable} {
		if given[name] == "" {
			missing = append(missing, name)
		}
	}
	all := len(missing) == 0
	switch {
	case scheme != "http" && scheme != "https":
		return fmt.Errorf("%w: DefaultEndpointsProtocol is neither http nor https", driver.ErrInvalid)
	case suffix != "" && !isHost(suffix):
		return fmt.Errorf("%w: EndpointSuffix is the part of an address after the service's name; want one like core.windows.net", driver.ErrInvalid)
	case p.key == "" && p.sas == "":
		return fmt.Errorf("%w: the connection string has neither AccountKey nor SharedAccessSignature; without a secret use azure://ACCOUNT", driver.ErrInvalid)
	case p.key != "" && p.sas != "":
		return fmt.Errorf("%w: the connection string has both AccountKey and SharedAccessSignature", driver.ErrInvalid)
	case p.account == "" && p.key != "":
		return fmt.Errorf("%w: the connection string has no AccountName, which an AccountKey needs beside it", driver.ErrInvalid)
	case p.account == "" && !all:
		names := strings.Join(missing, " and no ")
		return fmt.Errorf("%w: the connection string has no %s, and no AccountName that would tell it: add one or the other", driver.ErrInvalid, names)
	case endpoint != "" && suffix != "":
		return fmt.Errorf("%w: the connection string has an EndpointSuffix, and the parameter endpoint stands behind it: leave out one of them", driver.ErrInvalid)
	case endpoint != "" && all:
		return fmt.Errorf("%w: the connection string says where all services are, so the parameter endpoint has no effect: leave it out", driver.ErrInvalid)
	case !all && !isAccount(p.account), p.account != strings.ToLower(p.account): // the name becomes part of an address, and may be a key in the wrong place
		return fmt.Errorf("%w: the connection string's AccountName is no account's: want 3 to 24 lower-case letters and digits", driver.ErrInvalid)
	}
	p.endpoints(scheme, cmp.Or(endpoint, suffix, usualSuffix))
	return nil
}
