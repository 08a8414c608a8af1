#!/usr/bin/env bash
# Runs the tests of everything that stands on Azure Storage on a real account, beside what is there already: under random
# prefixes, which are wiped afterwards. It costs some hundred thousand requests.
#
#	make test-azure ACCOUNT=NAME                     with the identity that `az login` has left here
#	MILLRACE_TEST_AZURE='Default…' make test-azure   with a connection string
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

if [ -n "${ACCOUNT:-}" ]; then
	export MILLRACE_TEST_AZURE="//${ACCOUNT#//}"
fi
if [ -z "${MILLRACE_TEST_AZURE:-}" ]; then
	echo "which account? make test-azure ACCOUNT=NAME, or a connection string in MILLRACE_TEST_AZURE" >&2
	exit 2
fi
exec "$go" test -count 1 -timeout 60m -run 'TestConformance|TestFaults|TestLost|TestOutage|TestCrashAfterEveryCallOnAzure|TestCostOfACommand|TestWorkersAreKilled/azure|TestWorkersShareABacklog/azure' \
	./storage/azure ./sample/reservations ./cmd/worker
