//! What a worker did, gathered from the updates of its agent: its plan, its tool calls, its use of the context.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use subagent_protocol::clean::one_line;
use subagent_protocol::event::StoredEvent;
use subagent_protocol::markdown::beginning;

/// Tool calls that are kept while gathering; of more the oldest are forgotten.
const MOST_CALLS: usize = 10_000;
/// Files that are kept of one tool call, and in all.
const MOST_FILES_OF_CALL: usize = 64;
const MOST_FILES: usize = 2_000;
/// Entries of a plan.
const MOST_ENTRIES: usize = 50;
/// Bytes of a path, a command, an entry of a plan.
const PATH_BYTES: usize = 1024;
const COMMAND_BYTES: usize = 1024;
const ENTRY_BYTES: usize = 300;

/// What a worker did.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// The last plan.
    pub plan: Vec<Entry>,
    /// Files by path, with how often they were touched.
    pub files: BTreeMap<String, Touched>,
    /// Commands, in the order in which they were begun.
    pub commands: Vec<Command>,
    /// What the agent last said of its context.
    pub context: Option<Value>,
    /// Tool calls that were too many to be told.
    pub forgotten: usize,
}

/// An entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is to be done.
    pub content: String,
    /// How far it is, in the agent's word.
    pub status: String,
}

/// How often tool calls touched a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// To change it.
    pub edits: usize,
    /// For anything else.
    pub others: usize,
}

/// A command that the agent ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command line, or the tool call's title.
    pub command: String,
    /// The tool call's last status, in the agent's word; empty if it gave none.
    pub status: String,
}

/// A tool call, put together from its updates.
#[derive(Debug, Default)]
struct Call {
    title: String,
    kind: String,
    status: String,
    command: Option<String>,
    diffs: Vec<String>,
    locations: Vec<String>,
}

/// Puts updates together.
#[derive(Debug, Default)]
pub struct Gathering {
    calls: BTreeMap<u64, Call>,
    numbers: HashMap<String, u64>,
    last: u64,
    forgotten: usize,
    plan: Vec<Entry>,
    context: Option<Value>,
}

impl Gathering {
    /// Takes an update; they come in order.
    pub fn see(&mut self, event: &StoredEvent) {
        let data = event.data();
        // Another session's plan and context are not the worker's.
        let own = data.get("sessionId").is_none();
        match event.kind.as_deref() {
            Some("tool_call" | "tool_call_update") => {
                // An agent may count its tool calls anew in each turn.
                let turn = event.turn_id.as_ref().map_or("", |turn| turn.as_str());
                let id = beginning(data["toolCallId"].as_str().unwrap_or_default(), 256);
                self.call(format!("{turn} {id}")).update(&data);
            }
            Some("plan") if own => {
                let entries = data["entries"].as_array().into_iter().flatten();
                let text = |value: &Value| short(value.as_str().unwrap_or_default(), ENTRY_BYTES);
                self.plan = entries
                    .take(MOST_ENTRIES)
                    .map(|entry| Entry { content: text(&entry["content"]), status: text(&entry["status"]) })
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

    fn call(&mut self, id: String) -> &mut Call {
        let number = *self.numbers.entry(id).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        if self.calls.len() >= MOST_CALLS && !self.calls.contains_key(&number) {
            self.calls.pop_first();
            self.forgotten += 1;
        }
        self.calls.entry(number).or_default()
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> Work {
        let mut work =
            Work { plan: self.plan, context: self.context, forgotten: self.forgotten, ..Work::default() };
        for call in self.calls.into_values() {
            let edits = matches!(&*call.kind, "edit" | "delete" | "move") || !call.diffs.is_empty();
            let failed = call.status == "failed";
            if call.kind == "execute" || call.command.is_some() {
                let command = call.command.unwrap_or(call.title);
                work.commands.push(Command { command, status: call.status });
            }
            let mut paths: Vec<String> = call.diffs;
            paths.extend(call.locations);
            paths.sort_unstable();
            paths.dedup();
            for path in paths {
                if work.files.len() >= MOST_FILES && !work.files.contains_key(&path) {
                    continue;
                }
                let touched = work.files.entry(path).or_default();
                // What failed changed nothing, as far as its agent knows.
                if edits && !failed { touched.edits += 1 } else { touched.others += 1 }
            }
        }
        work
    }
}

impl Call {
    fn update(&mut self, data: &Value) {
        let take = |field: &mut String, name: &str| {
            if let Some(text) = data[name].as_str() {
                *field = short(text, COMMAND_BYTES);
            }
        };
        take(&mut self.title, "title");
        take(&mut self.kind, "toolKind");
        take(&mut self.status, "status");
        if let Some(command) = data["command"].as_str() {
            self.command = Some(short(command, COMMAND_BYTES));
        }
        let paths = |name: &str| -> Vec<String> {
            let items = data[name].as_array().into_iter().flatten();
            let of_diff = |item: &&Value| name != "content" || item["type"] == "diff";
            let paths = items.filter(of_diff).filter_map(|item| item["path"].as_str());
            paths.take(MOST_FILES_OF_CALL).map(|path| short(path, PATH_BYTES)).collect()
        };
        for (known, more) in [(&mut self.diffs, paths("content")), (&mut self.locations, paths("locations"))]
        {
            for path in more {
                if known.len() < MOST_FILES_OF_CALL && !known.contains(&path) {
                    known.push(path);
                }
            }
        }
    }
}

fn short(text: &str, most_bytes: usize) -> String {
    one_line(&beginning(text, most_bytes))
}
