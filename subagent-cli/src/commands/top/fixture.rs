//! Workers for the tests of a board.

#![allow(clippy::unwrap_used, reason = "only tests use this file")]

use serde_json::{Value, json};
use subagent_protocol::api::OverviewShown;
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, RequestId, WorkerId};
use subagent_protocol::time::Timestamp;

use super::board::Board;
use super::effect::{BoardEffect, BoardEvent};
use super::hosts::{BoardConnection, BoardHost, BoardHosts, BoardWorker, HostIndex};
use super::keys::KeyPress;

/// The time of each snapshot.
pub(super) const NOW: Timestamp = Timestamp(1_795_292_982_000);

/// The id of a worker with this number.
pub(super) fn id(number: u32) -> WorkerId {
    format!("w_{number:010}").parse().unwrap()
}

/// The id of a question with this number.
pub(super) fn request(number: u32) -> RequestId {
    format!("ap_{number:010}").parse().unwrap()
}

fn seconds_ago(seconds: i64) -> Value {
    serde_json::to_value(Timestamp(NOW.0 - seconds * 1000)).unwrap()
}

/// A worker of a snapshot, and what is special about it.
pub(super) fn worker(number: u32, name: &str, more: Value) -> Value {
    let used = json!({"used": 0, "limit": null, "unit": null, "unreported": 0});
    let mut item = json!({
        "workerId": id(number), "name": name, "label": "worker", "controllerId": "ctl_0123456789", "launcher": "codex",
        "role": "default", "cwd": "/home/ada/shop", "state": "idle", "since": seconds_ago(90),
        "lastEventAt": seconds_ago(12), "activeTurnId": null, "doing": null, "lastError": null, "questions": [],
        "queue": null, "task": null,
        "usage": {"turns": 0, "tokens": {"used": 0, "unreported": 0}, "cost": {"used": [], "unreported": 0}},
        "budget": {
            "turns": used, "wallTime": used, "tokens": used, "cost": used, "onLimit": "refuse", "onUnknown": "warn",
        },
        "worktree": null,
    });
    for (key, value) in more.as_object().unwrap() {
        item[key] = value.clone();
    }
    item
}

/// What a worker is beside that when it works.
pub(super) fn running(tool: &str) -> Value {
    json!({
        "state": "running", "activeTurnId": "turn_0123456789",
        "doing": {"tool": tool, "step": "Read it", "stepsCompleted": 1, "steps": 3},
    })
}

/// What a worker is beside that when it asks this.
pub(super) fn asking(number: u32, worker: u32, subject: &str, seconds: i64) -> Value {
    json!({
        "state": "waiting_approval", "activeTurnId": "turn_0123456789",
        "questions": [{
            "requestId": request(number), "workerId": id(worker), "name": "", "label": "",
            "controllerId": "ctl_0123456789", "turnId": "turn_0123456789", "kind": "permission",
            "toolKind": "execute", "subject": subject, "status": "pending", "createdAt": seconds_ago(seconds),
            "deadlineAt": null, "onTimeout": null, "rule": null,
        }],
    })
}

/// What it is beside that when its task is below this worker.
pub(super) fn task_of(parent: u32, name: &str) -> Value {
    json!({"task": {"name": name, "status": "running", "parent": id(parent), "root": id(parent), "depth": 1}})
}

/// Adds the fields of `other` to `one`.
pub(super) fn and(mut one: Value, other: Value) -> Value {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}

pub(super) fn snapshot(items: Vec<Value>) -> OverviewShown {
    let count = items.len();
    let shown = json!({"cursor": "ev_000000000010", "at": NOW, "count": count, "items": items});
    serde_json::from_value(shown).unwrap()
}

/// An event of a worker behind the snapshot.
pub(super) fn event(seq: i64, worker: u32, kind: &str, data: Value) -> Event {
    let event = json!({
        "schemaVersion": "v1", "eventId": EventId(seq + 16), "ts": NOW, "workerId": id(worker), "type": kind,
        "data": data, "turnId": "turn_0123456789",
    });
    serde_json::from_value(event).unwrap()
}

