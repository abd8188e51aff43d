//! What an agent reports besides its text: tool calls with their diffs and commands, plans, thoughts.
//!
//! Read leniently: an agent may leave out or misspell anything.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use subagent_protocol::event::SeenEvent;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::tool_content::{PlanReport, ToolContent};

use crate::failure::ErrorText;
use crate::output::human::view::shown;
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

/// A report of an agent besides its text, as far as every kind of report is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::output::human) struct AgentUpdate<'a> {
    pub(in crate::output::human) kind: Lenient<&'a str>,
    #[serde(borrow)]
    pub(in crate::output::human) text: Lenient<&'a str>,
    method: Lenient<&'a str>,
    used: Value,
    size: Value,
    session: Lenient<&'a str>,
    head: Lenient<&'a str>,
    title: Lenient<&'a str>,
    current_mode_id: Lenient<&'a str>,
}

/// Writes a `progress.update` on lines of its own.
pub(in crate::output::human) fn update(page: &mut TextPage, event: &Value) {
    let said = SeenEvent::<AgentUpdate<'_>>::of(event).data;
    let word = |word: Lenient<&'_ str>| word.0.unwrap_or_default().to_owned();
    match said.kind.0.unwrap_or_default() {
        "tool_call" | "tool_call_update" => {
            let call: ToolReport<'_> = SeenEvent::of(event).data;
            tool(page, &call, call.tool_kind.0, call.title());
            details(page, &call, Detail::Short);
        }
        "plan" => plan(page, &SeenEvent::<PlanReport<'_>>::of(event).data),
        "thought" => {
            page.flow(Style::Dim, &word(said.text)).fresh_line();
        }
        "usage" => {
            let said = format!("{} of {} tokens", shown(&said.used), shown(&said.size));
            page.word(Style::Dim, &said).end();
        }
        "session" => {
            page.word(Style::Dim, &format!("session {}", word(said.session))).end();
        }
        "fs" | "terminal" => asked_of_us(page, &SeenEvent::of(event).data),
        kind => {
            let more = [said.head, said.text, said.title, said.current_mode_id].map(word);
            let kind = if kind.is_empty() { word(said.method) } else { kind.to_owned() };
            let said = format!("{} {}", kind.replace('_', " "), more.join(" "));
            page.sentence(Style::Dim, "", "  ", &said).end();
        }
    }
}

/// A request of an agent to its client, and how it ended.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestToClient<'a> {
    method: Lenient<&'a str>,
    #[serde(borrow)]
    path: Lenient<&'a str>,
    command: Lenient<&'a str>,
    terminal_id: Lenient<&'a str>,
    status: Lenient<&'a str>,
    error: Lenient<ErrorText<'a>>,
    exit_status: Lenient<CommandExit<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CommandExit<'a> {
    exit_code: Value,
    #[serde(borrow)]
    signal: Lenient<&'a str>,
}

/// What the agent asked of its client: which file, command or terminal, and how that went.
fn asked_of_us(page: &mut TextPage, asked: &RequestToClient<'_>) {
    let about = [asked.path, asked.command, asked.terminal_id];
    let about = about.into_iter().filter_map(|word| word.0).find(|word| !word.is_empty());
    let failed = asked.error.0.map(|error| error.message).filter(|message| !message.is_empty());
    let status = failed.or(asked.status.0).unwrap_or_default();
    let exit = asked.exit_status.0.as_ref().map(|CommandExit { exit_code, signal }| {
        format!(" {} {}", shown(exit_code), signal.0.unwrap_or_default())
    });
    let (method, exit) = (asked.method.0.unwrap_or_default(), exit.unwrap_or_default());
    let said = format!("{method} {}  {status}{exit}", about.unwrap_or_default());
    page.sentence(Style::Dim, "", "  ", said.trim_end()).end();
}

