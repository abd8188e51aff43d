//! What an agent reports besides its text: tool calls with their diffs and commands, plans, thoughts.
//!
//! Read leniently: an agent may leave out or misspell anything.

use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::view::{shown, word};
use crate::output::page::TextPage;
use crate::output::style::{Style, state_word};

/// How much of a tool call is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The first lines of each diff and text.
    Short,
    /// All lines, without a limit.
    All,
}

impl Detail {
    const fn diff_lines(self) -> usize {
        match self {
            Self::Short => 80,
            Self::All => usize::MAX,
        }
    }

    const fn text_lines(self) -> usize {
        match self {
            Self::Short => 12,
            Self::All => usize::MAX,
        }
    }
}

/// A diff that takes longer is made coarser.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// Writes a `progress.update` on lines of its own.
pub(super) fn update(page: &mut TextPage, data: &Value) {
    match word(data, "kind") {
        "tool_call" | "tool_call_update" => {
            tool(page, data, word(data, "title"));
            details(page, data, Detail::Short);
        }
        "plan" => plan(page, data),
        "thought" => {
            page.flow(Style::Dim, word(data, "text")).fresh_line();
        }
        "usage" => {
            let said = format!("{} of {} tokens", shown(&data["used"]), shown(&data["size"]));
            page.word(Style::Dim, &said).end();
        }
        "session" => {
            page.word(Style::Dim, &format!("session {}", word(data, "session"))).end();
        }
        "fs" | "terminal" => asked_of_us(page, data),
        kind => {
            let more = ["head", "text", "title", "currentModeId"].iter().map(|key| word(data, key));
            let more = more.fold(String::new(), |all, one| format!("{all} {one}"));
            let kind = if kind.is_empty() { word(data, "method") } else { kind };
            page.sentence(Style::Dim, "", "  ", &format!("{}{more}", kind.replace('_', " "))).end();
        }
    }
}

/// What the agent asked of its client: which file, command or terminal, and how that went.
fn asked_of_us(page: &mut TextPage, data: &Value) {
    let about =
        ["path", "command", "terminalId"].iter().map(|key| word(data, key)).find(|word| !word.is_empty());
    let failed = word(&data["error"], "message");
    let status = if failed.is_empty() { word(data, "status") } else { failed };
    let exit = &data["exitStatus"];
    let exit = if exit.is_object() {
        format!(" {} {}", shown(&exit["exitCode"]), word(exit, "signal"))
    } else {
        String::new()
    };
    let said = format!("{} {}  {status}{exit}", word(data, "method"), about.unwrap_or_default());
    page.sentence(Style::Dim, "", "  ", said.trim_end()).end();
}

/// The line of a tool call: what it is, and how far.
pub(super) fn tool(page: &mut TextPage, data: &Value, title: &str) {
    let kind = word(data, "toolKind");
    page.word(Style::Active, "*").plain(" ");
    if !kind.is_empty() && kind != "other" {
        page.word(Style::Active, kind).plain(" ");
    }
    let title = if title.is_empty() { word(data, "toolCallId") } else { title };
    page.sentence(Style::Strong, "", "  ", title);
    let status = word(data, "status");
    if !status.is_empty() {
        page.tail(Style::of_state(status), "  ", &state_word(status));
    }
    page.end();
}

/// What a tool call runs, where, and what came of it.
pub(super) fn details(page: &mut TextPage, data: &Value, detail: Detail) {
    if let Some(command) = command(data) {
        page.hanging(Style::Plain, "  $ ", "    ", &command, detail.text_lines());
    }
    let contents = data["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    for content in contents {
        match word(content, "type") {
            "diff" => diff(page, content, detail),
            "content" => page_text(page, &content["content"], detail),
            _ => page_text(page, content, detail),
        }
    }
}

fn page_text(page: &mut TextPage, block: &Value, detail: Detail) {
    page.prose(Style::Dim, "  | ", "  | ", word(block, "text"), detail.text_lines());
}

/// The command of a tool call, as text or as a list of words.
fn command(data: &Value) -> Option<String> {
    let given = [&data["command"], &data["rawInput"]["command"]];
    let text = given.into_iter().find_map(|command| match command {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(shell_words::join(words.iter().filter_map(Value::as_str))),
        _ => None,
    });
    text.filter(|text| !text.trim().is_empty())
}

fn diff(page: &mut TextPage, content: &Value, detail: Detail) {
    let (old, new) = (word(content, "oldText"), word(content, "newText"));
    let what = if content["oldText"].is_null() { " (new)" } else { "" };
    page.plain("  ").word(Style::Strong, word(content, "path")).text(Style::Dim, what).end();
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let mut left = detail.diff_lines();
    let mut hidden = 0;
    for (number, hunk) in diff.unified_diff().context_radius(3).iter_hunks().enumerate() {
        if number > 0 && left > 0 {
            page.text(Style::Dim, "    ...\n");
        }
        for change in hunk.iter_changes() {
            if left == 0 {
                hidden += 1;
                continue;
            }
            left -= 1;
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ("-", Style::Bad),
                ChangeTag::Insert => ("+", Style::Good),
                ChangeTag::Equal => (" ", Style::Plain),
            };
            let line: &str = change.value();
            let line = line.trim_end_matches(['\n', '\r']);
            page.text(style, &format!("  {sign} {line}")).end();
        }
    }
    if hidden > 0 {
        page.text(Style::Dim, &format!("    ... {hidden} more lines\n"));
    }
}

/// The entries of a plan.
pub(super) fn plan(page: &mut TextPage, data: &Value) {
    page.word(Style::Dim, "plan").end();
    for entry in data["entries"].as_array().into_iter().flatten() {
        let status = word(entry, "status");
        let mark = match status {
            "completed" => "[x]",
            "in_progress" => "[>]",
            _ => "[ ]",
        };
        page.plain("  ").text(Style::of_state(status), mark).plain(" ");
        page.sentence(Style::Plain, "", "      ", word(entry, "content")).end();
    }
}
