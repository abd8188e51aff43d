-- Schedules. work, times: see `subagent_protocol::api::AddSchedule`, as JSON. controller_id: whose it is.
-- anchor: from which intervals are counted. cursor: all times up to it were looked at.
-- paused: why it does not fire; error: more about that, as JSON.
CREATE TABLE schedules (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    controller_id TEXT NOT NULL,
    times         TEXT NOT NULL,
    work          TEXT NOT NULL,
    anchor        INTEGER NOT NULL,
    cursor        INTEGER NOT NULL,
    failures      INTEGER NOT NULL DEFAULT 0,
    paused        TEXT,
    error         TEXT,
    created_at    INTEGER NOT NULL
) STRICT;

-- What became of each time of a schedule. A firing becomes running in the transaction that stores its task or its turn.
-- manual: a person asked for it. left_out: missed times before it that do not fire. error: as JSON.
-- An id is in the idempotency key of what the firing starts, so it is never given again.
CREATE TABLE firings (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule   INTEGER NOT NULL REFERENCES schedules (id),
    at         INTEGER NOT NULL,
    manual     INTEGER NOT NULL,
    left_out   INTEGER NOT NULL,
    status     TEXT NOT NULL,
    worker_id  TEXT,
    turn_id    TEXT,
    error      TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at   INTEGER,
    UNIQUE (schedule, at)
) STRICT;
CREATE INDEX open_firings ON firings (status) WHERE status IN ('waiting', 'running');
