//! Named sets of rules. Pure.

/// The presets with their rules.
pub const PRESETS: &[(&str, &[(&str, &str)])] = &[
    (
        "read_only",
        &[
            ("*", "ask"),
            ("read", "allow"),
            ("search", "allow"),
            ("think", "allow"),
            ("edit", "deny"),
            ("delete", "deny"),
            ("move", "deny"),
            // These programs only print; `>` is an edit.
            ("execute(cat *)", "allow"),
            ("execute(cd *)", "allow"),
            ("execute(cut *)", "allow"),
            ("execute(diff *)", "allow"),
            ("execute(echo *)", "allow"),
            ("execute(grep *)", "allow"),
            ("execute(head *)", "allow"),
            ("execute(ls *)", "allow"),
            ("execute(pwd)", "allow"),
            ("execute(stat *)", "allow"),
            ("execute(tail *)", "allow"),
            ("execute(wc *)", "allow"),
            ("execute(git status *)", "allow"),
        ],
    ),
    ("full", &[("*", "allow")]),
];

pub(super) fn preset(name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    PRESETS.iter().find(|(word, _)| *word == name).map(|(_, rules)| *rules)
}
