//! Collects the facts for a snapshot from the store, in one read transaction.

use serde::Deserialize;
use serde_json::{Map, Value};
use subagent_protocol::api::WorkspaceStatus;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{EventId, SnapshotId};
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::state::{TurnStatus, WorkerState};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use crate::handoff::{
    FIRST_TURNS, HandoffFacts, HandoffSource, LAST_TURNS, Paths, PendingPermission, QueuedMessage, Risks,
    SnapshotTurn, TEXT_BYTES, TEXTS, TurnText, work,
};
use crate::store::events::{self, history};
use crate::store::turns::{MessageHead, queue};
use crate::store::{Connection, WorkerRow, questions, workers};
use crate::supervisor::views;

/// Maximum stored length of an instruction, in bytes. Less of it is shown.
const INSTRUCTION_BYTES: usize = 16 * 1024;
/// Maximum length of a note, in bytes.
const NOTE_BYTES: usize = 1024;

/// Collects the facts.
///
/// # Errors
/// `STORAGE_ERROR`, `WORKER_NOT_FOUND` if the worker was removed.
pub(super) fn gather(
    connection: &Connection,
    row: &WorkerRow,
    snapshot_id: SnapshotId,
    created_at: Timestamp,
    paths: Paths,
    (workspace, summary): (Option<WorkspaceStatus>, Option<String>),
) -> Result<HandoffFacts> {
    let _snapshot = history::one_moment(connection)?;
    let Some(row) = workers::get(connection, row.worker_id.as_str())? else {
        return Err(Error::new(Code::WorkerNotFound, "the worker was removed"));
    };
    let up_to = events::last_seq(connection, row.id)?;
    let mut turns = Vec::new();
    // Messages can be large, so each is shortened before the next is read.
    let histories =
        history::turns(connection, row.id, FIRST_TURNS, LAST_TURNS, &mut |history, message, end| {
            turns.extend(turn(history, message, end));
        })?;
    let mut texts = Vec::new();
    for turn in histories.iter().rev() {
        let (text, cut) = history::text_of(connection, row.id, turn, TEXT_BYTES / 2)?;
        if let Ok(turn) = turn.turn_id.parse()
            && !text.trim().is_empty()
        {
            texts.push(TurnText { turn, text, cut });
        }
        if texts.len() == TEXTS {
            break;
        }
    }
    texts.reverse();
    let mut gathering = work::WorkCollector::default();
    let floor = history::updates(connection, row.id, up_to, &mut |event| gathering.see(&event))?;
    let pending = questions::list(connection, row.id, None)?.into_iter().map(|approval| PendingPermission {
        message: views::question::message(&approval),
        request_id: approval.request_id,
    });
    let mut queued = Vec::new();
    queue::queued(connection, row.id, &mut |waiting| {
        let message: Value = serde_json::from_str(&waiting.message).unwrap_or_default();
        let text = lenient::read::<MessageHead<'_>>(&message).text.0.unwrap_or_default();
        let text = text[..text.floor_char_boundary(NOTE_BYTES)].to_owned();
        queued.push(QueuedMessage { turn_id: waiting.turn_id, text });
    })?;
    let risks = Risks {
        gaps: history::count(connection, row.id, EventType::JournalGap, None)?,
        contexts_lost: history::count(connection, row.id, EventType::WorkerRestarted, Some("contextLost"))?,
        runtimes_lost: history::count(connection, row.id, EventType::WorkerLost, None)?,
        not_all_seen: floor > 0,
    };
    Ok(HandoffFacts {
        snapshot_id,
        created_at,
        up_to: EventId(up_to),
        turns,
        // Includes turns whose events were deleted.
        turns_in_all: row.rules.last_turn,
        texts,
        work: gathering.finish(),
        pending: pending.collect(),
        queued,
        risks,
        workspace,
        summary,
        paths,
        source: source(connection, row),
    })
}

fn source(connection: &Connection, row: WorkerRow) -> HandoffSource {
    HandoffSource {
        // The worker is set aside because its rows contradict each other. It is handed over anyway.
        state: workers::load(connection, &row).map_or(WorkerState::Error, |worker| worker.public_state()),
        worker_id: row.worker_id.as_str().to_owned(),
        controller_id: row.controller_id.as_str().to_owned(),
        launcher: row.launcher,
        role: row.agent.role,
        cwd: row.cwd,
        label: row.agent.label,
        last_error: row.rules.last_error.map(|error| error.to_string()),
    }
}

/// The data of the event that ended a turn.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndedTurnData {
    stop_reason: Lenient<String>,
    reason: Lenient<String>,
    error: ObjectField<EndedTurnError>,
    usage: Lenient<Map<String, Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndedTurnError {
    code: Lenient<String>,
    message: Lenient<String>,
}

/// Converts a stored turn. `None` if the row cannot be read.
fn turn(history: &history::TurnHistory, message: Option<&str>, end: Option<&str>) -> Option<SnapshotTurn> {
    let data = |text: Option<&str>| -> Value {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (message, end): (Value, EndedTurnData) = (data(message), lenient::take(data(end)));
    let status = TurnStatus::parse(&history.status)?;
    let note = match status {
        TurnStatus::Completed => end.stop_reason.0,
        TurnStatus::Canceled => end.reason.0,
        TurnStatus::Failed => {
            let EndedTurnError { code, message } = end.error.0;
            Some(format!("{}: {}", code.0.unwrap_or_default(), message.0.unwrap_or_default()))
        }
        TurnStatus::Accepted => None,
    };
    let MessageHead { text, blocks } = lenient::read(&message);
    let text = text.0.unwrap_or_default();
    let mut instruction = text[..text.floor_char_boundary(INSTRUCTION_BYTES)].to_owned();
    if !blocks.is_empty() {
        let blocks = blocks.len();
        instruction.push_str(&format!("\n\n(and {blocks} further content blocks)"));
    }
    Some(SnapshotTurn {
        id: history.turn_id.parse().ok()?,
        instruction,
        status,
        note: note.map(|note| note[..note.floor_char_boundary(NOTE_BYTES)].to_owned()),
        usage: end.usage.0.map(Value::Object),
    })
}
