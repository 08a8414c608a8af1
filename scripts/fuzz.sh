#!/usr/bin/env bash
# Runs each fuzz test for a while, one after the other, and prints how many inputs it has tried. A failing input is
# kept in the package's testdata folder: commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
all=$(mktemp)
one=$(mktemp)
trap 'rm -f "$all" "$one"' EXIT

while IFS=: read -r file func; do
	name=${func#func }
	echo "--- $name in $(dirname "$file")" | tee -a "$all"
	# By default minimizing an interesting input takes a minute, in which nothing new is tried.
	if ! $go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 20x "$(dirname "$file")" </dev/null | tee "$one"; then
		# On a busy machine go test sometimes reports the end of the time itself as a failure. That is none.
		grep -q '^ *context deadline exceeded$' "$one" && ! grep -q 'Failing input' "$one" || exit 1
	fi
	cat "$one" >>"$all"
done < <(grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort)

# The last line of each test has its time, such as 5s or 1m5s, and its count.
awk '$1 == "---" && $3 == "in" { test = $2 " in " $4 }
	/^fuzz: elapsed: .*execs:/ { time = $3; gsub(/[ms,]/, " ", time); n = split(time, t, " "); seconds = n > 1 ? 60 * t[1] + t[2] : t[1]; inputs = $5 }
	/^(ok|FAIL)[ \t]+[a-z]/ { printf "%9d a minute  %s\n", seconds ? 60 * inputs / seconds : 0, test; total += inputs; took += seconds; seconds = inputs = 0 }
	END { printf "%9d inputs in %d s: %d a minute\n", total, took, took ? 60 * total / took : 0 }' "$all"
