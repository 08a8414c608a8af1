package azure

import (
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// checkSecret opens a place with a secret somewhere in it. An error must not tell the secret, and an opened store
// must have the address that the place says.
func checkSecret(t *testing.T, before, after string) {
	t.Helper()
	const key = "Zm9y/YmlkZGVu" // no error may contain it
	rest := before + key + after
	p, err := parse(rest, none)
	if err == nil && (p.key != "" || p.sas != "") {
		err = (&store{meter: newMeter()}).connect(p, nil)
	}
	if err != nil {
		if text := err.Error(); strings.Contains(text, key) || strings.Contains(text, url.QueryEscape(key)) || strings.ContainsAny(text, "\x00\r\n\x1b\x7f") {
			t.Errorf("%q: the error is %q", rest, text)
		}
		return
	}
	for service, address := range map[string]string{"queue": p.queue, "blob": p.blob, "table": p.table} {
		u, err := url.Parse(address)
		if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("%q: the %ss are at %q (%v)", rest, service, address, err)
			continue
		}
		given := strings.Contains(strings.ToLower(rest), service+"endpoint") || strings.Contains(strings.ToLower(rest), "usedevelopmentstorage")
		if !given && !strings.HasPrefix(u.Hostname(), p.account+"."+service+".") {
			t.Errorf("%q: the %ss are at %q, want them at the account %q", rest, service, address, p.account)
		}
	}
}

var secretPlaces = [][2]string{
	{"AccountName=acct;AccountKey=", ""}, {"AccountName=acct;AccountKey=", "==?prefix=shop"}, {"AccountName=acct;", "=="}, {"AccountName=", ";AccountKey=a2V5"}, {"", "=x"}, {"//", ""}, {"//acct?", "=1"},
	{"//acct?endpoint=", ""}, {"//acct?prefix=", ""}, {"AccountName=acct;AccountKey=a2V5;BlobEndpoint=http://", "/"}, {"AccountName=acct;AccountKey=a2V5;BlobEndpoint=http://u:", "@h/"},
	{"AccountName=acct;AccountKey=a2V5;EndpointSuffix=x@", ""}, {"AccountName=evil.example/;AccountKey=", ""}, {"AccountName=evil.example#;AccountKey=", ""}, {"AccountName=acct;SharedAccessSignature=sv=1&sig=", ""},
	{"AccountName=acct;SharedAccessSignature=\x00", "%zz"}, {"UseDevelopmentStorage=true;AccountKey=", ""}, {"DefaultEndpointsProtocol=", ";AccountName=acct;AccountKey=a2V5"}, {`"AccountName=acct;AccountKey=`, `"`}, {"?", ""}, {"\n", "\x1b"},
}

// No error tells a connection string's secret. Its account and endpoints lead to no other host.
func TestSecretsAndPlaces(t *testing.T) {
	t.Parallel()
	for _, s := range secretPlaces {
		checkSecret(t, s[0], s[1])
	}
}

func FuzzSecret(f *testing.F) {
	for _, s := range secretPlaces {
		f.Add(s[0], s[1])
	}
	f.Fuzz(checkSecret)
}

// FuzzNames checks that the port's names become names that the service accepts, and that different names stay
// different.
func FuzzNames(f *testing.F) {
	f.Add("shop", "mails", "mails-z")
	f.Add("", "tables", "tableszh")
	f.Add("z", "a-"+strings.Repeat("z-", 23)+"z9", "zzx")
	f.Add("../", "mails/x", "Mails\n")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		if checkPrefix(prefix) != nil {
			return
		}
		for name, other := range map[string]string{a: b, b: a} {
			if storage.CheckName(name) != nil {
				continue
			}
			plain, table := plainName(prefix, name), tableName(prefix, name)
			alphanumeric := !strings.ContainsFunc(table, func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') })
			if len(plain) > maxServiceName || len(table) > maxServiceName || !alphanumeric || table == "tables" || table[0] > 'z' || table[0] < 'a' {
				t.Errorf("%q: got %q and %q", name, plain, table)
			}
			if storage.CheckName(other) == nil && name != other && tableName(prefix, other) == table {
				t.Errorf("%q and %q are both the table %q", name, other, table)
			}
		}
	})
}
