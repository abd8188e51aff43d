-- agent: the definition that the worker has from the turn of this message on, as JSON; null if it stays as it is.
ALTER TABLE queued_turns ADD COLUMN agent TEXT;

-- Contents of files whose hooks run: a project or a definition may hold any command.
CREATE TABLE hook_trust (
    file TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    trusted_at INTEGER NOT NULL,
    PRIMARY KEY (file, sha256)
) STRICT, WITHOUT ROWID;

-- How far the hooks that run after events of a worker have come: up to here all have run.
CREATE TABLE hook_cursors (
    worker INTEGER PRIMARY KEY REFERENCES workers (id),
    seq INTEGER NOT NULL
) STRICT;

-- 1 while hooks of the request run: nothing is asked until they have answered. asked_seq is then an internal event.
ALTER TABLE approvals ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
