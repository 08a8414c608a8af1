package valet_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/millracetest"
)

// eight makes a grant of eight bytes, and returns the URL for them.
func (w *town) eight(ttl time.Duration) (valet.Key, string) {
	w.t.Helper()
	key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 8, TTL: ttl})
	return key, w.part(key, 1).URL
}

func (w *town) wantHave(key valet.Key, have string) {
	w.t.Helper()
	got := w.want(http.StatusOK, http.MethodGet, key.URL, nil)
	if strings.Contains(got, `"have"`) != (have != "") || have != "" && !strings.Contains(got, `"have":"`+have+`"`) {
		w.t.Errorf("got %s, want %q", got, have)
	}
}

// A part has the bytes that it has to have, neither one more nor one less, with a length ahead and without one.
func TestPartsOfTheWrongSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		length int
		body   []string
		code   int // 0: the connection ends, because the request did
	}{
		{"as declared", 8, []string{"12345678"}, http.StatusCreated},
		{"by pieces", 8, []string{"1", "234", "5678"}, http.StatusCreated},
		{"chunked", -1, []string{chunk("1234"), chunk("5678") + "0\r\n\r\n"}, http.StatusCreated},
		{"a byte more", 9, []string{"123456789"}, http.StatusRequestEntityTooLarge},
		{"a byte more, not sent", 9, nil, http.StatusRequestEntityTooLarge},
		{"chunked, a byte more", -1, []string{chunk("12345678"), chunk("9") + "0\r\n\r\n"}, http.StatusRequestEntityTooLarge},
		{"chunked, a byte more at once", -1, []string{chunk("123456789") + "0\r\n\r\n"}, http.StatusRequestEntityTooLarge},
		{"chunked without end", -1, []string{chunk("12345678"), chunk(strings.Repeat("x", 1<<10))}, http.StatusRequestEntityTooLarge},
		{"a byte less", 7, []string{"1234567"}, http.StatusBadRequest},
		{"chunked, a byte less", -1, []string{chunk("1234567") + "0\r\n\r\n"}, http.StatusBadRequest},
		{"nothing", 0, nil, http.StatusBadRequest},
		{"chunked, nothing", -1, []string{"0\r\n\r\n"}, http.StatusBadRequest},
		{"chunks that are none", -1, []string{"zz\r\n1234"}, http.StatusBadRequest},
		{"2 GiB", 2 << 30, nil, http.StatusRequestEntityTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inTown(t, valet.Config{}, func(w *town) {
				dial, end := w.serve()
				defer end()
				key, url := w.eight(0)
				r, err := answerTo(dial(), time.Second, append([]string{putHead(url, test.length)}, test.body...)...)
				if err != nil || r.StatusCode != test.code {
					w.t.Fatalf("got %v (%v), want %d", r, err, test.code)
				}
				if test.code == http.StatusCreated {
					w.wantHave(key, "1")
				} else {
					w.wantHave(key, "")
					w.want(http.StatusConflict, http.MethodPost, key.URL+"/complete", nil)
				}
			})
		})
	}
}

// A body that breaks off leaves nothing, and the part can come again.
func TestABodyBreaksOff(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		dial, end := w.serve()
		defer end()
		key, url := w.eight(0)
		for _, pieces := range [][]string{{putHead(url, 8)}, {putHead(url, 8), "1234"}, {putHead(url, -1), chunk("1234")}, {putHead(url, -1), chunk("1234") + "5\r\n567"}} {
			conn := dial()
			for _, piece := range pieces {
				if _, err := io.WriteString(conn, piece); err != nil {
					w.t.Fatal(err)
				}
			}
			w.must(conn.Close())
			w.app.Advance(time.Second)
			w.wantHave(key, "")
		}
		r, err := answerTo(dial(), 0, putHead(url, 8), "12345678")
		if err != nil || r.StatusCode != http.StatusCreated {
			w.t.Errorf("got %v (%v)", r, err)
		}
		w.wantHave(key, "1")
	})
}

