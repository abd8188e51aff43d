-- placement: where the worker's runtimes are started; NULL: beside the daemon.
ALTER TABLE workers ADD COLUMN placement TEXT;
