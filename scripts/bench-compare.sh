#!/usr/bin/env bash
# Compares benchmarks of two revisions, in turns, by benchstat:
#
#	make bench-compare BASE=HEAD~1 BENCH='Drain|FullPath'     with what is checked out, changes included
#	make bench-compare BASE=v1 HEAD=v2 BENCH=Send PKG=./worker COUNT=6 BENCHTIME=1s
#
# The two run in turns on this machine, so that its other work affects both alike.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
pkg=${PKG:-./worker}
if [ -z "${BASE:-}" ]; then
	echo "bench-compare: BASE is missing: set BASE=REVISION to compare with, and HEAD=REVISION unless it is checked out" >&2
	exit 2
fi
for revision in "$BASE" "${HEAD:-HEAD}"; do
	if ! git rev-parse -q --verify "$revision^{commit}" >/dev/null; then
		echo "bench-compare: '$revision' is not a revision of this clone" >&2
		exit 2
	fi
done

tmp=$(mktemp -d)
trap 'for r in base head; do git worktree remove --force "$tmp/$r" 2>/dev/null || true; done; rm -rf "$tmp"' EXIT

build() { # NAME FOLDER
	(cd "$2" && $go test -c -o "$tmp/$1.test" "$pkg")
}
git worktree add -q --detach "$tmp/base" "$BASE"
build base "$tmp/base"
if [ -n "${HEAD:-}" ]; then
	git worktree add -q --detach "$tmp/head" "$HEAD"
	build head "$tmp/head"
else
	build head .
fi
for ((i = 0; i < ${COUNT:-6}; i++)); do
	for r in base head; do
		(cd "$pkg" && "$tmp/$r.test" -test.run '^$' -test.bench "${BENCH:-.}" -test.benchmem -test.benchtime "${BENCHTIME:-1s}" >>"$tmp/$r.txt" </dev/null)
	done
done
if ! grep -q '^Benchmark' "$tmp/base.txt" "$tmp/head.txt" 2>/dev/null; then
	echo "bench-compare: no benchmark ran: check that BENCH='${BENCH:-.}' names a benchmark of $pkg, and that COUNT is at least 1" >&2
	exit 1
fi
(cd bench && $go tool benchstat base="$tmp/base.txt" head="$tmp/head.txt")
