-- Written by `UPDATE_SCHEMA=1 cargo test --workspace --lib a_new_database`: what the migrations
-- of this folder make of an empty database.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE controllers (
    id             INTEGER PRIMARY KEY,
    controller_id  TEXT    NOT NULL UNIQUE,
    label          TEXT    NOT NULL,
    workspace_key  TEXT    NOT NULL UNIQUE,
    require_handle INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
) STRICT;
CREATE TABLE owners (
    id          INTEGER PRIMARY KEY,
    controller  INTEGER NOT NULL REFERENCES controllers (id),
    instance_id TEXT    NOT NULL UNIQUE,
    epoch       INTEGER NOT NULL,
    token_hash  BLOB    NOT NULL,
    pid         INTEGER NOT NULL,
    start_time  INTEGER NOT NULL,
    boot_id     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    released_at INTEGER,
    UNIQUE (controller, epoch)
) STRICT;
CREATE UNIQUE INDEX one_active_owner ON owners (controller) WHERE released_at IS NULL;
CREATE TABLE workers (
    id             INTEGER PRIMARY KEY,
    worker_id      TEXT    NOT NULL UNIQUE,
    controller     INTEGER NOT NULL REFERENCES controllers (id),
    label          TEXT    NOT NULL,
    launcher       TEXT    NOT NULL,
    role           TEXT    NOT NULL,
    cwd            TEXT    NOT NULL,
    spec           TEXT    NOT NULL,
    state          TEXT    NOT NULL,
    desired        TEXT    NOT NULL,
    placeholder    TEXT    NOT NULL,
    session_id     TEXT,
    incarnation    INTEGER NOT NULL DEFAULT 0,
    may_live       INTEGER NOT NULL DEFAULT 0,
    boot_id        TEXT,
    runtime_pid    INTEGER,
    runtime_start  INTEGER,
    guard_pid      INTEGER,
    guard_start    INTEGER,
    last_turn      INTEGER NOT NULL DEFAULT 0,
    restart        TEXT    NOT NULL DEFAULT 'none',
    last_error     TEXT,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    stopped_at     INTEGER
, removed_at INTEGER, expired_seq INTEGER NOT NULL DEFAULT 0, expired_number INTEGER NOT NULL DEFAULT 0, details TEXT, restore_failures TEXT, hibernation TEXT NOT NULL DEFAULT 'none', idle_seconds INTEGER NOT NULL DEFAULT 0, hibernated_at INTEGER, queue_pause TEXT, instructed INTEGER NOT NULL DEFAULT 0, name TEXT, name_key TEXT, parked_until INTEGER, backoffs INTEGER NOT NULL DEFAULT 0, placement TEXT) STRICT;
CREATE INDEX workers_of_controller ON workers (controller);
CREATE TABLE turns (
    id               INTEGER PRIMARY KEY,
    worker           INTEGER NOT NULL REFERENCES workers (id),
    no               INTEGER NOT NULL,
    turn_id          TEXT    NOT NULL UNIQUE,
    carrier          TEXT    NOT NULL,
    status           TEXT    NOT NULL,
    dispatched       TEXT    NOT NULL,
    retried          INTEGER NOT NULL DEFAULT 0,
    cancel_reason    TEXT,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    message_seq      INTEGER NOT NULL DEFAULT 0,
    end_seq          INTEGER, tokens INTEGER, counts TEXT, cost INTEGER, currency TEXT, priced INTEGER NOT NULL DEFAULT 0, model TEXT,
    UNIQUE (worker, no)
) STRICT;
CREATE UNIQUE INDEX one_open_turn ON turns (worker) WHERE status = 'accepted';
CREATE TABLE approvals (
    id          INTEGER PRIMARY KEY,
    request_id  TEXT    NOT NULL UNIQUE,
    worker      INTEGER NOT NULL REFERENCES workers (id),
    turn        INTEGER REFERENCES turns (id),
    status      TEXT    NOT NULL,
    option_id   TEXT,
    by_cancel   INTEGER NOT NULL DEFAULT 0,
    asked_seq   INTEGER NOT NULL,
    decided_seq INTEGER
, kind TEXT NOT NULL DEFAULT 'permission', content TEXT, deadline_at INTEGER, asked_by TEXT, decided_by TEXT, held INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX open_approvals ON approvals (worker) WHERE status IN ('pending', 'decided');
CREATE TABLE events (
    seq      INTEGER PRIMARY KEY,
    worker   INTEGER NOT NULL REFERENCES workers (id),
    number   INTEGER,
    turn     INTEGER REFERENCES turns (id),
    at       INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    kind     TEXT,
    record   TEXT,
    internal INTEGER NOT NULL,
    payload  TEXT    NOT NULL
) STRICT;
CREATE INDEX milestones ON events (worker, type, seq) WHERE internal = 0 AND kind IS NULL;
CREATE TABLE handoffs (
    id              INTEGER PRIMARY KEY,
    snapshot_id     TEXT    NOT NULL UNIQUE,
    worker          INTEGER NOT NULL REFERENCES workers (id),
    up_to           INTEGER NOT NULL,
    handoff_path    TEXT    NOT NULL,
    checkpoint_path TEXT    NOT NULL,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX handoffs_of_worker ON handoffs (worker, up_to);
CREATE TABLE requests (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT    NOT NULL,
    response    TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX removals ON workers (removed_at) WHERE removed_at IS NOT NULL;
CREATE TABLE removed_workers (
    worker_id  TEXT    PRIMARY KEY,
    stopped_at INTEGER NOT NULL,
    removed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_of_worker ON approvals (worker);
CREATE INDEX requests_by_age ON requests (created_at);
CREATE INDEX tool_calls ON events (turn, seq) WHERE kind IN ('tool_call', 'tool_call_update');
CREATE INDEX child_sessions ON events (worker, seq) WHERE kind = 'subagent_update';
CREATE TABLE queued_turns (
    id         INTEGER PRIMARY KEY,
    worker     INTEGER NOT NULL REFERENCES workers (id),
    turn_id    TEXT    NOT NULL UNIQUE,
    place      INTEGER NOT NULL,
    input      TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    sender     TEXT,
    created_at INTEGER NOT NULL
, agent TEXT) STRICT;
CREATE INDEX queued_turns_of_worker ON queued_turns (worker, place);
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
CREATE TABLE accounts (
    scope   TEXT    NOT NULL,
    key     INTEGER NOT NULL,
    account TEXT    NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_of_worker ON events (worker) WHERE internal = 0;
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
, cause TEXT, merged TEXT) STRICT;
CREATE UNIQUE INDEX task_names ON tasks (coalesce(parent, -controller), folded) WHERE archived_at IS NULL;
CREATE INDEX open_tasks ON tasks (controller, root) WHERE outcome IS NULL;
CREATE INDEX tasks_of_tree ON tasks (controller, root);
CREATE INDEX tasks_of_parent ON tasks (parent);
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
CREATE UNIQUE INDEX record_once ON events (worker, number) WHERE number IS NOT NULL AND kind IS NULL;
CREATE INDEX task_events ON events (worker)
    WHERE kind IS NULL AND (type BETWEEN 'subagent.' AND 'subagent/' OR type BETWEEN 'approval.' AND 'approval/'
        OR type BETWEEN 'elicitation.' AND 'elicitation/' OR type = 'policy.violated');
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sink TEXT NOT NULL,
    event INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    occasion TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    message INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,
    error TEXT,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    UNIQUE (sink, event)
) STRICT;
CREATE INDEX deliveries_pending ON deliveries (sink, id) WHERE status = 'pending';
CREATE INDEX deliveries_worker ON deliveries (worker);
CREATE TABLE delivery_cursor (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL) STRICT;
CREATE TABLE delivery_sinks (name TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE hook_trust (
    file TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    trusted_at INTEGER NOT NULL,
    PRIMARY KEY (file, sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE hook_cursors (
    worker INTEGER PRIMARY KEY REFERENCES workers (id),
    seq INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX worker_names ON workers (name_key) WHERE removed_at IS NULL;
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
, observed TEXT, failures_after INTEGER NOT NULL DEFAULT 0, runs_after INTEGER NOT NULL DEFAULT 0) STRICT;
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
    ended_at   INTEGER, occurrence TEXT, payload TEXT,
    UNIQUE (schedule, at)
) STRICT;
CREATE INDEX open_firings ON firings (status) WHERE status IN ('waiting', 'running');
CREATE UNIQUE INDEX firings_by_occurrence ON firings (schedule, occurrence) WHERE occurrence IS NOT NULL;
CREATE TABLE journal_cursors (
    worker  INTEGER PRIMARY KEY REFERENCES workers (id),
    segment INTEGER NOT NULL DEFAULT 0,
    offset  INTEGER NOT NULL DEFAULT 0,
    number  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO meta VALUES ('generation', 0), ('seq_reserved', 0), ('syncs', 0), ('worker_key', 0);
