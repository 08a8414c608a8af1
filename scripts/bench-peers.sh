#!/usr/bin/env bash
# Measures Millrace beside other ways to run background jobs in Go, and beside the raw limit of this machine:
#
#	make bench-peers                                  all systems and works: about an hour
#	make bench-peers ARGS='-list'                     what there is
#	make bench-peers ARGS='-systems millrace,river -works drain -reps 1'
#
# Installs PostgreSQL and Redis where they are needed and this user may; a system whose server is missing is skipped, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

say() { echo "bench-peers: $*" >&2; }

# Debian keeps PostgreSQL's programs out of PATH.
postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null; }
redis() { command -v redis-server >/dev/null; }

# install PACKAGE...: where this user may
install() {
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	if ! command -v apt-get >/dev/null; then
		say "can't install $*: this is no Debian"
	elif [ ${#root[@]} -gt 0 ] && ! sudo -n true 2>/dev/null; then
		say "can't install $*: not root, and no sudo without a password"
	else
		say "installing $*"
		"${root[@]}" apt-get update -qq </dev/null >&2 || say "the list of packages could not be renewed; trying with the old one"
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2 ||
			say "could not install $*"
	fi
}

command -v "${CC:-gcc}" >/dev/null || install gcc libc6-dev # Backlite's driver is in C

out=$PWD/.cache/bench-peers
mkdir -p "$out"
if command -v flock >/dev/null; then
	exec 9>"$out/lock" # kept by the program: what is built under a run would be measured by it
	flock -n 9 || { say "another run from this folder is under way"; exit 1; }
fi
(cd bench && $go build -buildvcs=auto -o "$out/" ./peers)
(cd bench/riversqlite && $go build -o "$out/" .) # a module of its own; the program looks for it beside itself

systems=$("$out/peers" -list "$@") || exit 2 # what is wrong with the arguments, it has said
missing=()
if [[ " $* " != *" -list "* ]]; then
	grep -q '^river \|^river-defaults\|^watermill' <<<"$systems" && ! postgres && missing+=(postgresql)
	grep -q '^asynq' <<<"$systems" && ! redis && missing+=(redis-server)
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
# Not `go run`, which doesn't pass signals on.
exec "$out/peers" "$@"
