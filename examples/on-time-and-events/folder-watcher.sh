#!/usr/bin/env bash
# Gives an agent the files that come into a folder.
#
#   folder-watcher.sh LAUNCHER FOLDER [TASK]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
task=$(cat "${3:-$here/tasks/watch.md}")
subagent trigger add folder-watcher --cwd "${2:?which folder}" --watch '**' --overlap queue \
    "${1:?which launcher}" "$task"
