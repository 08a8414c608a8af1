#!/usr/bin/env bash
# Runs the simulation without the race detector, which make test has run it with: more schedules in the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

if [ -n "${SEED:-}" ]; then
	MILLRACE_SEED=$SEED exec $go test ./simulation -count=1 -run 'TestRandomSchedules' -v
fi
MILLRACE_SEEDS=${SEEDS:-1000} exec $go test ./simulation -count=1 -timeout 0
