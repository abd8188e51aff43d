#!/usr/bin/env bash
# Fixes what made a job of a CI fail, on a branch of its own.
#
#   ci-fixer.sh add LAUNCHER [TASK]     once: add the trigger
#   ci-fixer.sh failed JOB LOG          in the CI, for a job that failed: fires once for each JOB
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
add)
    task=$(cat "${3:-$here/tasks/fix.md}")
    subagent trigger add ci-fixer --worktree --overlap parallel "${2:?which launcher}" "$task"
    ;;
failed)
    # A payload is UTF-8 text of at most 64 KiB; the reason is at the end of a log. iconv leaves out what is no
    # character, such as half of the first one.
    tail -c 60000 "${3:?which log}" | tr -d '\000' | { iconv -c -f UTF-8 -t UTF-8 || :; } |
        subagent trigger fire ci-fixer --occurrence "${2:?which job}"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
