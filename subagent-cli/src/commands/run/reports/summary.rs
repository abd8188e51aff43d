//! The summary of a run in Markdown. Texts of an agent stand in code spans and fences that they cannot leave. Pure.

use std::fmt::Write as _;

use serde_json::Value;
use subagent_protocol::markdown::{fenced, span};

use super::super::figures;
use super::{FinishedRun, MAX_MESSAGE_BYTES};
use crate::output::ago::took;
use crate::output::short;

/// Changed files that are listed.
const MAX_FILES: usize = 100;
/// The bytes of a name or a path, and of an error.
const MAX_NAME_BYTES: usize = 300;
const MAX_ERROR_BYTES: usize = 16 * 1024;

/// Returns the summary of a run as Markdown.
pub(crate) fn markdown(ended: &FinishedRun<'_>) -> String {
    let mut text = format!("## {}: {}\n\n", name(&ended.case), ended.label);
    let mut fact = |key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {key}: {value}");
    };
    let worker = ended.worker.map(|worker| format!(" (worker {})", name(worker))).unwrap_or_default();
    fact("Agent", &format!("{}{worker}", name(&ended.agent)));
    fact("Outcome", ended.label);
    fact("Duration", &took(ended.took));
    if let Some(figures) = ended.figures {
        fact("Tool calls", &figures.tools.to_string());
        match figures.changes.is_empty() {
            true => fact("Changed files", "none"),
            false => fact("Changed files", &figures.files()),
        }
        if let Some(tokens) = figures.tokens {
            let counts = counts(ended.usage);
            let counts = if counts.is_empty() { counts } else { format!(" ({})", name(&counts)) };
            fact("Usage", &format!("{}{counts}", short::tokens(tokens)));
        }
        if let Some(cost) = &figures.cost {
            fact("Cost", &short::money(cost));
        }
        files(&mut text, figures);
    }
    if let Some(problem) = &ended.problem {
        let _ = write!(text, "\n### Why\n\n{}", fenced(&problem.text, MAX_ERROR_BYTES));
    }
    if let Some(message) = ended.message {
        let _ = write!(text, "\n### Final message\n\n{}", fenced(message, MAX_MESSAGE_BYTES));
    }
    text
}

/// Foreign text in a line of ours.
fn name(text: &str) -> String {
    span(text, MAX_NAME_BYTES)
}

/// The numbers of tokens by their names, which the agent chooses.
fn counts(usage: &Value) -> String {
    let counts = usage.as_object().into_iter().flatten();
    counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn files(text: &mut String, figures: &figures::Figures) {
    if figures.changes.is_empty() {
        return;
    }
    text.push_str("\n### Changed files\n\n");
    for change in figures.changes.iter().take(MAX_FILES) {
        let lines = match (change.added, change.deleted) {
            (Some(added), Some(deleted)) => short::lines(added, deleted),
            _ => "binary".to_owned(),
        };
        let _ = writeln!(text, "- {} {lines}", name(&change.path));
    }
    if let Some(left) = figures.changes.len().checked_sub(MAX_FILES).filter(|left| *left > 0) {
        let _ = writeln!(text, "- and {left} more");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use subagent_protocol::api::FileChange;
    use subagent_protocol::budget::Money;

    use super::super::RunProblem;
    use super::*;

    fn change(path: &str) -> FileChange {
        FileChange {
            path: path.to_owned(),
            old_path: None,
            status: "modified".to_owned(),
            added: Some(8),
            deleted: Some(2),
            patch: String::new(),
        }
    }

    #[test]
    fn a_summary_has_what_is_known() {
        let figures = figures::Figures {
            took: Duration::from_secs(192),
            tools: 14,
            changes: vec![change("a.rs"), FileChange { added: None, deleted: None, ..change("b\n## c`") }],
            tokens: Some(41_000),
            cost: Some(Money { micros: 310_000, currency: "USD".to_owned() }),
        };
        let usage = json!({"inputTokens": 40_000, "`x\n# y": 1000});
        let ended = FinishedRun {
            case: "Fix `it`".to_owned(),
            agent: "codex".to_owned(),
            worker: Some("codex-1"),
            label: "denied",
            took: figures.took,
            figures: Some(&figures),
            usage: &usage,
            message: Some("Done.\n```\n## Not a heading\n</details><!--"),
            problem: Some(RunProblem {
                is_error: false,
                code: "permission_denied".to_owned(),
                message: "no".to_owned(),
                text: "no\nHint: ask".to_owned(),
            }),
        };
        let expected = "\
## `` Fix `it` ``: denied

- Agent: `codex` (worker `codex-1`)
- Outcome: denied
- Duration: 3m12s
- Tool calls: 14
- Changed files: 2 files +8 −2
- Usage: 41k tokens (``inputTokens 40000, `x # y 1000``)
- Cost: $0.31

### Changed files

- `a.rs` +8 −2
- `` b ## c` `` binary

### Why

```text
no
Hint: ask
```

### Final message

````text
Done.
```
## Not a heading
</details><!--
````
";
        assert_eq!(markdown(&ended), expected);
    }

    #[test]
    fn a_run_that_never_began_has_its_error() {
        let problem = RunProblem {
            is_error: true,
            code: "X".to_owned(),
            message: "m".to_owned(),
            text: "X: m".to_owned(),
        };
        let ended = FinishedRun {
            case: "a".to_owned(),
            agent: "codex".to_owned(),
            worker: None,
            label: "error",
            took: Duration::ZERO,
            figures: None,
            usage: &Value::Null,
            message: None,
            problem: Some(problem),
        };
        let expected = "## `a`: error\n\n- Agent: `codex`\n- Outcome: error\n- Duration: 0s\n\n### Why\n\n```text\nX: m\n```\n";
        assert_eq!(markdown(&ended), expected);
    }

    #[test]
    fn many_files_are_counted() {
        let mut text = String::new();
        let changes = (0..103).map(|number| change(&number.to_string())).collect();
        let figures = figures::Figures { took: Duration::ZERO, tools: 0, changes, tokens: None, cost: None };
        files(&mut text, &figures);
        assert!(text.ends_with("- `99` +8 −2\n- and 3 more\n"), "{text}");
    }
}
