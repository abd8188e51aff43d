#!/usr/bin/env bash
# From another terminal, even if the manager or the daemon has died: shows the open questions, answers all of them
# after one question to you, and waits until the work is done.
#
#   inbox.sh [TAGS]
set -euo pipefail

tags=${1:-job=cleanup}
requests=$(subagent approval list -l "$tags" | cut -f 1 | grep '^ap_' || true)
for request in $requests; do
    subagent approval show "$request"
done
read -r -p 'allow or deny? ' decision
for worker in $(subagent approval list -l "$tags" | cut -f 2 | grep '^w_' | sort -u); do
    subagent approve --all --worker-id "$worker" --decision "$decision" --note 'decided in the inbox'
done
subagent wait -l "$tags" --all --timeout-seconds 0
