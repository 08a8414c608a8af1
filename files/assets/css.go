package assets

import (
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// references are what a style sheet refers to, and comments, in which nothing is a reference. A string that is no
// reference is among them, so that a text such as "url(x)" in content stays.
var references = regexp.MustCompile(`(?is)/\*.*?\*/|url\(\s*(?:"([^"\n]*)"|'([^'\n]*)'|([^"'()\s]+))\s*\)|@import\s*(?:"([^"\n]*)"|'([^'\n]*)')|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`)

// rewrite returns a style sheet whose references have names with digests.
func (s *Set) rewrite(name string, bodies map[string][]byte, within []string) ([]byte, error) {
	text := string(bodies[name])
	var out strings.Builder
	last := 0
	for _, at := range references.FindAllStringSubmatchIndex(text, -1) {
		for group := 1; group < len(at)/2; group++ {
			from, to := at[2*group], at[2*group+1]
			if from < 0 {
				continue
			}
			ref, err := s.refer(name, text[from:to], bodies, within)
			if err != nil {
				return nil, err
			}
			out.WriteString(text[last:from])
			out.WriteString(ref)
			last = to
		}
	}
	out.WriteString(text[last:])
	return []byte(out.String()), nil
}

// refer returns what a style sheet says in place of a reference.
func (s *Set) refer(name, ref string, bodies map[string][]byte, within []string) (string, error) {
	u, err := url.Parse(ref)
	if err != nil || u.IsAbs() || u.Host != "" || u.Path == "" { // a place elsewhere, data, or a part of this file
		return ref, nil
	}
	target, inside := strings.CutPrefix(path.Join("/", path.Dir(name), u.Path), "/")
	if strings.HasPrefix(u.Path, "/") {
		if target, inside = strings.CutPrefix(u.Path, s.cfg.Path); !inside {
			return ref, nil // a page of the program
		}
	}
	if _, ok := bodies[target]; !ok || !inside {
		return "", bad("the style sheet %s refers to %s, which isn't in the folder", storage.Quote(name), storage.Quote(ref))
	}
	if err := s.add(target, bodies, within); err != nil {
		return "", err
	}
	u.Path = relative(path.Dir(name), s.files[target].name)
	return u.String(), nil
}

// relative returns the way from a folder to a file, for a style sheet that may lie at any origin.
func relative(dir, file string) string {
	var up string
	for dir != "." && !strings.HasPrefix(file, dir+"/") {
		up, dir = up+"../", path.Dir(dir)
	}
	if dir != "." {
		file = strings.TrimPrefix(file, dir+"/")
	}
	return up + file
}
