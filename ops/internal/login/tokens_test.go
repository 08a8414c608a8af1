package login

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A name stands in the file once, and beside it once for the proxy that names the person: with two lines nobody can
// tell which token or role holds.
func TestANameStandsInTheFileOnce(t *testing.T) {
	t.Parallel()
	_, ada, err := NewToken("ada", "viewer")
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := NewToken("ada", "admin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		ada + "\n" + again + "\n":                        "line 2: line 1 has this name already. Take one",
		ada + "\n# x\n\nada:viewer:proxy\n" + again:      "line 5: line 1",
		"ada:viewer:proxy\nada:admin:proxy\n":            "line 2: line 1",
		"ada:admin:proxy\n" + ada:                        "",
		ada + "\n" + strings.Replace(again, "a", "A", 1): "",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readTokens(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ada")) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// A token lets a program in as it is, and a browser by a cookie. Nobody else comes in.
func TestTokens(t *testing.T) {
	t.Parallel()
	d, _, tokens := withTokens(t, Config{}, "ada:admin", "bob:viewer")
	want(t, "nobody", visit{}.at(d), 401, "Your token")
	want(t, "a program", visit{header: map[string]string{"Authorization": "Bearer " + tokens[1]}}.at(d), 200, "bob 1 127.0.0.1")
	want(t, "a wrong token", visit{header: map[string]string{"Authorization": "Bearer " + tokens[1] + "x"}}.at(d), 401, "not known")
	want(t, "the digest", visit{header: map[string]string{"Authorization": "Bearer " + digest(tokens[1])}}.at(d), 401, "not known")
	r := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {" " + tokens[0] + "\n"}}}.at(d)
	if r.StatusCode != 303 || r.Header.Get("Location") != "./" || len(r.Cookies()) != 1 {
		t.Fatalf("log in: got status %d, %v", r.StatusCode, r.Header)
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "" || c.Secure || strings.Contains(c.Value, tokens[0]) {
		t.Errorf("got cookie %v", c)
	}
	want(t, "a browser", visit{cookie: c}.at(d), 200, "ada 3 127.0.0.1")
	want(t, "a changed cookie", visit{cookie: &http.Cookie{Name: c.Name, Value: "x" + c.Value}}.at(d), 401, "")
	want(t, "a cookie of another process", visit{cookie: c}.at(func() *Door { other, _, _ := withTokens(t, Config{}, "ada:admin"); return other }()), 401, "")
	want(t, "a wrong form", visit{method: "POST", path: "/ops/login", form: url.Values{"token": {"x"}}}.at(d), 403, "let you in")
	if r := (visit{method: "POST", path: "/ops/logout", cookie: c}).at(d); r.Cookies()[0].MaxAge >= 0 {
		t.Errorf("log out: got %v", r.Cookies())
	}
}

// Law: a person who is taken out of the file is out, with cookies and all. So is everybody while the file can't be
// read.
func TestLawWhoLeavesTheFileIsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, path, tokens := withTokens(t, Config{}, "ada:admin")
		c := visit{method: "POST", path: "/ops/login", form: url.Values{"token": {tokens[0]}}}.at(d).Cookies()[0]
		want(t, "before", visit{cookie: c}.at(d), 200, "ada")
		_, line, err := NewToken("ada", "viewer") // another token of the same name
		if err == nil {
			err = os.WriteFile(path, []byte(line), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		want(t, "the cookie of a token that is gone", visit{cookie: c}.at(d), 401, "")
		want(t, "the token that is gone", visit{header: map[string]string{"Authorization": "Bearer " + tokens[0]}}.at(d), 401, "")
		if err := os.WriteFile(path, []byte("ada:king:x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		want(t, "a file that can't be read", visit{header: map[string]string{"Authorization": "Bearer " + tokens[0]}}.at(d), 503, "the log says why")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		want(t, "no file", visit{header: map[string]string{"Authorization": "Bearer " + tokens[0]}}.at(d), 503, "")
	})
}
