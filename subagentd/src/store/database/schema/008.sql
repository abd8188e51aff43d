-- What agents report of turns. tokens: their number. counts: tokens by name, as JSON.
-- cost: in millionths of the currency. priced: 1 if a report of the session's cost includes the turn; the amount may be in
-- a later turn of the session. model: the one in use at the end of the turn.
ALTER TABLE turns ADD COLUMN tokens INTEGER;
ALTER TABLE turns ADD COLUMN counts TEXT;
ALTER TABLE turns ADD COLUMN cost INTEGER;
ALTER TABLE turns ADD COLUMN currency TEXT;
ALTER TABLE turns ADD COLUMN priced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN model TEXT;
