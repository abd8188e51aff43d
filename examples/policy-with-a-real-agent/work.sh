#!/usr/bin/env bash
# Runs an agent under rules: it may do what they allow, it must not do what they deny, and the rest is denied as well,
# because there is no user to ask. Prints what the agent says, and exits as `subagent run`: with 12 if something was denied.
#
#   work.sh LAUNCHER TASK
set -euo pipefail

launcher=${1:?which launcher}
task=${2:?which task}
# The last rule that fits counts, and what is denied comes after what is allowed.
rules=(
    --allow read --allow search --allow 'edit(src/**)'
    --allow 'execute(cargo test *)' --allow 'execute(git diff *)' --allow 'execute(git status *)'
    --allow 'execute(git add *)' --allow 'execute(git commit *)'
    --deny 'edit(*.env)' --deny 'execute(git push *)' --deny 'execute(rm *)'
)
# Which rule decides, before anything is done:
subagent policy test execute 'git push --force' "${rules[@]}" >&2
subagent run --launcher "$launcher" --text-file "$task" --timeout 10m "${rules[@]}"