// Bytes that stand still end the request after a minute. Bytes that trickle end it a little after the key's end: after
// the last cleaning nothing may come.
func TestASlowWriterEnds(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		dial, end := w.serve()
		defer end()
		for _, test := range []struct {
			name     string
			pause    time.Duration
			at, most time.Duration
		}{
			{"stands still", 10 * time.Hour, 0, time.Minute},
			{"trickles", 50 * time.Second, 14 * time.Minute, 4 * time.Minute},
		} {
			key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 1 << 10, TTL: 20 * time.Minute})
			url := w.part(key, 1).URL
			time.Sleep(test.at)
			begin := time.Now()
			r, err := answerTo(dial(), test.pause, append([]string{putHead(url, 1<<10)}, strings.Split(strings.Repeat("x", 1<<10), "")...)...)
			if took := time.Since(begin); took > test.most || err == nil && r.StatusCode < 400 {
				w.t.Errorf("%s: it took %v, and the answer is %v (%v)", test.name, took, r, err)
			}
			w.app.Advance(2 * time.Hour)
			w.wantState(key.ID, valet.StateExpired)
			w.wantNoBytes(key.ID)
		}
	})
}

// A client that takes no bytes loses its connection after a minute.
func TestASlowReaderEnds(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		dial, end := w.serve()
		defer end()
		content := []byte(strings.Repeat("0123456789abcdef", 1<<16))
		key := w.upload(valet.Upload{Rule: "any", Type: "text/plain", Size: int64(len(content))})
		millracetest.Upload(w.t, w.v, key, content)
		w.app.Drain()
		get := "GET " + w.read(key.ID, valet.Download{Owner: "cook"}).URL + " HTTP/1.1\r\nHost: x\r\n\r\n"
		for _, pause := range []time.Duration{30 * time.Second, 61 * time.Second} {
			conn := dial()
			if _, err := io.WriteString(conn, get); err != nil {
				w.t.Fatal(err)
			}
			time.Sleep(pause)
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			n := int64(0)
			if err == nil {
				n, err = io.Copy(io.Discard, r.Body)
			}
			if good := err == nil && n == int64(len(content)); good != (pause < time.Minute) {
				w.t.Errorf("after %v: got %d bytes, %v", pause, n, err)
			}
			_ = conn.Close()
		}
	})
}

// A content that is two things at once is served as what was declared, and never as a page or a script. Bytes that
// begin as something else are refused.
func TestContentThatIsSeveralThings(t *testing.T) {
	t.Parallel()
	gif := "GIF89a/*\x01\x00\x01\x00\x00\x00\x00*/=1;alert(document.domain);//"
	for _, test := range []struct {
		name, declared, content string
		good                    bool
	}{
		{"picture and script", "image/gif", gif, true},
		{"picture and script, as a script", "text/javascript", gif, false},
		{"picture and script, as a page", "text/html", gif, false},
		{"document in a picture's name", "image/png", string(pdf), false},
		{"document and page", "application/pdf", "%PDF-1.7\n<script>alert(1)</script>", true},
		{"page with a mark of its order", "image/png", "\ufeff<!DOCTYPE html><script>alert(1)</script>", false},
		{"page with a mark of its order, as text", "text/plain", "\ufeff<!DOCTYPE html><script>alert(1)</script>", true},
		{"page behind blanks", "image/png", strings.Repeat(" \n", 600) + "<html><script>alert(1)</script>", false},
		{"page behind a comment", "image/jpeg", "<!--\xff\xd8\xff--><script>alert(1)</script>", false},
		{"archive in a picture's name", "image/png", "PK\x03\x04\x14\x00\x00\x00", false},
		{"program in a picture's name", "image/png", "MZ\x90\x00\x03\x00\x00\x00", false},
		{"picture with a page at its end", "image/png", string(png) + "<html><script>alert(1)</script>", true},
		{"zeroes", "image/png", strings.Repeat("\x00", 100), false},
		{"text as a picture with scripts", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inTown(t, valet.Config{}, func(w *town) {
				key := w.upload(valet.Upload{Rule: "any", Type: test.declared, Size: int64(len(test.content)), Name: "x.html"})
				millracetest.Upload(w.t, w.v, key, []byte(test.content))
				w.app.Drain()
				if !test.good {
					w.wantState(key.ID, valet.StateRejected)
					w.wantNoBytes(key.ID)
					return
				}
				w.wantState(key.ID, valet.StateClean)
				r := w.ask(http.MethodGet, w.read(key.ID, valet.Download{Owner: "cook", Inline: true}).URL, nil)
				kind, how := r.Header.Get("Content-Type"), r.Header.Get("Content-Disposition")
				scripts := test.declared == "image/svg+xml" || test.declared == "application/pdf"
				if strings.TrimSuffix(kind, "; charset=utf-8") != test.declared || r.Header.Get("X-Content-Type-Options") != "nosniff" || strings.HasPrefix(how, "inline") == scripts {
					w.t.Errorf("got %s, %s", kind, how)
				}
			})
		})
	}
}

