#!/usr/bin/env bash
# An agent has two others work for it, in the background: one reviews the last commit, one runs the tests. While they work the
# daemon is killed. Both ends are told to the agent all the same, each once; prints them, and what the agent says of them.
# Needs a controller (`subagent controller init`), and the definitions in .agents of the workspace.
#
#   run.sh LAUNCHER [TASKS]      TASKS is a folder with the messages to the agent, in the order of their names
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
launcher=${1:?which launcher}
messages=${2:-$here/tasks}

field() { grep -o "\"$1\": \"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
tasks() { subagent task list --parent "$worker" | cut -f 1 | grep '^w_'; }

# It may call these two, look around, and change nothing: what is denied to it is denied to them as well.
worker=$(subagent worker start --launcher "$launcher" --delegate --allow 'task(reviewer)' --allow 'task(test-runner)' \
    --allow read --allow search --allow 'execute(git log *)' --allow 'execute(git show *)' \
    --deny edit --deny delete --deny move --json | field workerId)
trap 'subagent worker stop "$worker" > /dev/null' EXIT
for message in "$messages"/*.md; do
    # In the queue: the end of the first task may be told in between.
    subagent send --worker-id "$worker" --queue --text-file "$message" --wait-timeout-seconds 600 > /dev/null
done

for task in $(tasks); do
    subagent wait --worker-id "$task" --include-history --until turn.started,turn_end --timeout-seconds 600 > /dev/null
done
subagent tree "$worker"
kill -9 "$(subagent daemon status | sed -n 's/^pid: //p')"
echo 'The daemon is dead. The next command starts another one.'

for task in $(tasks); do
    subagent task wait "$task" --timeout-seconds 0
done
# What is told is a message to the agent like any other. Each is looked for, from the first one on.
cursor=()
for _ in $(tasks); do
    told=
    until [[ $told == *"[Subagent '"* ]]; do
        told=$(subagent wait --worker-id "$worker" --include-history "${cursor[@]}" --until message.sent \
            --timeout-seconds 600 --json)
        cursor=(--from-event-id "$(field eventId <<< "$told")")
    done
done
subagent wait --worker-id "$worker" --all --timeout-seconds 600 > /dev/null
events=$(subagent watch --worker-id "$worker")
grep '"type": "message.sent"' <<< "$events" | grep -o "\[Subagent '[^']*' ([^)]*) [a-z]*" | sort | uniq -c
