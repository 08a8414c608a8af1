package assets

import (
	"html/template"
	"strings"
)

// Funcs returns functions for templates. Each takes the name that a file has in the folder, and fails the page if there
// is no such file.
//
//	{{asset "img/logo.svg"}}     the URL
//	{{integrity "site.js"}}      the value of an attribute integrity
//	{{stylesheet "site.css"}}    a link element
//	{{script "site.js"}}         a script element, which runs once the page is read (defer)
//	{{module "app.js"}}          the same for a script of type module
//
// A module always comes from the program. Its imports have plain names, and a page has no digests for them, so another
// origin would have to be trusted.
func (s *Set) Funcs() template.FuncMap {
	return template.FuncMap{
		"asset":     s.URL,
		"integrity": s.integrity,
		"stylesheet": func(name string) (template.HTML, error) {
			return s.element(name, s.place, `<link rel="stylesheet" href="`, `>`)
		},
		"script": func(name string) (template.HTML, error) {
			return s.element(name, s.place, `<script defer src="`, `></script>`)
		},
		"module": func(name string) (template.HTML, error) {
			return s.element(name, (*file).own, `<script type="module" src="`, `></script>`)
		},
	}
}

func (s *Set) integrity(name string) (string, error) {
	f, err := s.find(name)
	if err != nil {
		return "", err
	}
	return f.integrity, nil
}

// own is where the program itself serves the file.
func (f *file) own() string { return f.local }

// element returns an element of a page that names a file at a place. The digest is in it also where the program serves
// the file, so that a cache in between can't change the file.
func (s *Set) element(name string, placeOf func(*file) string, before, after string) (template.HTML, error) {
	f, err := s.find(name)
	if err != nil {
		return "", err
	}
	place := placeOf(f)
	var b strings.Builder
	b.WriteString(before)
	b.WriteString(template.HTMLEscapeString(place))
	b.WriteString(`" integrity="` + f.integrity + `"`)
	if place != f.local {
		b.WriteString(` crossorigin="anonymous"`)
	}
	b.WriteString(after)
	return template.HTML(b.String()), nil // all parts are this package's, or escaped
}

// Sources returns what a page's Content-Security-Policy has to allow for style sheets, scripts, pictures and fonts:
// 'self', and another origin if there is one.
func (s *Set) Sources() string {
	if s.origin == nil {
		return "'self'"
	}
	return "'self' " + s.origin.source
}
