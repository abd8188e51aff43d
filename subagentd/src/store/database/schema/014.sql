-- failures_after: the newest firing when the schedule was resumed; only failures of later ones count.
-- runs_after: the same for failed runs of a watched command, when it last ran without an error.
ALTER TABLE schedules ADD COLUMN failures_after INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN runs_after INTEGER NOT NULL DEFAULT 0;
UPDATE schedules SET failures_after = coalesce((SELECT max(id) FROM firings WHERE schedule = schedules.id), 0)
    WHERE failures = 0;
