#!/usr/bin/env bash
# A stranger's walk: a module in an empty folder, docs/first-program.md followed to the letter, and cmd/millrace on the
# store of that program. The sample and its programs are copied into a module elsewhere, too, and take a booking.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${GO:-go}" test ./host -count=1 -run '^(TestFirstProgram|TestCopiedSample)$' -v
