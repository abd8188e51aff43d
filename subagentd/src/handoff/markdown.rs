//! Renders `handoff.md`, which a person or agent reads to continue the work.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::WorkspaceStatus;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::markdown::{beginning, block, span};
use subagent_protocol::state::TurnStatus;

use super::{HandoffFacts, SnapshotTurn, TEXT_BYTES};

/// Maximum size in bytes of instructions: first and latest, others, and the goal.
const TASK_BYTES: usize = 12 * 1024;
const INSTRUCTION_BYTES: usize = 1024;
const GOAL_BYTES: usize = 1024;
/// Maximum size in bytes of another agent's summary.
const SUMMARY_BYTES: usize = 8 * 1024;
/// Maximum size in bytes of code spans: paths and ids, commands, notes.
const PATH_BYTES: usize = 200;
const COMMAND_BYTES: usize = 300;
const NOTE_BYTES: usize = 500;
/// Maximum number of lines in each list.
const MAX_FILES: usize = 100;
const MAX_COMMANDS: usize = 60;
const MAX_CHANGES: usize = 100;
const MAX_PENDING: usize = 30;

/// Renders the document. It is at most 256 KiB long.
#[must_use]
pub(crate) fn render(facts: &HandoffFacts) -> String {
    let mut out = MarkdownDocument(String::with_capacity(16 * 1024));
    out.line("# Handoff");
    task(facts, &mut out);
    goal(facts, &mut out);
    summary(facts, &mut out);
    status(facts, &mut out);
    completed(facts, &mut out);
    pending(facts, &mut out);
    files(facts, &mut out);
    commands(facts, &mut out);
    risks(facts, &mut out);
    out.section("Recommended Next Step");
    out.line("Start a worker that goes on from here:");
    out.line("");
    out.line(&format!("    subagent worker continue --from-worker {}", facts.source.worker_id));
    out.section("Artifacts");
    out.line(&format!("- {}", span(&facts.paths.handoff, 4096)));
    out.line(&format!("- {}", span(&facts.paths.checkpoint, 4096)));
    out.0
}

struct MarkdownDocument(String);

impl MarkdownDocument {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn section(&mut self, title: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "\n## {title}\n\n");
    }

    /// Adds a quote and the blank line that ends it.
    fn quote(&mut self, text: &str, max_bytes: usize) {
        self.0.push_str(&block(text, max_bytes));
        self.0.push('\n');
    }

    /// Adds a line with the number of omitted list entries.
    fn left_out(&mut self, what: &str, all: usize, shown: usize) {
        if all > shown {
            self.line(&format!("- ... and {} more {what}", all - shown));
        }
    }
}

fn task(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Task");
    let (Some(first), Some(latest)) = (facts.turns.first(), facts.turns.last()) else {
        out.line("Nothing was asked of this worker yet.");
        return;
    };
    out.line(&format!("The first instruction ({}):", first.id));
    out.line("");
    out.quote(&first.instruction, TASK_BYTES);
    if facts.turns_in_all < 2 {
        return;
    }
    out.line(&format!("The latest instruction ({}):", latest.id));
    out.line("");
    out.quote(&latest.instruction, TASK_BYTES);
    if facts.turns_in_all < 3 {
        return;
    }
    out.line(&format!("{} instructions, shortened:", facts.turns_in_all));
    out.line("");
    let elided = facts.turns_in_all.saturating_sub(facts.turns.len() as u64);
    for (index, turn) in facts.turns.iter().enumerate() {
        if elided > 0 && index == super::FIRST_TURNS as usize {
            out.line(&format!("- ... {elided} instructions in between are left out"));
        }
        out.line(&format!("- {}: {}", turn.id, span(&turn.instruction, INSTRUCTION_BYTES)));
    }
}

/// Renders the first paragraph of the first instruction.
fn goal(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Goal");
    match facts.turns.first() {
        Some(first) => {
            let text = first.instruction.trim_start();
            let paragraph = text.split("\n\n").next().unwrap_or_default();
            out.0.push_str(&block(paragraph, GOAL_BYTES));
        }
        None => out.line("None was given yet."),
    }
}

