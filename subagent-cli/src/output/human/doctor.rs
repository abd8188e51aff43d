//! The report of `doctor`: what is wrong first, each with what to do; what is well in one line for each group.

use serde_json::Value;

use super::view::{PageRenderer, parse_time, shown, word};
use crate::output::style::Style;

const GROUPS: [&str; 8] =
    ["processes", "database", "journals", "versions", "permissions", "disk", "config", "machine"];

pub(super) fn report(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let findings = data["findings"].as_array()?;
    let of = |status: &'static str| findings.iter().filter(move |finding| finding["status"] == status);
    wrong(view, findings);
    for group in GROUPS {
        let own = || of("ok").filter(|finding| finding["group"] == group);
        if own().next().is_some() {
            view.page.word(Style::Good, "ok").fill("ok", 9).word(Style::Plain, group);
            view.page.fill(group, 13);
            let looks: Vec<&str> =
                own().filter_map(|finding| word(finding, "id").split('.').nth(1)).collect();
            view.page.sentence(Style::Dim, "", &" ".repeat(22), &looks.join(", ")).end();
        }
    }
    let count = |status: &str| data["counts"][status].as_u64().unwrap_or(0);
    let (problems, warnings, fixed) = (count("problem"), count("warning"), count("fixed"));
    let style = if problems > 0 { Style::Bad } else { Style::Good };
    let summary =
        format!("{}, {}, {fixed} fixed", counted(problems, "problem"), counted(warnings, "warning"));
    let place = data["stateDir"].as_str().unwrap_or("outside of a workspace");
    view.page.word(style, &summary).tail(Style::Dim, "  ", place).end();
    Some(())
}

/// What is not well, the worst first, with what to do.
fn wrong(view: &mut PageRenderer, findings: &[Value]) {
    for (status, style) in [("problem", Style::Bad), ("warning", Style::Attention), ("fixed", Style::Good)] {
        for finding in findings.iter().filter(|finding| finding["status"] == status) {
            view.page.word(style, status).fill(status, 9).word(Style::Strong, word(finding, "id")).end();
            let indent = "         ";
            view.page.prose(Style::Plain, indent, indent, word(finding, "seen"), usize::MAX);
            if let Some(action) = finding["action"].as_str() {
                view.page.plain(indent).word(Style::Dim, "->");
                view.page.sentence(Style::Plain, " ", "            ", action).end();
            }
        }
    }
}

/// The daemon in a few lines, and what is wrong.
pub(super) fn status(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let findings = data["findings"].as_array()?;
    let running = data["running"] == true;
    let (style, said) = if running { (Style::Good, "running") } else { (Style::Dim, "not running") };
    view.page.plain("daemon  ").word(style, said);
    if running {
        let since = view.ago(parse_time(&data["startedAt"]));
        view.page.plain("  ").word(Style::Dim, &format!("started {since}"));
    }
    view.page.end();
    view.facts(&[
        ("live workers", Style::Plain, shown(&data["liveWorkers"])),
        ("version", Style::Plain, shown(&data["version"])),
        ("state", Style::Plain, shown(&data["stateDir"])),
    ]);
    wrong(view, findings);
    if findings.is_empty() {
        view.page.word(Style::Good, "Nothing is wrong.").end();
    }
    Some(())
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
