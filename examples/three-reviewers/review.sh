#!/usr/bin/env bash
# Has several reviewers look at the last commit at the same time, each with an eye for one thing, and prints what they say as
# one review. Exits with 1 if one of them did not come to an end. Needs jq, and a controller (`subagent controller init`).
#
#   review.sh LAUNCHER [TASKS]      TASKS is a folder with a task for each reviewer, NAME.md
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
launcher=${1:?which launcher}
tasks=${2:-$here/tasks}
# The review has a name of its own, so the wait is only for its own reviewers.
mine="role=reviewer,review=$$-$RANDOM"
trap 'subagent worker stop -l "$mine" > /dev/null 2>&1 || true' EXIT

for task in "$tasks"/*.md; do
    # They may read. They must not change anything. All other requests are answered below.
    worker=$(subagent worker start --launcher "$launcher" --label "$(basename "$task" .md)" \
        --tag role=reviewer --tag "${mine#*,}" --allow read --allow search \
        --allow 'execute(git log *)' --allow 'execute(git show *)' --allow 'execute(git diff *)' \
        --deny edit --deny delete --deny move --json | jq -r .data.workerId)
    subagent send --worker-id "$worker" --text-file "$task" --no-wait > /dev/null
done

# Until no turn is open. There is no user to ask: what no rule allows is denied.
while true; do
    waited=$(subagent wait --all -l "$mine" --timeout-seconds 1800 --json)
    asked=$(jq -r '.data.items[] | select(.matchedEvent.type == "approval.requested")
        | "\(.workerId) \(.matchedEvent.data.requestId)"' <<< "$waited")
    [ -n "$asked" ] || break
    while read -r worker request; do
        subagent approve --worker-id "$worker" --request "$request" --decision deny > /dev/null
    done <<< "$asked"
done

code=0
while IFS=$'\t' read -r label worker end; do
    printf '## %s\n\n' "$label"
    if [ "$end" = turn.completed ]; then
        subagent watch --worker-id "$worker" | jq -rj 'select(.type == "progress.message") | .data.text'
        printf '\n\n'
    else
        printf 'no answer: %s\n\n' "$end"
        code=1
    fi
done < <(jq -r '.data.items | sort_by(.label)[] | [.label, .workerId, .matchedEvent.type // .outcome] | @tsv' <<< "$waited")
exit "$code"
