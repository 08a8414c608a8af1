#!/usr/bin/env bash
# Runs all tests. With CI set, nothing may be missing and nothing may be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

missing=$(scripts/setup.sh)
# SQLite's own code, and a checker of histories, run without the detector: they took more than half of the time. Whatever
# Millrace's code does is seen as before.
race=(-race '-gcflags=modernc.org/...=-race=false' '-gcflags=github.com/anishathalye/porcupine=-race=false')
case " ${missing//$'\n'/ } " in *" gcc "*) race=() ;; esac

strict=
if [ -n "${CI:-}" ]; then
	strict=-strict
	# Without one of these, tests fail and don't skip.
	export MILLRACE_REQUIRE=${MILLRACE_REQUIRE:-chromium,azurite,spin,zsh,fish,sqlite3}
	if [ -n "$missing" ]; then
		echo "test: CI is set, and these could not be installed:" $missing >&2
		exit 1
	fi
fi

summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
$go build -o "$summary" ./cmd/internal/testsum
# Some packages mostly wait, so one more than there are processors runs at a time.
# The summary's exit code counts. pipefail adds go's own, for failures before any test.
$go test -json "${race[@]}" -p $(($(nproc) + 1)) -timeout 15m "$@" ./... </dev/null | "$summary" $strict
