#!/usr/bin/env bash
# Measures Millrace beside other ways to run background jobs in Go, and beside the raw limit of this machine:
#
#	make bench-peers                                  all systems and works: about an hour
#	make bench-peers ARGS='-list'                     the names of systems and works
#	make bench-peers ARGS='-systems millrace,river -works drain -reps 1'
#
# Installs PostgreSQL and Redis if they are needed and this user may. A system without its server is skipped, and the
# output says so.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

me=bench-peers
. scripts/servers.sh

command -v "${CC:-gcc}" >/dev/null || install gcc libc6-dev # Backlite's driver is in C

out=$PWD/.cache/bench-peers
mkdir -p "$out"
if command -v flock >/dev/null; then
	exec 9>"$out/lock" # the program keeps it, because a build during a run would change the measurement
	flock -n 9 || { say "another run from this folder is under way"; exit 1; }
fi
(cd bench && $go build -buildvcs=auto -o "$out/" ./peers)
(cd bench/riversqlite && $go build -o "$out/" .) # a module of its own; the program looks for it in its own folder

systems=$("$out/peers" -list "$@") || exit 2 # the program has reported bad arguments
missing=()
if [[ " $* " != *" -list "* ]]; then
	grep -q '^river \|^river-defaults\|^watermill' <<<"$systems" && ! postgres && missing+=(postgresql)
	grep -q '^asynq\|redis' <<<"$systems" && ! redis && missing+=(redis-server)
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
# Not `go run`, which doesn't pass signals on.
exec "$out/peers" "$@"
