//! What each key of a board does.

/// Keys, and what they do.
pub(super) const LINES: &[(&str, &str)] = &[
    ("Up Down k j", "choose a row, or scroll"),
    ("PgUp PgDn g G", "half a screen; the first row, the last one"),
    ("Tab", "the next question"),
    ("Enter", "open the story of the worker; it goes on while you read"),
    ("Esc q", "back; q in the list quits"),
    ("", ""),
    ("y", "allow once; fill in a form"),
    ("a", "show the rule for this; Enter allows and makes it"),
    ("n N", "reject; reject with a note"),
    ("1-9", "choose an option, where they have numbers"),
    ("", ""),
    ("d", "what the worker has changed"),
    ("s", "send a message; it waits for the end of a turn"),
    ("c", "cancel the open turn"),
    ("x", "stop the worker and all of its processes"),
    ("w", "start a worker: agent, then task"),
    ("", ""),
    ("/", "show only rows with a text; Esc shows all"),
    ("t", "tasks below their workers, or sections"),
    ("Ctrl-L", "draw the screen again, with a new snapshot"),
    ("Ctrl-Z", "stop for the shell; `fg` comes back"),
    ("?", "these keys"),
    ("q Ctrl-C", "leave; the workers go on"),
];
