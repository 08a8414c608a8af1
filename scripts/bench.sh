#!/usr/bin/env bash
# Runs all benchmarks, one package after the other, in the form that benchstat reads:
#
#	make bench COUNT=6 >old.txt; …; make bench COUNT=6 >new.txt; cd bench && go tool benchstat ../old.txt ../new.txt
#
# Benchmarks that have not run after LIMIT seconds are skipped, and the output says so. LIMIT is 170, or an hour with
# a COUNT or a BENCHTIME.
set -uo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

packages=$(grep -rl --include='*_test.go' --exclude-dir=bench '^func Benchmark' . | xargs -r -n 1 dirname | sort -u)
if [ -z "$packages" ]; then
	echo "no benchmarks" >&2
	exit 0
fi
flags="-p 1 -run ^$ -benchmem -benchtime ${BENCHTIME:-300ms} -count ${COUNT:-1} -timeout 1h"
limit=${LIMIT:-170}
[ -n "${LIMIT:-}" ] || [ -z "${COUNT:-}${BENCHTIME:-}" ] || limit=3600
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# Compile first, so that the limit doesn't include it.
($go test -run '^$' $packages && cd bench && $go test -run '^$' ./raw) >/dev/null
timeout "$limit" bash -c "$go test $flags -bench '${BENCH:-.}' $(echo $packages) && cd bench && $go test $flags -bench '${BENCH:-.}' ./raw" </dev/null | tee "$out"
code=${PIPESTATUS[0]}
if [ $code -eq 124 ]; then
	echo "stopped after $limit seconds: the other benchmarks did not run; set LIMIT=600 for more time" >&2
elif [ $code -eq 0 ] && ! grep -q '^Benchmark' "$out"; then
	echo "no benchmark is called ${BENCH:-.}" >&2
	exit 1
fi
exit $code
