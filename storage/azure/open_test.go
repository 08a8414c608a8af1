package azure

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

const secret = "c2VjcmV0c2VjcmV0"

func none(string) string { return "" }

func TestPlaces(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		if name != EnvConnectionString {
			t.Errorf("asks for %s", name)
		}
		return "AccountName=fromenv;AccountKey=" + secret
	}
	for rest, want := range map[string]place{
		"//acct":             {account: "acct", queue: "https://acct.queue.core.windows.net/", blob: "https://acct.blob.core.windows.net/", table: "https://acct.table.core.windows.net/"},
		"//acct?prefix=shop": {prefix: "shop", account: "acct", queue: "https://acct.queue.core.windows.net/", blob: "https://acct.blob.core.windows.net/", table: "https://acct.table.core.windows.net/"},
		"AccountName=acct;AccountKey=" + secret + "?endpoint=core.x": {account: "acct", key: secret, queue: "https://acct.queue.core.x/", blob: "https://acct.blob.core.x/", table: "https://acct.table.core.x/"},
		"//acct?endpoint=core.x":                                     {account: "acct", queue: "https://acct.queue.core.x/", blob: "https://acct.blob.core.x/", table: "https://acct.table.core.x/"},
		"":                                                           {account: "fromenv", key: secret, queue: "https://fromenv.queue.core.windows.net/", blob: "https://fromenv.blob.core.windows.net/", table: "https://fromenv.table.core.windows.net/"},
		"?prefix=shop":                                               {prefix: "shop", account: "fromenv", key: secret, queue: "https://fromenv.queue.core.windows.net/", blob: "https://fromenv.blob.core.windows.net/", table: "https://fromenv.table.core.windows.net/"},
		"UseDevelopmentStorage=true": {account: devAccount, key: devKey, queue: "http://127.0.0.1:10001/" + devAccount + "/", blob: "http://127.0.0.1:10000/" + devAccount + "/",
			table: "http://127.0.0.1:10002/" + devAccount + "/"},
		"DevelopmentStorageProxyUri=http://azurite/;UseDevelopmentStorage=true": {account: devAccount, key: devKey, queue: "http://azurite:10001/" + devAccount + "/",
			blob: "http://azurite:10000/" + devAccount + "/", table: "http://azurite:10002/" + devAccount + "/"},
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=https://[::2]": {account: devAccount, key: devKey, queue: "https://[::2]:10001/" + devAccount + "/",
			blob: "https://[::2]:10000/" + devAccount + "/", table: "https://[::2]:10002/" + devAccount + "/"},
		"BlobEndpoint=https://b.example/;AccountName=acct;SharedAccessSignature=sig=" + secret: {account: "acct", sas: "sig=" + secret,
			queue: "https://acct.queue.core.windows.net/", blob: "https://b.example/", table: "https://acct.table.core.windows.net/"},
		"DefaultEndpointsProtocol=https; accountname=acct ;AccountKey=" + secret + "==;EndpointSuffix=core.x;": {account: "acct", key: secret + "==",
			queue: "https://acct.queue.core.x/", blob: "https://acct.blob.core.x/", table: "https://acct.table.core.x/"},
		"AccountName=acct;SharedAccessSignature=?sv=2024&sig=" + secret + "%3D": {account: "acct", sas: "sv=2024&sig=" + secret + "%3D",
			queue: "https://acct.queue.core.windows.net/", blob: "https://acct.blob.core.windows.net/", table: "https://acct.table.core.windows.net/"},
		"BlobEndpoint=https://b.example;QueueEndpoint=https://q.example/;TableEndpoint=https://t.example/x;SharedAccessSignature=sv=1&sig=" + secret + "?prefix=shop": {prefix: "shop",
			sas: "sv=1&sig=" + secret, queue: "https://q.example/", blob: "https://b.example/", table: "https://t.example/x/"},
	} {
		got, err := parse(rest, env)
		if err != nil || got != want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", rest, got, err, want)
		}
	}
}

