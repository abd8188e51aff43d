-- How far the journal of a worker was taken. It changes with every batch of events, and the rows are small, so that many
-- of them are in a page.
CREATE TABLE journal_cursors (
    worker  INTEGER PRIMARY KEY REFERENCES workers (id),
    segment INTEGER NOT NULL DEFAULT 0,
    offset  INTEGER NOT NULL DEFAULT 0,
    number  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO journal_cursors SELECT id, segment, offset, number FROM workers;
ALTER TABLE workers DROP COLUMN segment;
ALTER TABLE workers DROP COLUMN offset;
ALTER TABLE workers DROP COLUMN number;
