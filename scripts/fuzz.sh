#!/usr/bin/env bash
# Runs each fuzz test for a while, one after the other. What one finds is kept in its testdata folder: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do
	name=${func#func }
	echo "--- $name in $(dirname "$file")"
	$go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-5s}" "$(dirname "$file")" </dev/null
done
