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

-- Messages that wait for their worker to be done with its turns, in the order of place. input: data of the turn's
-- turn.started without its id; message: data of its message.sent; sender: the instance of the owner who sent it.
CREATE TABLE queued_turns (
    id         INTEGER PRIMARY KEY,
    worker     INTEGER NOT NULL REFERENCES workers (id),
    turn_id    TEXT    NOT NULL UNIQUE,
    place      INTEGER NOT NULL,
    input      TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    sender     TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX queued_turns_of_worker ON queued_turns (worker, place);
-- queue_pause: why nothing of it is begun; NULL: it is not paused.
ALTER TABLE workers ADD COLUMN queue_pause TEXT;
-- The inbox. deadline_at: when a question is decided if nobody has. asked_by: the rule for which it is asked, in JSON.
-- decided_by: the ownership whose handle came with the decision.
ALTER TABLE approvals ADD COLUMN deadline_at INTEGER;
ALTER TABLE approvals ADD COLUMN asked_by TEXT;
ALTER TABLE approvals ADD COLUMN decided_by TEXT;
-- Rules that decisions of owners became; worker: NULL if for all of the controller. request_id: the decision.
CREATE TABLE owner_rules (
    id         INTEGER PRIMARY KEY,
    rule_id    TEXT    NOT NULL UNIQUE,
    controller INTEGER NOT NULL REFERENCES controllers (id),
    worker     INTEGER REFERENCES workers (id),
    rule       TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX owner_rules_of ON owner_rules (controller, worker);
CREATE INDEX owner_rules_of_worker ON owner_rules (worker) WHERE worker IS NOT NULL;
-- What workers and controllers have used and may use (core::budget::Account as JSON). scope: worker, controller. key: its id in
-- its table; a worker's is never given again. Of turns from before there were budgets nothing is known but their number.
CREATE TABLE accounts (
    scope   TEXT    NOT NULL,
    key     INTEGER NOT NULL,
    account TEXT    NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
INSERT INTO accounts SELECT 'worker', worker, json_object('turns', count(*),
    'tokensUnknown', count(*) FILTER (WHERE status <> 'accepted' AND dispatched <> 'no'),
    'costUnknown', count(*) FILTER (WHERE status <> 'accepted' AND dispatched <> 'no')) FROM turns GROUP BY worker;
INSERT INTO accounts SELECT 'controller', w.controller, json_object('turns', count(*),
    'tokensUnknown', count(*) FILTER (WHERE t.status <> 'accepted' AND t.dispatched <> 'no'),
    'costUnknown', count(*) FILTER (WHERE t.status <> 'accepted' AND t.dispatched <> 'no'))
    FROM turns t JOIN workers w ON w.id = t.worker GROUP BY w.controller;
-- From now on an empty type is 'progress.message', an empty kind 'message', an empty record 'update'. The events of a worker
-- are in the order of seq without it being in the index twice: each entry ends with it anyway.
DROP INDEX events_of_worker;
CREATE INDEX events_of_worker ON events (worker) WHERE internal = 0;
-- instructed: whether a prompt was answered in the present session that had the prompt of the worker's definition before it.
ALTER TABLE workers ADD COLUMN instructed INTEGER NOT NULL DEFAULT 0;

-- Tasks: workers that were given one piece of work, with a name and an outcome. parent, root: keys of workers, which are never
-- given again, and may be gone; NULL: a manager's. parent_turn: the number of the parent's turn that gave it. folded: the name as it
-- is compared. path: the names from the root. max_active: so many tasks of its tree may run at once. first_turn: the
-- first turn of the present run. ending: why it is ended from outside; outcome: the end of its present run, NULL while it goes on.
-- why: the reason for which its end is wanted from above, or was. ran_before: for how many milliseconds its worker had run when the
-- present or last prompt was begun. asked_again: whether its present run was asked once more for a result that fits its schema.
CREATE TABLE tasks (
    worker       INTEGER PRIMARY KEY REFERENCES workers (id),
    parent       INTEGER,
    parent_id    TEXT,
    parent_turn  INTEGER,
    root         INTEGER,
    root_id      TEXT,
    controller   INTEGER NOT NULL REFERENCES controllers (id),
    depth        INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    folded       TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    agent        TEXT,
    description  TEXT    NOT NULL,
    prompt       TEXT    NOT NULL,
    mode         TEXT    NOT NULL,
    terms        TEXT    NOT NULL,
    metadata     TEXT    NOT NULL,
    max_active   INTEGER NOT NULL,
    runs         INTEGER NOT NULL DEFAULT 1,
    first_turn   INTEGER NOT NULL DEFAULT 1,
    steps        INTEGER NOT NULL DEFAULT 0,
    tool_calls   INTEGER NOT NULL DEFAULT 0,
    ending       TEXT,
    outcome      TEXT,
    error        TEXT,
    result       TEXT,
    why          TEXT,
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,
    completed_at INTEGER,
    archived_at  INTEGER,
    ran_before   INTEGER NOT NULL DEFAULT 0,
    asked_again  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX task_names ON tasks (coalesce(parent, -controller), folded) WHERE archived_at IS NULL;
CREATE INDEX open_tasks ON tasks (controller, root) WHERE outcome IS NULL;
CREATE INDEX tasks_of_tree ON tasks (controller, root);
CREATE INDEX tasks_of_parent ON tasks (parent);
-- Ends of background tasks that are told to their parents: one for each run. turn_id: the parent's turn that tells it, NULL as
-- long as it is due.
CREATE TABLE task_deliveries (
    task    INTEGER NOT NULL,
    run     INTEGER NOT NULL,
    parent  INTEGER NOT NULL,
    task_id TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    status  TEXT    NOT NULL,
    text    TEXT    NOT NULL,
    turn_id TEXT,
    PRIMARY KEY (task, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_deliveries ON task_deliveries (parent) WHERE turn_id IS NULL;
-- That no record is stored twice follows from the cursor of its worker, which is compared and moved in the same transaction.
-- What decides something is held to it by this index too; pieces of progress, nearly all there is, are not in it.
DROP INDEX record_once;
CREATE UNIQUE INDEX record_once ON events (worker, number) WHERE number IS NOT NULL AND kind IS NULL;
-- What is told of tasks, for whoever watches a worker above them: few rows among many.
CREATE INDEX task_events ON events (worker) WHERE kind IS NULL AND type >= 'subagent.' AND type < 'subagent/';
