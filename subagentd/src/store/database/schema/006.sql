-- name: what people call the worker, unique among the workers that are not removed. name_key: its form for comparisons.
ALTER TABLE workers ADD COLUMN name TEXT;
ALTER TABLE workers ADD COLUMN name_key TEXT;

UPDATE workers SET name = given.name, name_key = lower(given.name) FROM (
    SELECT id, launcher || '-' || row_number() OVER (PARTITION BY lower(launcher) ORDER BY id) AS name
      FROM workers WHERE removed_at IS NULL
) AS given WHERE given.id = workers.id;

CREATE UNIQUE INDEX worker_names ON workers (name_key) WHERE removed_at IS NULL;
