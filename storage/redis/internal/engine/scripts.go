package engine

import (
	"embed"
	"strings"

	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

//go:embed lua/*.lua
var files embed.FS

// scripts are what the server runs.
type scripts struct {
	open, look, grow, free, claim, find, peek, stats, list, rows, silent, release, forget *client.Script
	push, unpop, take, done, recover, length                                              *client.Script // of simple lists
}

// newScripts puts the scripts together. A script that only frees memory, or moves what is there, also runs when the
// server's memory is full: so does the one that opens a store, so that a restarted program can handle what is there. A
// script that writes nothing also runs when the server can't write its file.
func newScripts() scripts {
	const full, read = "allow-oom", "no-writes,allow-oom"
	script := func(name, flags string, parts ...string) *client.Script {
		var b strings.Builder
		b.WriteString("#!lua flags=" + flags + "\n")
		for _, p := range parts {
			text, err := files.ReadFile("lua/" + p + ".lua")
			if err != nil {
				panic(err) // the file is part of the program
			}
			b.Write(text)
		}
		return client.NewScript(name, b.String())
	}
	return scripts{
		open:    script("open", full, "open"),
		look:    script("look", read, "open"),
		grow:    script("grow", "", "begin", "line", "unit"),
		free:    script("free", full, "begin", "line", "unit"),
		claim:   script("claim", full, "begin", "line", "claim"),
		find:    script("find", read, "begin", "line", "find"),
		peek:    script("peek", full, "begin", "line", "peek"),
		stats:   script("stats", read, "begin", "line", "stats"),
		list:    script("list", read, "begin", "list"),
		rows:    script("rows", read, "begin", "rows"),
		silent:  script("silent", read, "begin", "silent"),
		release: script("release", full, "begin", "line", "release"),
		forget:  script("forget", full, "begin", "forget"),

		push:    script("push", "", "begin", "elements", "push"),
		unpop:   script("unpop", full, "begin", "elements", "push"),
		take:    script("take", full, "begin", "elements", "take"),
		done:    script("done", full, "begin", "elements", "done"),
		recover: script("recover", full, "begin", "elements", "recover"),
		length:  script("length", read, "begin", "elements", "length"),
	}
}
