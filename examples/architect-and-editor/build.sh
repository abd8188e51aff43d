#!/usr/bin/env bash
# An architect plans a change and asks with a form whether it is to be built. After a yes an editor builds it.
# Needs a controller (`subagent controller init`), and the definitions in .agents of the workspace.
#
#   build.sh LAUNCHER fresh|same [TASKS]      reads the answer to the form, y or n, from stdin
#
#   fresh   each is a task with a session of its own: the editor knows the plan, and nothing else of what was said
#   same    one worker, which is the architect first and the editor then: it knows the whole conversation
#   TASKS   a folder with plan.md, the message to the architect, and build.md, that to the editor
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
launcher=${1:?which launcher}
session=${2:?fresh or same}
messages=${3:-$here/tasks}

field() { grep -o "\"$1\": \"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# Shows the form of a worker, and answers it. A no ends everything: nothing is built.
approve() {
    subagent approval list --worker-id "$1"
    read -r -p 'Build it? [y/n] ' answer || answer=n
    if [ "$answer" != y ]; then
        subagent answer --worker-id "$1" --decline > /dev/null
        echo 'The plan was not approved; nothing was built.'
        exit 1
    fi
    subagent answer --worker-id "$1" --accept --set build=true > /dev/null
}

case $session in
fresh)
    plan=$(subagent task run --agent architect --launcher "$launcher" --name "Plan $$" --background \
        --text-file "$messages/plan.md" --json | field taskId)
    trap 'subagent task cancel "$plan" > /dev/null' EXIT
    # Exit code 15: it asks. An architect that does not ask has nothing to be approved.
    code=0
    subagent task wait "$plan" --no-wait-for-answers --timeout-seconds 0 > /dev/null 2>&1 || code=$?
    [ "$code" = 15 ]
    approve "$plan"
    subagent task wait "$plan" --timeout-seconds 0 > /dev/null
    trap - EXIT
    { cat "$messages/build.md" && echo && subagent task result "$plan" --full; } |
        subagent task run --agent editor --launcher "$launcher" --name "Build $$" --text-stdin
    ;;
same)
    worker=$(subagent worker start --launcher "$launcher" --label 'architect and editor' --json | field workerId)
    trap 'subagent worker stop "$worker" > /dev/null' EXIT
    subagent send --worker-id "$worker" --agent architect --text-file "$messages/plan.md" \
        --wait-timeout-seconds 0 | grep -q 'matchedEvent: elicitation.requested'
    approve "$worker"
    subagent wait --worker-id "$worker" --all --timeout-seconds 0 > /dev/null
    # The same session with other rules.
    subagent send --worker-id "$worker" --agent editor --text-file "$messages/build.md" --wait-timeout-seconds 0
    ;;
*)
    echo "build.sh: fresh or same, not $session" >&2
    exit 2
    ;;
esac
