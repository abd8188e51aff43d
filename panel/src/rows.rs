//! The workers of one place as a page shows them. Pure.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use subagent_model::{Group, OverviewRow, Workers};
use subagent_protocol::api::ApprovalShown;
use subagent_protocol::clean::{clean, one_line};

use crate::story;

/// Returns a row as JSON for the page.
fn shown(row: &OverviewRow) -> Value {
    let item = &row.snapshot;
    let group = match row.group() {
        Group::Needs => "needs",
        Group::Working => "working",
        Group::Done => "done",
    };
    json!({
        "id": item.worker_id, "name": one_line(&item.name), "label": one_line(&item.label), "launcher": item.launcher,
        "role": one_line(&item.role), "cwd": one_line(&item.cwd), "tags": item.tags, "state": row.state, "group": group,
        "since": row.since, "lastEventAt": row.last_event_at, "turn": row.active_turn_id,
        "doing": row.doing().map(|doing| json!({
            "tool": doing.tool.as_deref().map(one_line), "step": doing.step.as_deref().map(one_line),
            "done": doing.steps_completed, "of": doing.steps,
            "editing": doing.editing.iter().map(|path| one_line(path)).collect::<Vec<_>>(),
        })),
        "needs": row.needs.len(), "waiting": row.waiting, "paused": row.is_paused,
        "parkedUntil": row.parked_until,
        "error": row.last_error.as_deref().map(one_line), "usage": item.usage, "budget": item.budget,
        "task": item.task, "worktree": item.worktree.as_ref().map(|worktree| json!({
            "name": one_line(&worktree.name), "branch": one_line(&worktree.branch), "state": worktree.state,
            "source": worktree.source_branch.as_deref().map(one_line),
        })),
    })
}

/// The rows as they were last sent to a page.
#[derive(Default)]
pub(crate) struct SentRows {
    rows: HashMap<String, Value>,
}

impl SentRows {
    /// The rows that are new or other than the page knows them, and the ids of those that are gone.
    pub(crate) fn changes(&mut self, workers: &Workers) -> (Vec<Value>, Vec<String>) {
        let mut changed = Vec::new();
        let mut known = HashMap::with_capacity(self.rows.len());
        for row in workers.rows() {
            let (id, now) = (row.worker_id().to_string(), shown(row));
            if self.rows.remove(&id).as_ref() != Some(&now) {
                changed.push(now.clone());
            }
            known.insert(id, now);
        }
        let gone = std::mem::replace(&mut self.rows, known).into_keys().collect();
        (changed, gone)
    }

    /// The same for some workers alone.
    pub(crate) fn changes_of<'a>(&mut self, rows: impl Iterator<Item = &'a OverviewRow>) -> Vec<Value> {
        let mut changed = Vec::new();
        for row in rows {
            let now = shown(row);
            if self.rows.insert(row.worker_id().to_string(), now.clone()).as_ref() != Some(&now) {
                changed.push(now);
            }
        }
        changed
    }
}

/// The open questions, by their ids.
pub(crate) type OpenQuestions = BTreeMap<String, Value>;

/// A question as it is answered in place.
pub(crate) fn question(asked: &ApprovalShown) -> Value {
    let item = &asked.item;
    let rule = item.rule.as_ref().and_then(|rule| rule["rule"].as_str());
    json!({
        "id": item.request_id, "worker": item.worker_id, "name": one_line(&item.name), "label": one_line(&item.label),
        "path": item.path.iter().map(|name| one_line(name)).collect::<Vec<_>>(), "kind": item.kind,
        "toolKind": item.tool_kind, "subject": clean(&item.subject), "message": clean(&asked.message),
        "since": item.created_at, "deadline": item.deadline_at, "onTimeout": item.on_timeout,
        "rule": rule.map(one_line), "always": asked.always_rule.as_deref().map(one_line), "cwd": one_line(&asked.cwd),
        "options": asked.options.iter().map(|option| json!({
            "id": option.id, "label": one_line(&option.label), "kind": option.kind,
        })).collect::<Vec<_>>(),
        "call": story::tool(&asked.request), "mode": asked.request.get("mode"),
        // Its keys and words are what an answer must name: the page shows them, and sends them back as they are.
        "schema": asked.request.get("schema"), "url": asked.request.get("url"),
    })
}
