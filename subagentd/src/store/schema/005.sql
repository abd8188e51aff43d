-- agent: the definition that the worker has from the turn of this message on, as JSON; null if it stays as it is.
ALTER TABLE queued_turns ADD COLUMN agent TEXT;