/// Renders another agent's summary, marked as unverified.
fn summary(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    let Some(summary) = &facts.summary else { return };
    out.section("Summary");
    out.line("Another agent wrote this from what is below; where they differ, what is below counts:");
    out.line("");
    out.0.push_str(&block(summary, SUMMARY_BYTES));
}

fn status(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    let source = &facts.source;
    out.section("Current Status");
    out.line(&format!(
        "- worker {} ({}), state `{}`",
        source.worker_id,
        span(&source.label, PATH_BYTES),
        source.state
    ));
    out.line(&format!(
        "- launcher {}, role {}, folder {}",
        span(&source.launcher, PATH_BYTES),
        span(&source.role, PATH_BYTES),
        span(&source.cwd, 4096)
    ));
    out.line(&match facts.source_turn() {
        Some(turn) => format!("- the last turn, {}, {}", turn.id, outcome(turn)),
        None => "- no turn yet".to_owned(),
    });
    if let Some(error) = &source.last_error {
        out.line(&format!("- last error: {}", span(error, NOTE_BYTES)));
    }
    if let Some(context) = &facts.work.context {
        out.line(&format!("- context: {}", span(&counts(context), NOTE_BYTES)));
    }
    out.line(&format!("- this page covers events up to {}, at {}", facts.up_to, facts.created_at));
    if !facts.work.plan.is_empty() {
        out.line("");
        out.line("Its last plan:");
        out.line("");
        for entry in &facts.work.plan {
            let (content, status) = (span(&entry.content, NOTE_BYTES), span(&entry.status, 40));
            out.line(&format!("- {content}: {status}"));
        }
    }
    for text in &facts.texts {
        out.line("");
        let cut = if text.cut { " (the end of it)" } else { "" };
        out.line(&format!("What it said in {}{cut}:", text.turn));
        out.line("");
        out.0.push_str(&block(&text.text, TEXT_BYTES));
    }
}

fn outcome(turn: &SnapshotTurn) -> String {
    let note = turn.note.as_ref().map(|note| format!(": {}", span(note, NOTE_BYTES))).unwrap_or_default();
    match turn.status {
        TurnStatus::Accepted => format!("is open{note}"),
        status => format!("is {status}{note}"),
    }
}

fn completed(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Completed");
    let ended = || facts.turns.iter().filter(|turn| turn.status != TurnStatus::Accepted);
    if ended().next().is_none() {
        out.line("- nothing yet");
    }
    for turn in ended() {
        let usage = turn.usage.as_ref().map(|usage| format!(" ({})", span(&counts(usage), NOTE_BYTES)));
        out.line(&format!("- {} {}{}", turn.id, outcome(turn), usage.unwrap_or_default()));
    }
    if facts.turns_in_all > facts.turns.len() as u64 {
        out.line(&format!("- ... and {} turns in between", facts.turns_in_all - facts.turns.len() as u64));
    }
}

/// Renders named numbers, such as `inputTokens 100, outputTokens 20`.
fn counts(counts: &Value) -> String {
    let one = |(name, value): (&String, &Value)| match value {
        Value::Object(_) => {
            let ShownCost { amount, currency } = lenient::read(value);
            format!("{name} {amount} {}", currency.0.unwrap_or_default())
        }
        other => format!("{name} {other}"),
    };
    counts.as_object().into_iter().flatten().map(one).collect::<Vec<_>>().join(", ")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShownCost<'a> {
    amount: Value,
    #[serde(borrow)]
    currency: Lenient<&'a str>,
}

