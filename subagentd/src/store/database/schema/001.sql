-- Version 1. Times are milliseconds since 1970; ids that users see are text, keys between tables are integers.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sequence numbers up to here may have been given; daemons that have been started; commits that only sync.
INSERT INTO meta VALUES ('seq_reserved', 0), ('generation', 0), ('syncs', 0);

-- require_handle: changes of its workers need the owner's handle.
CREATE TABLE controllers (
    id             INTEGER PRIMARY KEY,
    controller_id  TEXT    NOT NULL UNIQUE,
    label          TEXT    NOT NULL,
    workspace_key  TEXT    NOT NULL UNIQUE,
    require_handle INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
) STRICT;

-- Ownerships of controllers. Of the token only a hash is kept. A pid and a start time mean something in their boot.
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

-- spec: program, arguments, timeouts and names of environment variables, never their values.
-- may_live: from before a runtime is started until its whole journal was taken.
-- last_error: protocol::Error as JSON. segment, offset, number: how far the journal was taken. boot_id: in which boot the last runtime was started.
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
    segment        INTEGER NOT NULL DEFAULT 0,
    offset         INTEGER NOT NULL DEFAULT 0,
    number         INTEGER NOT NULL DEFAULT 0,
    last_error     TEXT,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    stopped_at     INTEGER
) STRICT;
CREATE INDEX workers_of_controller ON workers (controller);

-- carrier: who carries it out, the worker's runtime or the daemon alone.
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
    end_seq          INTEGER,
    UNIQUE (worker, no)
) STRICT;
CREATE UNIQUE INDEX one_open_turn ON turns (worker) WHERE status = 'accepted';

-- message and options are derived from the event asked_seq.
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
) STRICT;
CREATE INDEX open_approvals ON approvals (worker) WHERE status IN ('pending', 'decided');

-- number: the runtime's number of the record, NULL for the daemon's own events. payload: the record's body, to
-- the letter, or the data of the daemon's own.
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
CREATE UNIQUE INDEX record_once ON events (worker, number) WHERE number IS NOT NULL;
CREATE INDEX events_of_worker ON events (worker, seq) WHERE internal = 0;
-- All that is no progress (only progress has a kind): few rows among many.
CREATE INDEX milestones ON events (worker, type, seq) WHERE internal = 0 AND kind IS NULL;

-- Snapshots for a worker's successor, each with its files. up_to: the newest event that it speaks of.
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

-- Results of mutating requests by their idempotency key.
CREATE TABLE requests (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT    NOT NULL,
    response    TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
