//! The report of `doctor`: what is wrong first, each with what to do; what is well in one line for each group.

use serde::Deserialize;
use subagent_protocol::time::Timestamp;

use crate::output::human::view::{PageRenderer, optional};
use crate::output::style::Style;

const GROUPS: [&str; 8] =
    ["processes", "database", "journals", "versions", "permissions", "disk", "config", "machine"];

/// The data of `doctor.report`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct DoctorReport {
    findings: Vec<ListedFinding>,
    counts: FindingCounts,
    state_dir: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ListedFinding {
    id: String,
    group: String,
    status: String,
    seen: String,
    action: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FindingCounts {
    problem: u64,
    warning: u64,
    fixed: u64,
}

pub(in crate::output::human) fn report(view: &mut PageRenderer, report: &DoctorReport) {
    let findings = &report.findings;
    wrong(view, findings);
    for group in GROUPS {
        let own = || findings.iter().filter(|finding| finding.status == "ok" && finding.group == group);
        if own().next().is_some() {
            view.page.word(Style::Good, "ok").fill("ok", 9).word(Style::Plain, group);
            view.page.fill(group, 13);
            let looks: Vec<&str> = own().filter_map(|finding| finding.id.split('.').nth(1)).collect();
            view.page.sentence(Style::Dim, "", &" ".repeat(22), &looks.join(", ")).end();
        }
    }
    let FindingCounts { problem, warning, fixed } = report.counts;
    let style = if problem > 0 { Style::Bad } else { Style::Good };
    let summary = format!("{}, {}, {fixed} fixed", counted(problem, "problem"), counted(warning, "warning"));
    let place = report.state_dir.as_deref().unwrap_or("outside of a workspace");
    view.page.word(style, &summary).tail(Style::Dim, "  ", place).end();
}

/// What is not well, the worst first, with what to do.
fn wrong(view: &mut PageRenderer, findings: &[ListedFinding]) {
    for (status, style) in [("problem", Style::Bad), ("warning", Style::Attention), ("fixed", Style::Good)] {
        for finding in findings.iter().filter(|finding| finding.status == status) {
            view.page.word(style, status).fill(status, 9).word(Style::Strong, &finding.id).end();
            let indent = "         ";
            view.page.prose(Style::Plain, indent, indent, &finding.seen, usize::MAX);
            if let Some(action) = &finding.action {
                view.page.plain(indent).word(Style::Dim, "->");
                view.page.sentence(Style::Plain, " ", "            ", action).end();
            }
        }
    }
}

/// The daemon, and what is wrong.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct DaemonSummary {
    findings: Vec<ListedFinding>,
    #[serde(default)]
    running: bool,
    started_at: Option<Timestamp>,
    live_workers: Option<u64>,
    version: Option<String>,
    state_dir: Option<String>,
}

/// The daemon in a few lines, and what is wrong.
pub(in crate::output::human) fn status(view: &mut PageRenderer, status: &DaemonSummary) {
    let said = if status.running { (Style::Good, "running") } else { (Style::Dim, "not running") };
    view.page.plain("daemon  ").word(said.0, said.1);
    if status.running {
        let since = view.ago(status.started_at);
        view.page.plain("  ").word(Style::Dim, &format!("started {since}"));
    }
    view.page.end();
    view.facts(&[
        ("live workers", Style::Plain, optional(status.live_workers)),
        ("version", Style::Plain, optional(status.version.as_ref())),
        ("state", Style::Plain, optional(status.state_dir.as_ref())),
    ]);
    wrong(view, &status.findings);
    if status.findings.is_empty() {
        view.page.word(Style::Good, "Nothing is wrong.").end();
    }
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
