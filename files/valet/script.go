package valet

import (
	"bytes"
	_ "embed"
	"net/http"
	"time"
)

// Script is what uploads files in a browser. The Valet serves it as upload.js beside its keys; a program can also serve
// it with its own static files.
//
//go:embed upload.js
var Script []byte

const scriptName = "upload.js"

func serveScript(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, scriptName, time.Time{}, bytes.NewReader(Script))
}
