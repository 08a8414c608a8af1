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

say() { echo "bench-peers: $*" >&2; }

# Debian keeps PostgreSQL's programs out of PATH.
postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null; }
redis() { command -v redis-server >/dev/null; }

# install PACKAGE...: only if this user may
install() {
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	if ! command -v apt-get >/dev/null; then
		say "can't install $*: this machine has no apt-get"
	elif [ ${#root[@]} -gt 0 ] && ! sudo -n true 2>/dev/null; then
		say "can't install $*: not root, and no sudo without a password"
	else
		say "installing $*"
		"${root[@]}" apt-get update -qq </dev/null >&2 || say "apt-get update failed; trying with the old list of packages"
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2 ||
			say "could not install $*"
	fi
}

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
	grep -q '^asynq' <<<"$systems" && ! redis && missing+=(redis-server)
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
# Not `go run`, which doesn't pass signals on.
exec "$out/peers" "$@"
