#!/usr/bin/env bash
# Gives one worker five messages at once. The third may fail: then the queue stands still, the message is sent once more,
# and the rest goes on. Prints how each turn ended, and exits with 0 if all five were completed in the end.
#
#   queue.sh LAUNCHER FOLDER      FOLDER holds 1.md to 5.md, and again.md for the message that failed
set -euo pipefail

launcher=${1:?which launcher}
folder=${2:?which folder}

field() { grep -o "\"$1\": \"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
idle() { subagent wait --worker-id "$worker" --all --timeout-seconds 600 > /dev/null; }

worker=$(subagent worker start --launcher "$launcher" --label queue-of-five --json | field workerId)
trap 'subagent worker stop "$worker" > /dev/null' EXIT

for number in 1 2 3 4 5; do
    # The first starts at once, the others wait. Each has its id from now on, even if a process dies.
    subagent send --worker-id "$worker" --queue --text-file "$folder/$number.md" --no-wait > /dev/null
done

# Until no turn is open: all are over, or one has failed and the queue is paused.
idle
if subagent worker show "$worker" --json | grep -q '"paused": true'; then
    failed=$(subagent turn list --worker-id "$worker" --json | grep -o '"status": "failed"[^}]*' | field turnId)
    echo "$failed failed; what waits behind it was not begun:"
    subagent turn list --worker-id "$worker" --ended 0
    # To the idle worker, before all that waits; then the rest goes on.
    subagent send --worker-id "$worker" --if-busy steer --text-file "$folder/again.md" > /dev/null
    subagent queue resume --worker-id "$worker" > /dev/null
    idle
fi

subagent turn list --worker-id "$worker"
completed=$(subagent turn list --worker-id "$worker" --json | grep -o '"status": "completed"' | wc -l)
[ "$completed" = 5 ]
