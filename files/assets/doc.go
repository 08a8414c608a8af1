// Package assets serves the static files of a program, such as style sheets, scripts and pictures, under names that
// change with what the files hold. So a browser keeps each file for good, and a new version of a page never meets an
// old style sheet.
//
//	//go:embed static
//	var files embed.FS
//
//	set, err := assets.New(files, assets.Config{Dir: "static", Path: "/static/"})
//	mux.Handle("GET /static/", set.Handler(assets.HandlerConfig{Store: store}))
//	pages := template.New("page.html").Funcs(set.Funcs())
//	err = set.Publish(ctx, store) // before the program serves pages; Run tries again while the store is away
//
// A template names a file by the name that it has in the folder:
//
//	<head>{{stylesheet "site.css"}}{{script "site.js"}}</head>
//	<img src="{{asset "img/logo.svg"}}" alt="">
//
// The page then says /static/site.4f2a9c01b7d3e8aa.css. A name that no file has fails the page, so a test of the page
// finds the mistake.
//
// # Several versions at once
//
// While a deployment rolls, a page of the new program may ask the old one for a file. So each program publishes its
// files in the container "assets" of its store, and a handler looks there for a file that it hasn't itself. A program
// publishes before it serves pages. Published files stay, because a page that is open in a browser may still ask for
// them.
//
// # Another origin
//
// Files can come from elsewhere: a container that anybody may read, or a network that delivers content in front of one.
// Config.Base is the URL there, and "millrace assets push FOLDER" puts the files there. Pages name that place only
// while all files of this version are known to be there; else they name the program itself. See docs/assets.md.
//
// # Laws
//
//   - A1: a name says what the file holds. Nothing that was published is written again.
//   - A2: a page names another origin only while that has all files of this version, as the program has seen itself. A
//     file that is missing there, or an origin that doesn't answer twice, brings pages back to the program.
//   - A3: files of older versions stay.
//   - A4: an answer that says that there is no such file is kept by nobody. The plain name of a file leads to its name
//     of today.
//   - A5: scripts and style sheets of another origin have their digests in the page, and modules come from the program.
//     So whoever can write there can't run a script.
//   - A6: the program needs no right to write at another origin unless the program itself publishes there.
//
// # Files
//
//	assets.go     the set of files
//	name.go       names, types and digests
//	css.go        what style sheets refer to
//	serve.go      the handler
//	publish.go    the container of the store
//	origin.go     whether another origin has all files
//	template.go   functions for pages
package assets
