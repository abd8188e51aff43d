//! Hooks: which file may run them, and what they say to a sample.

use serde::Deserialize;
use subagent_protocol::api::TrustedHooks;

use crate::output::human::view::{PageRenderer, optional};
use crate::output::style::Style;
use crate::output::table::Table;

/// Output of a hook with more lines is cut.
const MAX_LINES: usize = 8;

/// Data of `hook.trusted`, with the hooks of the file.
#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct TrustedFile {
    #[serde(flatten)]
    trusted: TrustedHooks,
    hooks: Vec<ListedHook>,
}

#[derive(Debug, Deserialize)]
struct ListedHook {
    event: String,
    command: String,
    matcher: String,
}

/// Shows the data of `hook trust FILE`.
pub(in crate::output::human) fn trusted(view: &mut PageRenderer, file: &TrustedFile) {
    let TrustedFile { trusted, hooks } = file;
    view.page.word(Style::Strong, &trusted.file.to_string_lossy()).plain("  ");
    view.page.word(Style::Good, "trusted").end();
    view.facts(&[("SHA-256", Style::Dim, trusted.sha256.clone())]);
    let mut table = Table::new(&["EVENT", "COMMAND", "MATCHER"]);
    for hook in hooks {
        table.row([
            (Style::Strong, hook.event.as_str()),
            (Style::Plain, &hook.command),
            (Style::Plain, &hook.matcher),
        ]);
    }
    view.put(&table);
}

/// Data of `hook.tested`, as far as it is shown.
#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct TestedHooks {
    event: String,
    decision: Option<String>,
    items: Vec<TestedHook>,
}

#[derive(Debug, Deserialize)]
struct TestedHook {
    command: String,
    file: String,
    says: String,
    failed: bool,
    reason: Option<String>,
    /// Null for a hook that did not run.
    stdout: Option<String>,
    stderr: Option<String>,
}

/// `hook test`: what each hook said, and the decision of all.
pub(in crate::output::human) fn tested(view: &mut PageRenderer, tested: &TestedHooks) {
    if tested.items.is_empty() {
        view.page.plain("No hook matches ").word(Style::Strong, &tested.event).plain(".").end();
        return;
    }
    for hook in &tested.items {
        let said = if hook.failed { "failed" } else { &hook.says };
        view.page.word(style(said), said).plain("  ").rest(Style::Strong, &hook.command).end();
        view.facts(&[
            ("reason", Style::Plain, optional(hook.reason.as_ref())),
            ("from", Style::Dim, hook.file.clone()),
        ]);
        for (mark, text) in [("  | ", &hook.stdout), ("  ! ", &hook.stderr)] {
            if let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty()) {
                view.page.prose(Style::Dim, mark, mark, text, MAX_LINES);
            }
        }
    }
    if let Some(decision) = &tested.decision {
        view.page.plain("decision  ").word(style(decision), decision).end();
    }
}

fn style(said: &str) -> Style {
    match said {
        "allow" => Style::Good,
        "deny" | "failed" => Style::Bad,
        "ask" => Style::Attention,
        _ => Style::Plain,
    }
}
