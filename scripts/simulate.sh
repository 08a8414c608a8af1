#!/usr/bin/env bash
# Runs the simulations without the race detector, and the tests of programs under faults: more schedules in the same time.
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
echo "services in trouble, shares, turns, lanes and settings; those that take long have a quarter of the schedules"
MILLRACE_SEEDS=${SEEDS:-1000} $go test ./guard ./coord/limit ./coord/keylock ./settings -count=1 -timeout 0 -run 'RandomSchedules|History|Register'
MILLRACE_SEEDS=$((${SEEDS:-1000} / 4 + 1)) $go test ./settings ./storage/lanes ./coord/limit -count=1 -timeout 0 -run 'RandomFaults|MovesAndCrashes|CallsKeepWithin'
echo "programs under faults, and a crash in each call"
slow=
if [ "${SEEDS:-1000}" -ge 1000 ]; then
	slow="./millracetest ./process ./schedule" # three minutes more
fi
exec $go test ./examples/... ./sample/reservations ./values ./worker $slow -count=1 -timeout 0 \
	-run 'Fault|Crash|RandomSchedules|NeverLost' -skip Azure