// A name is data: a path before it is left out, and nothing in it gets into a header.
func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		for name, want := range map[string]string{
			"../../etc/passwd": "passwd", `C:\Users\ada\wish.png`: "wish.png", "/": "", "a/..": "", ".": "", "..": "", "": "", "a/": "a", "...": "...", "~": "~",
			"a\r\nSet-Cookie: x": "", "a\x00.png": "", "a\x7f": "", "a\u0085b": "", "\u202egnp.exe": "", "a\u2066b": "", "\xff.png": "", "\xed\xa0\x80": "",
			strings.Repeat("a", 255): strings.Repeat("a", 255), strings.Repeat("a", 256): "", strings.Repeat("ü", 127): strings.Repeat("ü", 127), strings.Repeat("ü", 128): "",
			`a"; filename=b.exe`: `a"; filename=b.exe`, "日本.png": "日本.png", "con.png": "con.png",
		} {
			key, err := w.v.Upload(w.t.Context(), valet.Upload{Rule: "picture", Owner: "ada", Type: "image/png", Size: int64(len(png)), Name: name})
			if (err == nil) != (want != "") {
				w.t.Errorf("%q: got %v", name, err)
			}
			if err != nil {
				continue
			}
			millracetest.Upload(w.t, w.v, key, png)
			w.app.Drain()
			if f := w.wantState(key.ID, valet.StateClean); f.Name != want {
				w.t.Errorf("%q: got %q", name, f.Name)
			}
			h := w.ask(http.MethodGet, w.read(key.ID, valet.Download{Owner: "cook"}).URL, nil).Header
			if how := h.Get("Content-Disposition"); len(h.Values("Set-Cookie")) > 0 || strings.ContainsAny(how, "\r\n/") || !strings.HasPrefix(how, "attachment; filename") {
				w.t.Errorf("%q: got %q", name, how)
			}
		}
	})
}

// A list of parts has one form.
func TestListsOfParts(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 100 << 20}) // 13 parts
		for list, want := range map[string]int{
			"1": 1, "1-13": 13, "1,1": 1, "3,1": 2, "1-3,2-4": 4, "13": 1, "": 0, ",": 0, "1,": 0, ",1": 0, "1-": 0, "-1": 0, "-": 0, "3-1": 0, "0": 0, "0-3": 0, "14": 0, "1-14": 0,
			"1-1000000000": 0, "1-99999999999999999999": 0, " 1": 0, "1 ": 0, "+1": 0, "%2B1": 0, "01": 0, "1-03": 0, "1-2-3": 0, "1--2": 0, "0x1": 0, "1e0": 0, "1.0": 0, "1_0": 0, "١": 0, "１": 0, "½": 0, "1;2": 0, "1\x00": 0,
		} {
			var keys valet.PartKeys
			r := w.do(request{http.MethodPost, key.URL + "/parts", nil, func(r *http.Request) {
				q := r.URL.Query()
				q.Set("n", list)
				r.URL.RawQuery = q.Encode()
			}})
			body, err := io.ReadAll(r.Body)
			w.must(err)
			if want == 0 {
				if r.StatusCode != http.StatusBadRequest {
					w.t.Errorf("%q: got %d %s", list, r.StatusCode, body)
				}
				continue
			}
			if n := strings.Count(string(body), "/files/v1."); r.StatusCode != http.StatusOK || n != want {
				w.t.Errorf("%q: got %d and %d keys, %+v", list, r.StatusCode, n, keys)
			}
		}
		many := strings.TrimSuffix(strings.Repeat("1,", 1<<12), ",")
		w.want(http.StatusOK, http.MethodPost, key.URL+"/parts?n="+many, nil)
		for _, part := range []string{"0", "14", "01", "+1", "1-2", "1,2", "a", "٣"} {
			w.wantOf(http.StatusNotFound, request{http.MethodPut, key.URL + "/", nil, func(r *http.Request) { r.URL.Path += part }})
		}
		big := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 100 << 20})
		r := w.do(request{http.MethodPut, big.URL + "/13", nil, nil})
		if where := r.Header.Get("Location"); r.StatusCode != http.StatusTemporaryRedirect || !strings.HasPrefix(where, "/files/v1.") {
			w.t.Errorf("got %d, %s", r.StatusCode, fmt.Sprint(len(where)))
		}
	})
}
