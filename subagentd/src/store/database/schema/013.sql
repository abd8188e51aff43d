-- observed: of a trigger that runs a command, the SHA-256 of its last output; NULL before the first run. Its cursor is the
-- time of the last run.
ALTER TABLE schedules ADD COLUMN observed TEXT;
