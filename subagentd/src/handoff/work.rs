//! Collects a worker's activity from its agent's updates: plan, tool calls and context usage.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use subagent_protocol::clean::one_line;
use subagent_protocol::event::StoredEvent;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::markdown::beginning;
use subagent_protocol::tool_content::{PlanReport, ToolCallReport, ToolContent};

/// Maximum number of tool calls kept; beyond it the oldest are dropped.
const MAX_CALLS: usize = 10_000;
/// Maximum number of files: per tool call, and in total.
const MAX_FILES_OF_CALL: usize = 64;
const MAX_FILES: usize = 2_000;
/// Maximum number of plan entries.
const MAX_ENTRIES: usize = 50;
/// Maximum size in bytes of a path, a command, and a plan entry.
const PATH_BYTES: usize = 1024;
const COMMAND_BYTES: usize = 1024;
const ENTRY_BYTES: usize = 300;

/// The collected activity of a worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerActivity {
    /// Entries of the last plan.
    pub plan: Vec<PlanEntry>,
    /// Files by path, with counts of uses.
    pub files: BTreeMap<String, FileUses>,
    /// Commands in the order of their start.
    pub commands: Vec<ExecutedCommand>,
    /// Context usage that the agent last reported.
    pub context: Option<Value>,
    /// Number of tool calls dropped at the limit.
    pub forgotten: usize,
}

/// An entry of the agent's plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanEntry {
    /// Text of the entry.
    pub content: String,
    /// Progress, in the agent's word.
    pub status: String,
}

/// Counts of tool calls that touched a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileUses {
    /// Successful calls that change the file.
    pub edits: usize,
    /// All other calls, including failed ones.
    pub others: usize,
}

/// A command that the agent ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutedCommand {
    /// Command line, or the title of the tool call.
    pub command: String,
    /// Last status of the tool call in the agent's word; empty if none was given.
    pub status: String,
}

/// A tool call merged from its updates.
#[derive(Debug, Default)]
struct MergedToolCall {
    title: String,
    kind: String,
    status: String,
    command: Option<String>,
    diffs: Vec<String>,
    locations: Vec<String>,
}

/// Merges the updates of a worker's agent into [`WorkerActivity`].
#[derive(Debug, Default)]
pub(crate) struct WorkCollector {
    calls: BTreeMap<u64, MergedToolCall>,
    numbers: HashMap<String, u64>,
    last: u64,
    forgotten: usize,
    plan: Vec<PlanEntry>,
    context: Option<Value>,
}

impl WorkCollector {
    /// Adds an update. Updates must be in order.
    pub(crate) fn see(&mut self, event: &StoredEvent) {
        let data = event.data();
        // Plan and context of a child session are not the worker's.
        let own = data.get("sessionId").is_none();
        match event.kind.as_deref() {
            Some("tool_call" | "tool_call_update") => {
                // An agent may restart its tool call ids in each turn.
                let turn = event.turn_id.as_ref().map_or("", |turn| turn.as_str());
                let report: ToolCallReport<'_> = lenient::read(&data);
                let id = beginning(report.tool_call_id.0.unwrap_or_default(), 256);
                self.call(format!("{turn} {id}")).update(&report);
            }
            Some("plan") if own => {
                let PlanReport { entries } = lenient::read(&data);
                let text = |text: Lenient<&str>| short(text.0.unwrap_or_default(), ENTRY_BYTES);
                self.plan = entries
                    .iter()
                    .take(MAX_ENTRIES)
                    .map(|entry| PlanEntry { content: text(entry.content), status: text(entry.status) })
                    .collect();
            }
            Some("usage") if own => {
                let counts = ["used", "size", "cost"].into_iter();
                let counts = counts.filter_map(|name| Some((name.to_owned(), data.get(name)?.clone())));
                self.context = Some(counts.collect::<serde_json::Map<_, _>>().into());
            }
            _ => {}
        }
    }

    fn call(&mut self, id: String) -> &mut MergedToolCall {
        let number = *self.numbers.entry(id).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        if self.calls.len() >= MAX_CALLS && !self.calls.contains_key(&number) {
            self.calls.pop_first();
            self.forgotten += 1;
        }
        self.calls.entry(number).or_default()
    }

    /// Returns the merged activity.
    #[must_use]
    pub(crate) fn finish(self) -> WorkerActivity {
        let mut work = WorkerActivity {
            plan: self.plan,
            context: self.context,
            forgotten: self.forgotten,
            ..WorkerActivity::default()
        };
        for call in self.calls.into_values() {
            let edits = matches!(&*call.kind, "edit" | "delete" | "move") || !call.diffs.is_empty();
            let failed = call.status == "failed";
            if call.kind == "execute" || call.command.is_some() {
                let command = call.command.unwrap_or(call.title);
                work.commands.push(ExecutedCommand { command, status: call.status });
            }
            let mut paths: Vec<String> = call.diffs;
            paths.extend(call.locations);
            paths.sort_unstable();
            paths.dedup();
            for path in paths {
                if work.files.len() >= MAX_FILES && !work.files.contains_key(&path) {
                    continue;
                }
                let touched = work.files.entry(path).or_default();
                // A failed call is assumed to have changed nothing.
                if edits && !failed { touched.edits += 1 } else { touched.others += 1 }
            }
        }
        work
    }
}

impl MergedToolCall {
    fn update(&mut self, report: &ToolCallReport<'_>) {
        let take = |field: &mut String, text: Lenient<&str>| {
            if let Some(text) = text.0 {
                *field = short(text, COMMAND_BYTES);
            }
        };
        take(&mut self.title, report.title);
        take(&mut self.kind, report.tool_kind);
        take(&mut self.status, report.status);
        if let Some(command) = report.command.0 {
            self.command = Some(short(command, COMMAND_BYTES));
        }
        let diffs = report.content.iter().filter(|part| part.kind.0 == Some("diff"));
        add(&mut self.diffs, diffs);
        add(&mut self.locations, report.locations.iter());
    }
}

/// Adds the paths that are not known yet, within the limits.
fn add<'a>(known: &mut Vec<String>, places: impl Iterator<Item = &'a ToolContent<'a>>) {
    for path in places.filter_map(|place| place.path.0).take(MAX_FILES_OF_CALL) {
        let path = short(path, PATH_BYTES);
        if known.len() < MAX_FILES_OF_CALL && !known.contains(&path) {
            known.push(path);
        }
    }
}

fn short(text: &str, max_bytes: usize) -> String {
    one_line(&beginning(text, max_bytes))
}
