#!/usr/bin/env bash
# Measures the packages under coord/ beside PostgreSQL, Redis with go-redsync, and etcd:
#
#	make bench-coord                                  everything: some ten minutes
#	make bench-coord ARGS='-list'                     the names of works and systems
#	make bench-coord ARGS='-works lease,quorum -reps 1 -json FILE'
#
# Installs PostgreSQL, Redis and etcd if they are needed and this user may. A system without its server is skipped, and
# the output says so.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

me=bench-coord
. scripts/servers.sh

out=$PWD/.cache/bench-coord
mkdir -p "$out"
if command -v flock >/dev/null; then
	exec 9>"$out/lock" # the program keeps it, because a build during a run would change the measurement
	flock -n 9 || { say "another run from this folder is under way"; exit 1; }
fi
(cd bench && $go build -buildvcs=auto -o "$out/" ./coord)

systems=$("$out/coord" -list "$@") || exit 2 # the program has reported bad arguments
missing=()
if [[ " $* " != *" -list "* ]]; then
	# A work names its systems in parentheses.
	grep -q '[(, ]postgres' <<<"$systems" && ! postgres && missing+=(postgresql)
	grep -q '[(, ]red' <<<"$systems" && ! redis && missing+=(redis-server)
	grep -q '[(, ]etcd' <<<"$systems" && ! etcd && missing+=(etcd-server)
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
# Not `go run`, which doesn't pass signals on.
exec "$out/coord" "$@"
