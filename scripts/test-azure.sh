#!/usr/bin/env bash
# Runs the tests that use Azure Storage on a real account, which may hold other data. Their names have random prefixes
# and are deleted afterwards, even after Ctrl-C. A run costs some hundred thousand requests.
#
#	make test-azure ACCOUNT=NAME                     with the identity of `az login`
#	MILLRACE_TEST_AZURE='Default…' make test-azure   with a connection string
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

if [ -n "${ACCOUNT:-}" ]; then
	export MILLRACE_TEST_AZURE="//${ACCOUNT#//}"
fi
if [ -z "${MILLRACE_TEST_AZURE:-}" ]; then
	echo "test-azure: no account: set ACCOUNT=NAME, or MILLRACE_TEST_AZURE to a connection string" >&2
	exit 2
fi

# All prefixes of this run begin alike. Each test deletes its own; the end deletes what a killed test has left.
MILLRACE_TEST_AZURE_RUN=t$(od -An -N2 -tx1 /dev/urandom | tr -d ' \n')
export MILLRACE_TEST_AZURE_RUN
sweep() {
	trap '' INT TERM
	"$go" test -count 1 -run '^TestSweep$' ./storage/azure ||
		echo "queues, containers and tables that begin with $MILLRACE_TEST_AZURE_RUN may be left: see Removing it in docs/azure.md" >&2
}
trap sweep EXIT
trap 'exit 130' INT TERM

tests='TestConformance|TestHistories|TestFaults|TestLost|TestOutage|TestDisturbedReadBack|TestOnAzure|TestOnAzurite'
tests+='|TestCrashAfterCallsOnAzure|TestCostOfACommand|TestWorkersAreKilled/azure|TestWorkersShareABacklog/azure'
# of the site, each on the file and on the account
tests+='|TestBookAsProgram/azure|TestCancel/azure|TestCancelBeforeTheDecision/azure|TestSoldOutDay/azure|TestRebuildMonths/azure|TestBrowserBooks/azure|TestBrowserSells/azure'
"$go" test -count 1 -timeout 60m -run "$tests" ./storage/azure ./coord/lease ./sample/reservations ./sample/reservations/site ./cmd/worker ./catalog ./host/internal/operator
