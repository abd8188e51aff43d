-- Version 2: removal and retention.

-- removed_at: for everybody but the daemon the worker is gone; its rows and files are being deleted, this row last.
-- expired_seq: events up to this one were deleted, but those that are still needed.
ALTER TABLE workers ADD COLUMN removed_at INTEGER;
ALTER TABLE workers ADD COLUMN expired_seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX removals ON workers (removed_at) WHERE removed_at IS NOT NULL;

-- Workers that were removed. Their ids are never given again, nor are their keys: worker_key is the last one given.
CREATE TABLE removed_workers (
    worker_id  TEXT    PRIMARY KEY,
    stopped_at INTEGER NOT NULL,
    removed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta SELECT 'worker_key', coalesce(max(id), 0) FROM workers;

-- What is deleted is found by these.
CREATE INDEX approvals_of_worker ON approvals (worker);
CREATE INDEX requests_by_age ON requests (created_at);

-- expired_number: the runtime's number of the last record up to expired_seq; the next one is still there.
ALTER TABLE workers ADD COLUMN expired_number INTEGER NOT NULL DEFAULT 0;
-- details: what the agent has reported of itself and of its session (protocol::details::Details as JSON).
ALTER TABLE workers ADD COLUMN details TEXT;

-- The tool calls of a turn, which are looked through at its end.
CREATE INDEX tool_calls ON events (turn, seq) WHERE kind IN ('tool_call', 'tool_call_update');
-- What the last starts came to that failed while they restored the session, as a list in JSON; none since the last session.
ALTER TABLE workers ADD COLUMN restore_failures TEXT;
-- kind: what the agent waits for. content: what was filled in for an elicitation, from the answer until the question is
-- over, and no longer: it may be a secret. option_id is its action.
ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'permission';
ALTER TABLE approvals ADD COLUMN content TEXT;

-- What agents tell of the sessions that they run below their own.
CREATE INDEX child_sessions ON events (worker, seq) WHERE kind = 'subagent_update';

-- hibernation: none, wanted (the runtime is to end), begun (it has ended). idle_seconds: how long nothing was open before.
-- hibernated_at: since when, as long as it is.
ALTER TABLE workers ADD COLUMN hibernation TEXT NOT NULL DEFAULT 'none';
ALTER TABLE workers ADD COLUMN idle_seconds INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN hibernated_at INTEGER;

-- instructed: whether a prompt was answered in the present session that had the prompt of the worker's definition before it.
ALTER TABLE workers ADD COLUMN instructed INTEGER NOT NULL DEFAULT 0;
