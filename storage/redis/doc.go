// Package redis keeps queues, blobs and tables on a Redis server. It is the driver for teams that have Redis, and for
// many machines without a cloud. A program lists [Driver] in its storage.Drivers. The URL is one of
//
//	redis://[USER:PASSWORD@]HOST[:PORT]/?prefix=NAME[&PARAMETER=VALUE…]
//	rediss://…                                              the same over TLS
//	redis+unix:///PATH/OF/SOCKET?prefix=NAME
//	redis+sentinel://HOST:PORT,HOST:PORT/MASTER?prefix=NAME  (rediss+sentinel over TLS)
//
//	prefix=NAME      all keys begin with "{NAME}". Several stores may share a server. Required.
//	db=NUMBER        the server's database. Defaults to 0.
//	wait=REPLICAS    a change is acknowledged once so many replicas have it.
//	durable=yes|no   yes (the default): a server without an append-only file is refused.
//	ca=FILE          certificates, in PEM form, of those who sign the server's.
//	files=FOLDER     large files lie in this folder, which all programs of the store must share. Defaults to none: the
//	                 store keeps no files.
//	bell=yes|no      yes: the store rings and publishes, and keeps nothing. So its server may be a cache, without an
//	                 append-only file, and with any maxmemory-policy; see doorbell.Through. Defaults to no.
//	wake=on|off      off: the store doesn't hear what others send, nor whether they live, and its time is this
//	                 process's. It is for virtual time in tests. Stores with wake=on take such a store for a dead one,
//	                 and its messages.
//
// User and password may also stand in the environment, as MILLRACE_REDIS_USER and MILLRACE_REDIS_PASSWORD; those of
// sentinels as MILLRACE_REDIS_SENTINEL_USER and MILLRACE_REDIS_SENTINEL_PASSWORD.
// MILLRACE_REDIS_PASSWORD_FILE names a file that holds the password. The server is Redis 7.0 or newer, with
// maxmemory-policy noeviction. docs/redis.md says what each setting of the server promises,
// and what a failover does.
//
// # How it works
//
//	callers ──▶ engine: units gather ──▶ one script, one step of the server ──▶ answers
//	                                          └──▶ rings, on the channels of the topics
//
// Package internal/engine turns each call into a script. Package internal/client talks to the server. This package says
// what the port's calls mean to both.
//
// A ready message lies in a list, whole. A received one lies in a hash, and its place in a sorted set by the end of its
// visibility, so that list and lease can't differ. A message with a key, a delayed one, and one that was handed back
// also lie in the hash, with the ID alone in the list.
//
// A ring is a message on a channel, sent by the script that sends the queue's message. Rings are lost while a
// connection is away. So all consumers look once the connection is back, and every 5 seconds anyway.
//
// # The claims of dead processes
//
// A process that was killed hands nothing back. Each store listens on a channel of its own name, and the server knows
// at once when its connection is closed. The other stores look every 2 seconds which processes hold messages and have
// nobody on their channel. The messages of a process that is missing twice become receivable. After a restart or a
// failover nobody looks for 12 seconds, so that all can be back. A process that stands still keeps its connection and
// its messages. A message that was delivered more than three times waits for the end of its visibility: it may be what
// kills, and dead processes are quickly restarted.
//
// # Laws
//
//   - A message is in exactly one place that hands it out, whatever call fails in the middle: each call is one script.
//   - A receipt is good for the newest claim alone, on any server that has the store: it names a random number that the
//     claim has drawn.
//   - The server's clock may be set, and a failover may bring another clock: no visibility ends early by more than a
//     second, and none lasts longer than the store stood still. The exception is a jump ahead that first meets a
//     program which has just started.
//   - A wiped store acknowledges nothing. A store that has lost acknowledged changes says so.
//
// # Files
//
//	open.go     the store
//	params.go   the URL
//	watch.go    what the server must be set to; inspect.go what is wrong with it
//	queue.go    queues; commit.go units of work; find.go what operators look for
//	blobs.go    documents; table.go rows
//	ear.go      the connection for rings and publications; listen.go and publish.go what uses it
//	dead.go     the claims of dead processes
//	list.go     simple lists; taken.go what consumers hold of them
//	errors.go   what to do about a connection that can't be opened
package redis
