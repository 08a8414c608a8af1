#!/usr/bin/env bash
# Measures what Millrace and other job systems do while a service that their jobs call is away for ten minutes:
#
#	make bench-outage                                 all systems side by side: about half an hour
#	make bench-outage ARGS='-list'                    the names of the systems
#	make bench-outage ARGS='-systems millrace,river -for 2m -json FILE'
#
# Installs PostgreSQL and Redis if they are needed and this user may. A system without its server is skipped, and the
# output says so.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

me=bench-outage
. scripts/servers.sh

out=$PWD/.cache/bench-outage
mkdir -p "$out"
if command -v flock >/dev/null; then
	exec 9>"$out/lock" # the program keeps it, because a build during a run would change the measurement
	flock -n 9 || { say "another run from this folder is under way"; exit 1; }
fi
(cd bench && $go build -buildvcs=auto -o "$out/" ./outage)

systems=$("$out/outage" -list "$@") || exit 2 # the program has reported bad arguments
missing=()
if [[ " $* " != *" -list "* ]]; then
	grep -q '(needs postgres)' <<<"$systems" && ! postgres && missing+=(postgresql)
	grep -q '(needs redis)' <<<"$systems" && ! redis && missing+=(redis-server)
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
# Not `go run`, which doesn't pass signals on.
exec "$out/outage" "$@"