/// A tool call, as far as an agent reports it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::output::human) struct ToolReport<'a> {
    tool_call_id: Lenient<&'a str>,
    #[serde(borrow)]
    title: Lenient<&'a str>,
    pub(super) tool_kind: Lenient<&'a str>,
    status: Lenient<&'a str>,
    command: Value,
    raw_input: Lenient<ToolInput>,
    #[serde(deserialize_with = "lenient::or_default")]
    content: Vec<Lenient<ToolContent<'a>>>,
    terminal_output: Lenient<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolInput {
    command: Value,
}

impl<'a> ToolReport<'a> {
    pub(in crate::output::human) fn title(&self) -> &'a str {
        self.title.0.unwrap_or_default()
    }

    pub(in crate::output::human) fn id(&self) -> &'a str {
        self.tool_call_id.0.unwrap_or_default()
    }

    pub(in crate::output::human) fn status(&self) -> Option<&'a str> {
        self.status.0
    }

    /// Returns what the command of the call has printed.
    pub(in crate::output::human) fn output(&self) -> &'a str {
        self.terminal_output.0.unwrap_or_default()
    }
}

/// The line of a tool call: what it is, and how far.
pub(in crate::output::human) fn tool(
    page: &mut TextPage,
    call: &ToolReport<'_>,
    kind: Option<&str>,
    title: &str,
) {
    let kind = kind.unwrap_or_default();
    page.word(Style::Active, "*").plain(" ");
    if !kind.is_empty() && kind != "other" {
        page.word(Style::Active, kind).plain(" ");
    }
    let title = if title.is_empty() { call.id() } else { title };
    page.sentence(Style::Strong, "", "  ", title);
    let status = call.status().unwrap_or_default();
    if !status.is_empty() {
        page.tail(Style::of_state(status), "  ", &state_word(status));
    }
    page.end();
}

/// What a tool call runs, where, and what came of it.
pub(in crate::output::human) fn details(page: &mut TextPage, call: &ToolReport<'_>, detail: Detail) {
    if let Some(command) = command(call) {
        page.hanging(Style::Plain, "  $ ", "    ", &command, detail.text_lines());
    }
    for content in call.content.iter().filter_map(|content| content.0.as_ref()) {
        let text = match content.kind.0 {
            Some("diff") => {
                diff(page, content, detail);
                continue;
            }
            Some("content") => content.content.text.0,
            _ => content.text.0,
        };
        page.prose(Style::Dim, "  | ", "  | ", text.unwrap_or_default(), detail.text_lines());
    }
}

/// The command of a tool call, as text or as a list of words.
fn command(call: &ToolReport<'_>) -> Option<String> {
    let given = [Some(&call.command), call.raw_input.0.as_ref().map(|input| &input.command)];
    let text = given.into_iter().flatten().find_map(|command| match command {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(shell_words::join(words.iter().filter_map(Value::as_str))),
        _ => None,
    });
    text.filter(|text| !text.trim().is_empty())
}

fn diff(page: &mut TextPage, content: &ToolContent<'_>, detail: Detail) {
    let (old, new) = (content.old_text.0.unwrap_or_default(), content.new_text.0.unwrap_or_default());
    let what = if content.old_text.0.is_none() { " (new)" } else { "" };
    let path = content.path.0.unwrap_or_default();
    page.plain("  ").word(Style::Strong, path).text(Style::Dim, what).end();
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
pub(in crate::output::human) fn plan(page: &mut TextPage, plan: &PlanReport<'_>) {
    page.word(Style::Dim, "plan").end();
    for entry in &plan.entries {
        let status = entry.status.0.unwrap_or_default();
        let mark = match status {
            "completed" => "[x]",
            "in_progress" => "[>]",
            _ => "[ ]",
        };
        page.plain("  ").text(Style::of_state(status), mark).plain(" ");
        page.sentence(Style::Plain, "", "      ", entry.content.0.unwrap_or_default()).end();
    }
}