/// A shop with some workers.
pub(super) fn shop() -> Vec<Value> {
    let used = json!({
        "usage": {
            "turns": 3, "tokens": {"used": 41_234, "unreported": 0},
            "cost": {"used": [{"currency": "USD", "amount": 0.312, "computed": 0.0}], "unreported": 0},
        },
        "label": "Fix the login bug",
    });
    let tokens = json!({
        "usage": {
            "turns": 1, "tokens": {"used": 9_900, "unreported": 0}, "cost": {"used": null, "unreported": 1},
        },
    });
    let queue = json!({"queue": {"length": 2, "paused": false, "items": []}});
    vec![
        worker(1, "codex-1", and(asking(1, 1, "cargo publish --allow-dirty", 30), used.clone())),
        worker(2, "claude-1", asking(2, 2, "rm -rf build && make --jobs 8 everything", 200)),
        worker(3, "docs", and(and(running("Edit docs/api.md"), tokens), queue)),
        worker(4, "tests", and(running("cargo test --workspace"), task_of(3, "Find the flaky test"))),
        worker(5, "codex-2", used),
        worker(
            6,
            "broken",
            json!({"state": "error", "lastError": "BACKEND_START_FAILED: no such file", "since": seconds_ago(7200), "lastEventAt": seconds_ago(7200)}),
        ),
        worker(
            7,
            "old",
            json!({"state": "stopped", "since": seconds_ago(200_000), "lastEventAt": seconds_ago(200_000)}),
        ),
    ]
}

/// The daemon of a board for one.
pub(super) const HERE: HostIndex = HostIndex(0);

/// The worker with this number at that daemon.
pub(super) fn at(number: u32) -> BoardWorker {
    BoardWorker { host: HERE, id: id(number) }
}

/// A board for one daemon.
pub(super) fn new_board(link: BoardConnection, colour: bool) -> Board {
    Board::new("shop".to_owned(), BoardHosts::one(BoardHost::new("local", false, link)), colour)
}

/// How that daemon is reached.
pub(super) fn link(board: &Board) -> &BoardConnection {
    &board.hosts.get(HERE).unwrap().link
}

/// A board that follows these workers.
pub(super) fn board(items: Vec<Value>) -> Board {
    let mut board = new_board(BoardConnection::Connecting, true);
    let _ = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(items))), NOW);
    let _ = board.on_input(HERE, BoardEvent::Opened, NOW);
    board
}

/// Keys as they are typed; what they ask for.
pub(super) fn typed(board: &mut Board, keys: &str) -> Vec<BoardEffect> {
    let later = Timestamp(NOW.0 + 60_000);
    let key = |char| match char {
        '\r' => KeyPress::Enter,
        '\u{1b}' => KeyPress::Escape,
        '\t' => KeyPress::Tab,
        '↓' => KeyPress::Down,
        '↑' => KeyPress::Up,
        char => KeyPress::Char(char),
    };
    keys.chars().flat_map(|char| board.on_key(&key(char), later)).collect()
}

/// A permission request in full, and what is special about it.
pub(super) fn question(request: &RequestId, more: Value) -> Value {
    let question = json!({
        "requestId": request, "workerId": id(1), "label": "", "controllerId": "ctl_0123456789", "kind": "permission",
        "subject": "", "status": "pending", "createdAt": NOW, "message": "", "cwd": "", "options": [], "request": {},
        "answers": [],
    });
    and(question, more)
}

/// The question that is shown, as the daemon has it.
pub(super) fn answer_questions(board: &mut Board, effects: &[BoardEffect]) {
    for effect in effects {
        if let BoardEffect::ShowQuestion(host, request) = effect {
            let more = json!({
                "name": "codex", "message": "Permission requested for execute", "request": {"command": "rm -rf build"},
                "alwaysRule": "execute(rm -rf build)", "cwd": "/home/ada/shop",
                "options": [
                    {"id": "allow-once", "alias": "allow-once", "label": "Allow", "kind": "allow_once"},
                    {"id": "reject-once", "alias": "reject-once", "label": "Reject", "kind": "reject_once"},
                ],
            });
            let shown = question(request, more);
            let _ = board.on_input(*host, BoardEvent::Question(request.clone(), Ok(shown)), NOW);
        }
    }
}

/// A board whose question is shown.
pub(super) fn asked(items: Vec<Value>) -> Board {
    let mut board = new_board(BoardConnection::Connecting, true);
    let effects = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(items))), NOW);
    answer_questions(&mut board, &effects);
    let _ = board.on_input(HERE, BoardEvent::Opened, NOW);
    board
}
