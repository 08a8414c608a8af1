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
func (s *Set) Funcs() template.FuncMap {
	return template.FuncMap{
		"asset":      s.URL,
		"integrity":  s.integrity,
		"stylesheet": func(name string) (template.HTML, error) { return s.element(name, `<link rel="stylesheet" href="`, `>`) },
		"script":     func(name string) (template.HTML, error) { return s.element(name, `<script defer src="`, `></script>`) },
		"module": func(name string) (template.HTML, error) {
			return s.element(name, `<script type="module" src="`, `></script>`)
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

// element returns an element of a page. The digest is in it also where the program serves the file, so that a cache in
// between can't change the file.
func (s *Set) element(name, before, after string) (template.HTML, error) {
	f, err := s.find(name)
	if err != nil {
		return "", err
	}
	place := s.place(f)
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
