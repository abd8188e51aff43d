//! Hooks: which file may run them, and what they say to a sample.

use serde_json::Value;

use super::view::{PageRenderer, items, shown, word};
use crate::output::style::Style;
use crate::output::table::Table;

/// Output of a hook with more lines is cut.
const MAX_LINES: usize = 8;

/// Shows the data of `hook trust FILE`.
pub(super) fn trusted(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["file"].as_str()?).plain("  ");
    view.page.word(Style::Good, "trusted").end();
    view.facts(&[("SHA-256", Style::Dim, shown(&data["sha256"]))]);
    let mut table = Table::new(&["EVENT", "COMMAND", "MATCHER"]);
    for hook in data["hooks"].as_array()? {
        table.row([
            (Style::Strong, word(hook, "event")),
            (Style::Plain, word(hook, "command")),
            (Style::Plain, word(hook, "matcher")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `hook test`: what each hook said, and the decision of all.
pub(super) fn tested(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let event = data["event"].as_str()?;
    let hooks = items(data)?;
    if hooks.is_empty() {
        view.page.plain("No hook matches ").word(Style::Strong, event).plain(".").end();
        return Some(());
    }
    for hook in hooks {
        let said = match hook["failed"] == true {
            true => "failed",
            false => word(hook, "says"),
        };
        view.page.word(style(said), said).plain("  ").rest(Style::Strong, word(hook, "command")).end();
        view.facts(&[
            ("reason", Style::Plain, shown(&hook["reason"])),
            ("from", Style::Dim, shown(&hook["file"])),
        ]);
        for (mark, key) in [("  | ", "stdout"), ("  ! ", "stderr")] {
            let text = word(hook, key);
            if !text.trim().is_empty() {
                view.page.prose(Style::Dim, mark, mark, text, MAX_LINES);
            }
        }
    }
    if let Some(decision) = data["decision"].as_str() {
        view.page.plain("decision  ").word(style(decision), decision).end();
    }
    Some(())
}

fn style(said: &str) -> Style {
    match said {
        "allow" => Style::Good,
        "deny" | "failed" => Style::Bad,
        "ask" => Style::Attention,
        _ => Style::Plain,
    }
}
