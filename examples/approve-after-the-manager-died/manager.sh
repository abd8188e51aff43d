#!/usr/bin/env bash
# A manager that starts a worker, gives it a task and waits. Kill it whenever you like: the worker goes on.
#
#   manager.sh LAUNCHER TASK
set -euo pipefail

launcher=${1:?which launcher}
task=${2:?a file with the task}

worker=$(subagent worker start --launcher "$launcher" --tag job=cleanup --approval-timeout 12h \
    | sed -n 's/^workerId: //p')
# With a key of its own the message can be sent again, and is given to the agent once.
subagent send --worker-id "$worker" --text-file "$task" --turn-id cleanup \
    --wait-until turn.completed,turn.failed,turn.canceled --wait-timeout-seconds 0
