#!/usr/bin/env bash
# Reviews the last commit with an agent. Exits with 0 if it approves, 1 if it does not, otherwise as `subagent run`.
#
#   review.sh LAUNCHER [TASK]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
launcher=${1:?which launcher}
task=${2:-$here/task.md}
result=$(mktemp)
trap 'rm -f "$result"' EXIT

code=0
subagent run --launcher "$launcher" --text-file "$task" --timeout 10m \
    --result-schema "$here/review.schema.json" --output json > "$result" || code=$?
if [ "$code" != 0 ]; then
    # The reason is in the document: an error, or the outcome of the run.
    cat "$result" >&2
    exit "$code"
fi
# Keys are sorted and written with one blank behind the colon, so this is exact.
grep -o '"comments": \[.*\], "verdict": "[a-z]*"' "$result"
grep -q '"verdict": "approve"' "$result"
