-- What the streams of the workers above a task also have: how it stands, its questions, and violations. Few rows among many.
DROP INDEX task_events;
CREATE INDEX task_events ON events (worker)
    WHERE kind IS NULL AND (type BETWEEN 'subagent.' AND 'subagent/' OR type BETWEEN 'approval.' AND 'approval/'
        OR type BETWEEN 'elicitation.' AND 'elicitation/' OR type = 'policy.violated');

-- cause: the error that says why the present run of a task ends early, until it has ended.
ALTER TABLE tasks ADD COLUMN cause TEXT;
