#!/usr/bin/env bash
# Runs cmd/web and cmd/worker as real processes, then processes that use coord, then a shop's workers with its bank and
# its carrier, disturbs them, and audits the result:
#
#	make chaos                               SQLite, Azurite and Redis, the long form
#	make chaos-short SEED=7                  some minutes, with the plan of that seed
#	make chaos ARGS='-part reservations -store azure -n 20000 -for 40m'
#
# The program is a module of its own, with tests of its own. It needs Linux and root for a full disk, and Azurite and
# redis-server, which scripts/setup.sh installs. The output says what is missing, and where CI is set that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../proof/chaos"
go=${GO:-go}

$go vet ./...
$go test ./...
mkdir -p ../../.cache
$go build -o ../../.cache/chaos .
# Not `go run`, which doesn't pass signals on.
exec ../../.cache/chaos ${SEED:+-seed "$SEED"} "$@"
