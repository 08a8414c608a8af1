#!/usr/bin/env bash
# Checks everything that needs no test run, and prints all faults, not only the first.
set -uo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
bad=0

check() {
	local name=$1
	shift
	local out
	if ! out=$("$@" 2>&1) || { [ "$name" = gofmt ] && [ -n "$out" ]; }; then
		printf -- '--- %s\n%s\n' "$name" "$out"
		bad=1
	else
		echo "ok  $name"
	fi
}

check gofmt gofmt -l .
staticcheck=$($go tool -n staticcheck)
in_dir() (cd "$1" && shift && "$@")
for module in . bench bench/riversqlite bench/processes proof/chaos; do
	check "go vet in $module" in_dir $module $go vet ./...
	check "staticcheck in $module" in_dir $module "$staticcheck" ./...
	check "go mod tidy in $module" in_dir $module $go mod tidy -diff
done
check architecture $go test -count=1 .
exit $bad
