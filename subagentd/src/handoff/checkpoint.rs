//! Renders `checkpoint.json`, the machine-readable form for `worker continue`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use subagent_protocol::api::WorkspaceStatus;
use subagent_protocol::markdown::beginning;

use super::HandoffFacts;

/// Maximum size in bytes of an instruction and of the last message.
const INSTRUCTION_BYTES: usize = 4096;
/// Maximum number of files and of commands.
const MAX_FILES: usize = 2_000;
const MAX_COMMANDS: usize = 200;

/// Renders the document; its size is bounded.
#[must_use]
pub(crate) fn render(facts: &HandoffFacts) -> Value {
    let source = &facts.source;
    let commands = &facts.work.commands;
    let last = |count: usize| commands.len().saturating_sub(count);
    json!({
        "schemaVersion": "v1",
        "workerId": source.worker_id,
        "controllerId": source.controller_id,
        "launcher": source.launcher,
        "role": source.role,
        "cwd": source.cwd,
        "state": "handoff_ready",
        "sourceTurnId": facts.source_turn().map(|turn| &turn.id),
        "handoffPath": facts.paths.handoff,
        "artifacts": [facts.paths.handoff],
        "filesChanged": files_changed(facts),
        "snapshotId": facts.snapshot_id,
        "createdAt": facts.created_at,
        "upToEventId": facts.up_to,
        "workerState": source.state,
        "plan": facts.work.plan.iter()
            .map(|entry| json!({"content": entry.content, "status": entry.status})).collect::<Vec<_>>(),
        "instructions": facts.turns.iter().map(|turn| json!({
            "turnId": turn.id, "text": beginning(&turn.instruction, INSTRUCTION_BYTES), "status": turn.status,
        })).collect::<Vec<_>>(),
        "commands": commands[last(MAX_COMMANDS)..].iter()
            .map(|command| json!({"command": command.command, "status": command.status})).collect::<Vec<_>>(),
        "usage": {
            "lastTurn": facts.turns.iter().rev().find_map(|turn| turn.usage.as_ref()),
            "context": facts.work.context,
        },
        "lastMessage": facts.texts.last().map(|text| &text.text),
    })
}

/// Returns the files that the agent reported as changed or that git shows as changed. Paths in the
/// folder are relative.
fn files_changed(facts: &HandoffFacts) -> Vec<String> {
    let cwd = Path::new(&facts.source.cwd);
    let relative = |path: &str| match Path::new(path).strip_prefix(cwd) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside.to_string_lossy().into_owned(),
        _ => path.strip_prefix("./").unwrap_or(path).to_owned(),
    };
    let edited = facts.work.files.iter().filter(|(_, touched)| touched.edits > 0);
    let mut files: BTreeSet<String> = edited.map(|(path, _)| relative(path)).collect();
    if let Some(WorkspaceStatus::Known { changes, .. }) = &facts.workspace {
        files.extend(changes.iter().map(|change| relative(&change.path)));
    }
    files.into_iter().take(MAX_FILES).collect()
}
