#!/usr/bin/env bash
# Measures Millrace beside other ways to run background jobs in Go, and beside the raw limit of this machine:
#
#	make bench-peers                                  all systems and works: about an hour
#	make bench-peers ARGS='-list'                     what there is
#	make bench-peers ARGS='-systems millrace,river -works drain -reps 1'
#
# Installs PostgreSQL and Redis where this user may; a system whose server is missing is skipped, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

say() { echo "bench-peers: $*" >&2; }

# Debian keeps PostgreSQL's programs out of PATH.
postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null; }
redis() { command -v redis-server >/dev/null; }

missing=()
postgres || missing+=(postgresql)
redis || missing+=(redis-server)
command -v "${CC:-gcc}" >/dev/null || missing+=(gcc libc6-dev) # Backlite's driver is in C
if [ ${#missing[@]} -gt 0 ]; then
	root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	if ! command -v apt-get >/dev/null; then
		say "can't install ${missing[*]}: this is no Debian"
	elif [ ${#root[@]} -gt 0 ] && ! sudo -n true 2>/dev/null; then
		say "can't install ${missing[*]}: not root, and no sudo without a password"
	else
		say "installing ${missing[*]}"
		"${root[@]}" apt-get update -qq </dev/null >&2 || say "the list of packages could not be renewed; trying with the old one"
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >&2 ||
			say "could not install ${missing[*]}"
	fi
fi

out=$PWD/.cache/bench-peers
mkdir -p "$out"
if command -v flock >/dev/null; then
	exec 9>"$out/lock" # kept by the program: what is built under a run would be measured by it
	flock -n 9 || { say "another run from this folder is under way"; exit 1; }
fi
(cd bench && $go build -buildvcs=auto -o "$out/" ./peers)
(cd bench/riversqlite && $go build -o "$out/" .) # a module of its own; the program looks for it beside itself
# Not `go run`, which doesn't pass signals on.
exec "$out/peers" "$@"
