#!/usr/bin/env bash
# Runs the simulation without the race detector, and the tests of programs under faults: more schedules in the same time.
# make test runs them with the detector.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

if ! [[ "${SEED:-0}${SEEDS:-1000}" =~ ^[0-9]+$ ]]; then
	echo "SEED and SEEDS are numbers, as in make simulate SEEDS=1000" >&2
	exit 2
fi
if [ -n "${SEED:-}" ]; then
	MILLRACE_SEED=$SEED exec $go test ./proof/simulation -count=1 -run 'TestRandomSchedules' -v
fi
echo "${SEEDS:-1000} schedules, and each single fault; on two processors a thousand take some 5 minutes"
MILLRACE_SEEDS=${SEEDS:-1000} $go test ./proof/simulation -count=1 -timeout 0
echo "programs under faults"
exec $go test ./examples/... ./millracetest ./process ./sample/reservations ./schedule -count=1 -timeout 0 -run 'Faults$|FaultEverywhere$'
