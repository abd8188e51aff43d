-- Git worktrees of workers. A row is there before anything of it is on disk, and goes when all of it is removed.
-- landing_at: when a landing was begun whose end is not stored; a repetition has the same time.
-- worker_id: its worker, which may have been removed since. worktree, setup: see `subagent_protocol::worktree`, as JSON.
CREATE TABLE worktrees (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    worker_id     TEXT NOT NULL UNIQUE,
    controller_id TEXT NOT NULL,
    state         TEXT NOT NULL,
    worktree      TEXT NOT NULL,
    setup         TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    landing_at    INTEGER
) STRICT;
