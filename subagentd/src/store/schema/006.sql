-- 1 while hooks of the request run: nothing is asked until they have answered. asked_seq is then an internal event.
ALTER TABLE approvals ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
