#!/usr/bin/env bash
# Reviews the commits of the last day in a worktree, on weekdays at 02:00. Copy `.agents` to your project before.
#
#   nightly-review.sh [TASK]
#
# For a notification, put this into ~/.config/subagent/config.yaml:
#
#   notify:
#     - {on: [done, failed, schedule_paused], to: desktop}
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
subagent schedule add nightly-review --cron '0 2 * * 1-5' --worktree --overlap skip \
    --task night-reviewer --text-file "${1:-$here/tasks/review.md}"
