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

# The race detector lets each program sleep for a second at its end: with some hundred packages, a minute.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"

strict=
if [ -n "${CI:-}" ]; then
	strict=-strict
	# Without one of these, tests fail and don't skip.
	export MILLRACE_REQUIRE=${MILLRACE_REQUIRE:-chromium,azurite,redis,axe,spin,bash-completion,zsh,fish,sqlite3,faketime,promtool}
	if [ -n "$missing" ]; then
		echo "test: CI is set, and these could not be installed:" $missing >&2
		exit 1
	fi
fi

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
$go build -o "$tools/summary" ./cmd/internal/testsum
# Many tests mostly wait. So one package more than there are processors runs at a time, with twice as many tests as there
# are processors. make lint vets. Test binaries are linked faster without what only debuggers read.
tests() {
	$go test -json "${race[@]}" -vet=off -ldflags=-w -p $(($(nproc) + 1)) -parallel $(($(nproc) * 2)) -timeout 20m "$@" </dev/null
}
# These take longest, so they begin first, and no processor is idle at the end.
longest=(./worker ./sample/reservations ./host/internal/operator ./millracetest ./process ./proof/model ./cmd/worker ./cmd/web ./values ./storage/...)
# The summary's exit code counts. go's own counts too, for failures before any test.
if tests "$@" "${longest[@]}" ./... | "$tools/summary" $strict -again "$tools/again"; then
	exit
elif [ -s "$tools/again" ]; then
	echo "test: once more, where the race detector crashed"
	# shellcheck disable=SC2046 # names of packages
	tests "$@" $(cat "$tools/again") | "$tools/summary" $strict
else
	exit 1
fi
