-- Triggers are rows of schedules whose times have a source (`subagent_protocol::trigger::TriggerSource`). The cursor of one
-- that waits for the ends of a worker is the newest event that was looked at.
-- occurrence: a trigger fires once for each. payload: of a firing that is not over.
ALTER TABLE firings ADD COLUMN occurrence TEXT;
ALTER TABLE firings ADD COLUMN payload TEXT;
CREATE UNIQUE INDEX firings_by_occurrence ON firings (schedule, occurrence) WHERE occurrence IS NOT NULL;