func TestBadPlaces(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"":                                   EnvConnectionString,
		"//":                                 "azure://ACCOUNT",
		"//Acct":                             "azure://ACCOUNT",
		"//acct.queue.core.windows.net":      "azure://ACCOUNT",
		"//acct?prefix=Shop":                 "lower-case",
		"//acct?prefix=shop&prefix=x":        "twice",
		"//acct?endpoint=":                   "endpoint",
		"//acct?endpoint=http://x":           "endpoint",
		"//acct?colour=red":                  "colour",
		"//acct?endpoint=core.x%23y":         "core.chinacloudapi.cn",
		"//acct?endpoint=core.x%3Fy":         "core.chinacloudapi.cn",
		"//acct?prefix=%zz":                  "prefix",
		"acct":                               "equals sign",
		"AccountName=acct":                   "neither AccountKey",
		"AccountKey=" + secret:               "AccountName",
		"UseDevelopmentStorage=yes":          "true",
		"AccountName=a;AccountKye=" + secret: "AccountKye",
		"AccountName=acct;AccountKey=" + secret + ";SharedAccessSignature=sig=" + secret:                                 "both",
		"AccountName=acct;AccountKey=" + secret + ";DefaultEndpointsProtocol=ftp":                                        "neither http nor https",
		"AccountName=acct;AccountKey=" + secret + ";BlobEndpoint=" + secret:                                              "BlobEndpoint is no address",
		"AccountName=acct;" + secret + "==":                                                                              "part 2",
		"//acct?" + secret + "==":                                                                                        "prefix",
		"AccountName=acct;AccountKey=%" + secret:                                                                         "base64",
		"SharedAccessSignature=sv=1&sig=" + secret:                                                                       "AccountName",
		`"AccountName=acct;AccountKey=` + secret + `"`:                                                                   "remove them",
		"'AccountName=acct;AccountKey=" + secret + "'?prefix=shop":                                                       "remove them",
		`AccountName="acct";AccountKey=` + secret:                                                                        "remove them",
		`"UseDevelopmentStorage=true"`:                                                                                   "remove them",
		"UseDevelopmentStorage=true?endpoint=core.x":                                                                     "has no effect",
		"AccountName=acct;AccountKey=" + secret + ";EndpointSuffix=x?endpoint=core.x":                                    "leave out one",
		"AccountName=acct;AccountKey=" + secret + ";EndpointSuffix=core.x/y":                                             "EndpointSuffix",
		"AccountName=acct;AccountKey=" + secret + ";EndpointSuffix=":                                                     "EndpointSuffix",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite:10000":                                     "DevelopmentStorageProxyUri",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite/devstoreaccount1":                          "DevelopmentStorageProxyUri",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://u:" + secret + "@azurite":                          "DevelopmentStorageProxyUri",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite:":                                          "DevelopmentStorageProxyUri",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=azurite":                                                  "want http://HOST",
		"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=":                                                         "DevelopmentStorageProxyUri has no value",
		"AccountName=acct;AccountKey=" + secret + ";DevelopmentStorageProxyUri=http://azurite":                           "want UseDevelopmentStorage=true",
		"UseDevelopmentStorage=true;BlobEndpoint=http://azurite:10000/devstoreaccount1":                                  "BlobEndpoint has no effect",
		"AccountKey=" + secret + ";UseDevelopmentStorage=true":                                                           "AccountKey has no effect",
		"AccountName=acct;AccountKey=" + secret + ";BlobSecondaryEndpoint=https://acct-secondary.blob.core.windows.net":  "BlobSecondaryEndpoint",
		"AccountName=acct;AccountKey=" + secret + ";DfsEndpoint=https://acct.dfs.core.windows.net":                       "DfsEndpoint",
		"AccountName=acct;AccountKey=" + secret + ";QueueEndpoint=":                                                      "QueueEndpoint has no value",
		"AccountName=acct;AccountKey=":                                                                                   "AccountKey has no value",
		"BlobEndpoint=https://b;QueueEndpoint=https://q;SharedAccessSignature=sig=" + secret:                             "has no TableEndpoint, and no AccountName",
		"TableEndpoint=https://t;SharedAccessSignature=sig=" + secret:                                                    "has no QueueEndpoint and no BlobEndpoint, and no AccountName",
		"AccountName=Acct;AccountKey=" + secret:                                                                          "lower-case",
		"AccountName=Acct;AccountKey=" + secret + ";BlobEndpoint=http://b;QueueEndpoint=http://q;TableEndpoint=http://t": "lower-case",
		"AccountName=acct;AccountKey=" + secret + ";accountname=acct":                                                    "twice",
		"AccountName=acct;AccountKey=" + secret + ";AccountKey=" + secret:                                                "twice",
	} {
		p, err := parse(rest, none)
		if err == nil { // the SDK may refuse it, too
			s := &store{meter: newMeter()}
			if err = s.connect(p, nil); err != nil {
				err = errors.Join(storage.ErrInvalid, err)
			}
		}
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want one that says %q", rest, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

// A field that is set has an effect, or is refused by its name. Only FileEndpoint, which the portal writes beside
// the others, is ignored.
func TestNoFieldIsIgnored(t *testing.T) {
	t.Parallel()
	bases := []string{"AccountName=acct;AccountKey=" + secret, "AccountName=acct;SharedAccessSignature=sig=" + secret, "UseDevelopmentStorage=true"}
	values := map[string]string{
		fieldDevelopment: "true", fieldProxy: "http://elsewhere", fieldProtocol: "http", fieldSuffix: "core.x", fieldAccount: "other", fieldKey: "b3RoZXI=",
		fieldSignature: "sig=b3RoZXI", fieldQueue: "http://q", fieldBlob: "http://b", fieldTable: "http://t", "colour": "red",
	}
	for _, name := range slices.Concat(knownFields, secondaryFields) {
		if values[name] == "" && name != fieldFile {
			values[name] = "http://elsewhere"
		}
	}
	for _, base := range bases[:2] {
		without, _ := parse(base, none)
		if with, err := parse(base+";"+fieldFile+"=https://acct.file.core.windows.net", none); err != nil || with != without {
			t.Errorf("%s;FileEndpoint: got %+v, %v; want it taken and not used", base, with, err)
		}
	}
	for _, base := range bases {
		without, err := parse(base, none)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range values {
			with, err := parse(base+";"+name+"="+value, none)
			switch {
			case err == nil && with == without:
				t.Errorf("%s;%s: the field is taken and ignored", base, name)
			case err != nil && !strings.Contains(err.Error(), name):
				t.Errorf("%s;%s: got %v, want the field named", base, name, err)
			}
		}
	}
}

func FuzzPlaces(f *testing.F) {
	for _, s := range []string{"", "//acct?prefix=x", "AccountName=a;AccountKey=" + secret, "UseDevelopmentStorage=true?", "?;=&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		p, err := parse(rest, none)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%q: %v", rest, err)
			}
			return
		}
		if p.queue == "" || p.blob == "" || p.table == "" || checkPrefix(p.prefix) != nil {
			t.Errorf("%q: %+v", rest, p)
		}
	})
}

// The place of a store tells the account and the prefix, and no secret. It is the same for a key and for a signature.
func TestPlaceTellsTheAccount(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"//acct":             "azure acct.blob.core.windows.net",
		"//acct?prefix=shop": "azure acct.blob.core.windows.net prefix shop",
		"AccountName=acct;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net":                        "azure acct.blob.core.windows.net",
		"AccountName=acct;SharedAccessSignature=sv=2020&sig=c2VjcmV0;EndpointSuffix=core.windows.net": "azure acct.blob.core.windows.net",
		"UseDevelopmentStorage=true": "azure 127.0.0.1:10000/devstoreaccount1",
	} {
		s, err := Open(t.Context(), rest)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := s.Props().Place; got != want {
			t.Errorf("got place %q, want %q", got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
