-- merged: the last merge of the files of a task into the main work tree, in its present run, as JSON.
ALTER TABLE tasks ADD COLUMN merged TEXT;
