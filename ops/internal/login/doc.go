// Package login says who a request is from, before anything is shown or done.
//
//	door, err := login.New(login.Config{Tokens: "ops.tokens", Hosts: []string{"ops.example"}, Logger: log})
//	mux.Handle("/ops/", door.Guard(pages))     // pages ask login.Of(r) who it is
//
// There are three ways in:
//
//   - A token. A file has a line for each: name:role:digest. The digest is the SHA-256 of 256 random bits, so the file
//     lets nobody in. A browser sends the token once and gets a cookie; a program sends it as a bearer token.
//   - A proxy that knows people, such as oauth2-proxy or Authelia. It names the person in a header. Only a proxy whose
//     address is listed is believed. The proxy must overwrite that header where a client sends it. A line
//     name:role:proxy of the file gives the person a role; others may look.
//   - A link that works once, where neither is configured. It stands in the log or on the terminal, so who can read
//     these may do all.
//
// # Laws
//
//   - Loopback is no login: behind a proxy on the same machine everybody comes from there. A request that was forwarded
//     is refused unless the proxy is listed. A proxy that is listed names nobody where no header is configured.
//   - A proxy names one person. A request that has the header twice is refused, because a client may have sent one.
//   - No token comes in clear. Where other machines reach the address without TLS, the door answers to the listed
//     proxies and to this machine alone, unless somebody has said that nobody else is on the way.
//   - The Host header names an address that is configured, or this machine alone. So a page of another site can't reach
//     the door under a name of its own (DNS rebinding).
//   - A request that changes something comes from the door's own pages, or from no browser.
//   - A token, a cookie and a link are never logged, and none is in an answer but the cookie in its own header.
//   - An attempt with what lets in succeeds, however many have failed: one address may be that of a whole network, and
//     nobody guesses 256 bits. The answers to failures, and their lines in the log, are limited by address.
//   - A cookie holds for half a day, in the process that made it. It ends at once, whoever has a copy of it, when its
//     person logs out, and when its token leaves the file. Doors of one host don't take one another's cookies away, and
//     a cookie is sent under any path of a proxy.
//   - A login leads to the page that was asked for, and to nothing outside the door.
//   - A program gets a refusal as a problem document, and a person as a page.
//
// # Files
//
//	login.go   Config, Door and Guard: who a request is from
//	tokens.go  the file of tokens
//	cookie.go  what a browser keeps
//	enter.go   the page that takes a token or a link, the way out, and addresses that lead to another one
//	way.go     the page to which a login leads
//	tries.go   how often an address is told that it has failed
package login