fn pending(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Pending");
    for request in facts.pending.iter().take(MAX_PENDING) {
        out.line(&format!(
            "- permission request {}: {}",
            request.request_id,
            span(&request.message, NOTE_BYTES)
        ));
    }
    out.left_out("permission requests", facts.pending.len(), MAX_PENDING);
    let open = facts.turns.iter().filter(|turn| turn.status == TurnStatus::Accepted);
    for turn in open.clone() {
        out.line(&format!("- {} is open: the worker still works on it", turn.id));
    }
    for queued in facts.queued.iter().take(MAX_PENDING) {
        let text = span(&queued.text, NOTE_BYTES);
        out.line(&format!("- {} waits in the queue and was not begun: {text}", queued.turn_id));
    }
    out.left_out("queued messages", facts.queued.len(), MAX_PENDING);
    if facts.pending.is_empty() && facts.queued.is_empty() && open.count() == 0 {
        out.line("- nothing");
    }
}

fn files(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Files of Interest");
    let mut files: Vec<_> = facts.work.files.iter().collect();
    files.sort_by_key(|(path, touched)| (std::cmp::Reverse(touched.edits), *path));
    for (path, touched) in files.iter().take(MAX_FILES) {
        let (path, edits, others) = (span(path, PATH_BYTES), touched.edits, touched.others);
        out.line(&match (edits, others) {
            (0, others) => format!("- {path}: looked at or run {others}x"),
            (edits, 0) => format!("- {path}: changed {edits}x"),
            (edits, others) => format!("- {path}: changed {edits}x, else touched {others}x"),
        });
    }
    out.left_out("files", files.len(), MAX_FILES);
    if files.is_empty() {
        out.line("- the agent named no files");
    }
    out.line("");
    match &facts.workspace {
        None => out.line("The folder's git status was not asked for."),
        Some(WorkspaceStatus::Unknown { unknown }) => {
            out.line(&format!("The folder's git status is not known: {}.", span(unknown, PATH_BYTES)));
        }
        Some(WorkspaceStatus::Known { head, changes, truncated }) => {
            let head = head.as_ref().map_or("no commit yet".to_owned(), |head| span(head, 80));
            out.line(&format!("The folder's git status (at {head}):"));
            out.line("");
            for change in changes.iter().take(MAX_CHANGES) {
                out.line(&format!("- {} {}", span(&change.status, 8), span(&change.path, PATH_BYTES)));
            }
            out.left_out("changes", changes.len(), MAX_CHANGES);
            if *truncated {
                out.line("- ... and more than were read");
            }
            if changes.is_empty() {
                out.line("- no changes");
            }
        }
    }
}

fn commands(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Commands Run");
    let commands = &facts.work.commands;
    let skipped = commands.len().saturating_sub(MAX_COMMANDS);
    if skipped > 0 {
        out.line(&format!("- ... {skipped} earlier ones are left out"));
    }
    for command in &commands[skipped..] {
        let status = if command.status.is_empty() { "status unknown" } else { &command.status };
        out.line(&format!(
            "- {}: {}",
            span(&command.command, COMMAND_BYTES),
            beginning(&span(status, 40), 80)
        ));
    }
    if commands.is_empty() {
        out.line("- the agent named no commands");
    }
}

fn risks(facts: &HandoffFacts, out: &mut MarkdownDocument) {
    out.section("Risks / Notes");
    let before = out.0.len();
    for request in facts.pending.iter().take(MAX_PENDING) {
        out.line(&format!("- permission request {} waits for an answer", request.request_id));
    }
    for turn in facts.turns.iter().filter(|turn| turn.status == TurnStatus::Failed) {
        out.line(&format!("- {} failed; look at what it has done before repeating it", turn.id));
    }
    let risks = &facts.risks;
    let mut times = |count: usize, what: &str| {
        if count > 0 {
            out.line(&format!("- {what} ({count}x)"));
        }
    };
    times(
        risks.contexts_lost,
        "the agent's session could not be restored: it had forgotten what came before",
    );
    times(risks.runtimes_lost, "the worker's runtime died: work may have been cut off");
    times(risks.gaps, "records of the journal are missing: more may have happened than this page lists");
    times(facts.work.forgotten, "older tool calls are not listed");
    if risks.not_all_seen {
        out.line("- plan, files and commands are those of the newest events alone");
    }
    if out.0.len() == before {
        out.line("- none known");
    }
}
