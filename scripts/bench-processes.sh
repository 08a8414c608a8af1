#!/usr/bin/env bash
# Measures systems that run work of many steps beside one another:
#
#	make bench-processes                              everything: half an hour or more
#	make bench-processes ARGS='-list'                 the names of works and systems
#	make bench-processes ARGS='-works steps64,idle -reps 1 -json FILE'
#
# Installs PostgreSQL if it is needed and this user may. A system without its server is skipped, and the output says so.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

me=bench-processes
. scripts/servers.sh

out=$PWD/.cache/bench-processes
mkdir -p "$out"
if command -v flock >/dev/null; then
	exec 9>"$out/lock" # the program keeps it, because a build during a run would change the measurement
	flock -n 9 || { say "another run from this folder is under way"; exit 1; }
fi
(cd bench/processes && $go build -buildvcs=auto -o "$out/" .) # a module of its own

systems=$("$out/processes" -list "$@") || exit 2 # the program has reported bad arguments
if [[ " $* " != *" -list "* ]] && grep -q '(needs postgres)' <<<"$systems" && ! postgres; then
	install postgresql
fi
# Not `go run`, which doesn't pass signals on.
exec "$out/processes" "$@"
