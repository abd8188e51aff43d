-- What is delivered to programs outside: notifications, and hooks that run after something. One row a sink and event.
-- due_at: no attempt before this time.
-- message: the event whose id the sink gets; set by the first attempt, the same for all rows that were sent together.
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

-- Events up to this one were looked at for deliveries.
CREATE TABLE delivery_cursor (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL) STRICT;

-- since: a sink gets events after this one, not those from before it was configured.
CREATE TABLE delivery_sinks (name TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;
