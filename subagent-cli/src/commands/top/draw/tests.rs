//! Pictures of a board in windows of several sizes, against stored ones. `UPDATE_VIEWS=1` writes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::super::changed::ChangedFiles;
use super::super::effect::BoardEvent;
use super::super::fixture::{
    HERE, NOW, and, answer_questions, asked, asking, at, board, event, id, new_board, question, request,
    running, shop, snapshot, typed, worker,
};
use super::super::hosts::{BoardHost, BoardHosts, HostIndex};
use super::super::keys::KeyPress;
use super::*;
use crate::failure::Failure;

/// The picture as text, and what else it needs.
fn picture(board: &mut Board, width: u16, height: u16) -> (String, Drawn) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut drawn = Drawn::default();
    terminal.draw(|frame| drawn = draw(board, frame.buffer_mut(), later())).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(symbol.width().max(1)).unwrap();
        }
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    (text, drawn)
}

/// A second behind the snapshot: the question that is shown counts its keys.
fn later() -> Timestamp {
    Timestamp(NOW.0 + 1000)
}

fn story() -> Board {
    let mut board =
        board(vec![worker(3, "docs", and(asking(1, 3, "rm -rf build", 9), running("Edit docs/api.md")))]);
    let effects = typed(&mut board, "\r");
    super::super::fixture::answer_questions(&mut board, &effects);
    super::super::fixture::answer_questions(
        &mut board,
        &[super::super::effect::BoardEffect::ShowQuestion(HERE, request(1))],
    );
    let page = json!({"workerId": id(3), "items": [], "before": null, "cursor": null});
    let _ =
        board.on_input(HERE, BoardEvent::Story(id(3), None, Ok(serde_json::from_value(page).unwrap())), NOW);
    let diff =
        json!([{"type": "diff", "path": "docs/api.md", "oldText": "one\ntwo\n", "newText": "one\n2\n"}]);
    let events = [
        ("message.sent", json!({"text": "Describe the API, and keep it short."})),
        ("progress.update", json!({"kind": "thought", "text": "Where is it?"})),
        (
            "progress.message",
            json!({"text": "I read the file first. It says more about 漢字 than about the API."}),
        ),
        (
            "progress.update",
            json!({"kind": "plan", "entries": [
                {"content": "Read it", "status": "completed"}, {"content": "Mend it", "status": "in_progress"},
            ]}),
        ),
        (
            "progress.update",
            json!({"kind": "tool_call", "toolCallId": "1", "title": "Edit docs/api.md", "toolKind": "edit", "status": "completed", "content": diff}),
        ),
        (
            "approval.requested",
            json!({"requestId": "ap_0000000001", "message": "Permission requested for execute", "command": "rm -rf build"}),
        ),
    ];
    let events = events.into_iter().zip(1..).map(|((kind, data), seq)| event(seq, 3, kind, data));
    let _ = board.on_input(HERE, BoardEvent::Events(events.collect()), NOW);
    board
}

fn lost() -> Board {
    let mut board = board(shop());
    board.counts.insert(at(5), Some(ChangedFiles::new((88, 9), [])));
    typed(&mut board, "G");
    let _ = board.on_input(HERE, BoardEvent::Lost, NOW);
    board
}

fn with_keys(keys: &str) -> Board {
    let mut board = asked(shop());
    for (worker, count) in [(1, Some((88, 9))), (3, Some((1204, 377))), (5, Some((3, 0))), (4, None)] {
        board.counts.insert(at(worker), count.map(|lines| ChangedFiles::new(lines, [])));
    }
    typed(&mut board, keys);
    board
}

fn broken() -> Board {
    let mut board = new_board(BoardConnection::Connecting, true);
    let failure = Failure::internal("the daemon cannot be started").recommend("look at its log");
    let _ = board.on_input(HERE, BoardEvent::Unreachable(failure), NOW);
    board
}

fn diff() -> Board {
    let mut board = board(shop());
    typed(&mut board, "↓↓");
    let patch = "diff --git a/a b/a\n@@ -1 +1,2 @@\n-one\n+1\n+two\n".to_owned();
    let _ = board.on_input(HERE, BoardEvent::Diff(id(3), Ok(patch)), NOW);
    board
}

fn with_paused_schedules() -> Board {
    let mut board = board(shop());
    let mut shown = snapshot(shop());
    let paused = json!([
        {"schedule": "nightly", "reason": "failures", "error": {
            "code": "BACKEND_RUNTIME_ERROR", "message": "no\u{1b}[2J luck", "retryable": false, "details": {},
        }},
        {"schedule": "weekly", "reason": "worker_gone"},
    ]);
    shown.paused_schedules = serde_json::from_value(paused).unwrap();
    let _ = board.on_input(HERE, BoardEvent::Snapshot(Box::new(shown)), NOW);
    board
}

/// This machine, a host with workers, one that does not answer, and one that is dialed.
fn all_hosts() -> Board {
    let far = |name: &str| BoardHost::new(name, true, BoardConnection::Connecting);
    let gone = far("big").answered_at(Some(Timestamp(NOW.0 - 7_200_000)));
    let hosts =
        vec![BoardHost::new("local", false, BoardConnection::Connecting), far("lap"), gone, far("new")];
    let mut board = Board::new("all hosts".to_owned(), BoardHosts::all_of(hosts), true);
    let (lap, big) = (HostIndex(1), HostIndex(2));
    let here = vec![worker(1, "codex-1", running("cargo test"))];
    let _ = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(here))), NOW);
    let there =
        vec![worker(1, "docs", asking(1, 1, "rm -rf build", 30)), worker(2, "tests\u{1b}[2J", json!({}))];
    let effects = board.on_input(lap, BoardEvent::Snapshot(Box::new(snapshot(there))), NOW);
    answer_questions(&mut board, &effects);
    for host in [HERE, lap] {
        let _ = board.on_input(host, BoardEvent::Opened, NOW);
    }
    let failure = Failure::internal("the host `big` cannot be reached: \u{1b}]0;xConnection refused");
    let _ = board.on_input(big, BoardEvent::Unreachable(failure), NOW);
    board
}

fn boards() -> Vec<(&'static str, Board)> {
    vec![
        ("a list with a question", with_keys("")),
        ("the rule of an answer", with_keys("a")),
        ("a message", with_keys("↓↓sGo on, please")),
        ("a stop", with_keys("↓↓x")),
        ("a tree", with_keys("t")),
        ("a filter", with_keys("/login\r")),
        ("keys", with_keys("?")),
        ("a story with a question", story()),
        ("a diff", diff()),
        ("a lost connection", lost()),
        ("no connection", broken()),
        ("nothing", board(Vec::new())),
        ("paused schedules", with_paused_schedules()),
        ("all hosts", all_hosts()),
        ("a new workspace", new_board(BoardConnection::Unused, true)),
    ]
}

#[test]
fn a_board_looks_as_it_did() {
    let mut wrong = Vec::new();
    for (width, height) in [(20, 10), (60, 18), (80, 24), (200, 24)] {
        let mut text = String::new();
        for (name, mut board) in boards() {
            let (picture, _) = picture(&mut board, width, height);
            writeln!(text, "== {name}\n{picture}").unwrap();
        }
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("src/commands/top/draw/screens/{width}.txt"));
        if std::env::var_os("UPDATE_VIEWS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        if fs::read_to_string(&file).unwrap_or_default() != text {
            wrong.push(format!("at {width} columns; UPDATE_VIEWS=1 renews it\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_window_is_too_small_or_too_large() {
    for (name, mut board) in boards() {
        for (width, height) in [(1, 1), (2, 3), (5, 4), (20, 2), (3, 30), (300, 3), (40, 200)] {
            let (text, drawn) = picture(&mut board, width, height);
            assert_eq!(text.lines().count(), usize::from(height), "{name}");
            if let Some(cursor) = drawn.cursor {
                assert!(cursor.x < width && cursor.y < height, "{name}: {cursor:?}");
            }
        }
    }
}

#[test]
fn without_colours_no_cell_has_a_look_and_the_row_is_marked_all_the_same() {
    let mut board = with_keys("");
    board.colour = false;
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| _ = draw(&mut board, frame.buffer_mut(), later())).unwrap();
    let buffer = terminal.backend().buffer();
    let plain = Look::reset();
    assert!(
        buffer
            .content()
            .iter()
            .all(|cell| cell.style() == plain || cell.style() == ratatui::buffer::Cell::EMPTY.style())
    );
    assert!(picture(&mut board, 80, 24).0.contains("\n> claude-1"));
}

#[test]
fn hostile_text_is_harmless() {
    let long = "\u{1b}[2J\u{202e}\u{200b}evil\r\n\t".repeat(1 << 21);
    let items = vec![
        worker(
            1,
            "one",
            and(asking(1, 1, &long, 9), json!({"label": long, "lastError": long, "launcher": "x\u{9b}2J"})),
        ),
        worker(2, "two", and(running(&long), json!({"cwd": long}))),
    ];
    let mut board = board(items);
    board.place = "a\u{1b}]0;x\u{7}b".to_owned();
    for keys in ["", "↓", "t"] {
        typed(&mut board, keys);
        let (text, _) = picture(&mut board, 80, 24);
        assert!(
            text.contains("evil") && !text.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{9b}', '\t']),
            "{text}"
        );
    }
    let effects = typed(&mut board, "g");
    assert!(board.shown_request().is_some(), "{effects:?}");
    let diff = json!([{"type": "diff", "path": "x", "oldText": long, "newText": "y"}]);
    let more = json!({"message": long, "cwd": long, "request": {"command": long, "content": diff}});
    let shown = question(&request(1), more);
    let _ = board.on_input(HERE, BoardEvent::Question(request(1), Ok(shown)), NOW);
    for _ in 0..3 {
        let (text, _) = picture(&mut board, 80, 24);
        assert!(text.contains("[y] once") && !text.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{text}");
    }
    let _ = board.on_input(
        HERE,
        BoardEvent::Ended(
            super::super::effect::BoardCommand { words: Vec::new(), says: (String::new(), String::new()) },
            Err(Failure::internal("\u{1b}[31mx\ny")),
        ),
        NOW,
    );
    assert!(picture(&mut board, 80, 24).0.contains("\nINTERNAL_ERROR: x y\n"));
}

#[test]
fn a_picture_says_when_the_clock_makes_it_another_one() {
    let lasts = |seconds: i64| {
        let last = json!({"lastEventAt": Timestamp(NOW.0 - seconds * 1000)});
        picture(&mut board(vec![worker(1, "one", last)]), 80, 24).1.lasts
    };
    assert_eq!(lasts(5), Some(Duration::from_secs(1)));
    assert_eq!(lasts(100), Some(Duration::from_secs(19)), "the next minute");
    assert_eq!(lasts(3 * 3600 - 1), Some(Duration::from_secs(3600)), "the next hour");
    assert_eq!(picture(&mut board(Vec::new()), 80, 24).1.lasts, None);
    let mut just_asked = asked(shop());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut drawn = Drawn::default();
    terminal.draw(|frame| drawn = draw(&mut just_asked, frame.buffer_mut(), NOW)).unwrap();
    assert_eq!(drawn.lasts, Some(Duration::from_millis(300)), "keys of a question begin to count");
}

#[test]
fn of_many_workers_those_that_are_seen_are_laid_out() {
    let many = (0..500).map(|number| worker(number, &format!("worker-{number}"), running("cargo test")));
    let mut board = board(many.collect());
    let (mut tops, mut most) = (Vec::new(), 0);
    for _ in 0..100 {
        let _ = board.on_key(&KeyPress::Down, later());
        picture(&mut board, 80, 24);
        let entries = board.entries();
        tops.push(board.list.top);
        most = most.max(seen(&entries, board.list.top, board.body.1).len());
    }
    assert!(most <= 24 && tops.is_sorted() && tops.last() > Some(&70), "{most} {tops:?}");
    assert!(picture(&mut board, 80, 24).0.contains("> worker-100"));
    let entries = board.entries();
    assert_eq!((seen(&entries, 495, 24).len(), seen(&entries, 900, 24).len()), (entries.len() - 495, 0));
}

#[test]
fn a_rule_that_does_not_fit_cannot_be_made() {
    let rule = format!("execute(make {})", "x".repeat(700));
    let mut board = board(vec![worker(1, "one", asking(1, 1, "make", 9))]);
    let more = json!({"message": "make?", "request": {"command": "make"}, "alwaysRule": rule});
    let shown = question(&request(1), more);
    let _ = board.on_input(HERE, BoardEvent::Question(request(1), Ok(shown)), NOW);
    picture(&mut board, 60, 18);
    typed(&mut board, "a");
    let (text, _) = picture(&mut board, 60, 18);
    assert!(
        text.contains("the rule does not fit: enlarge the window") && !text.contains("[Enter]"),
        "{text}"
    );
    assert_eq!(typed(&mut board, "\r"), []);
    // No question is drawn in a window that is this low.
    picture(&mut board, 200, 7);
    assert_eq!(typed(&mut board, "\r"), []);
    let (text, _) = picture(&mut board, 200, 24);
    assert!(text.contains("xxx)") && text.contains("[Enter] allow and make this rule"), "{text}");
    assert!(matches!(typed(&mut board, "\r")[..], [super::super::effect::BoardEffect::Command(..)]));
}

#[test]
fn a_parked_worker_says_when_it_goes_on() {
    let until = Timestamp(NOW.0 + 301_000);
    let more = json!({
        "parked": {"until": until, "reason": "rate_limit"},
        "queue": {"length": 2, "paused": false, "items": []},
        "lastEventAt": Timestamp(NOW.0 - 7_200_000),
    });
    let mut board = board(vec![worker(1, "one", more)]);
    let (text, drawn) = picture(&mut board, 80, 24);
    assert!(text.contains("Working  1") && text.contains("parked (5m left)  2 queued"), "{text}");
    assert_eq!(drawn.lasts, Some(Duration::from_millis(1)), "then it is less than five minutes");
}

#[test]
fn an_unreachable_worker_says_since_when_until_it_is_reached() {
    let more = json!({
        "state": "running", "activeTurnId": "turn_0123456789",
        "unreachable": {"since": Timestamp(NOW.0 - 181_000)}, "lastEventAt": Timestamp(NOW.0 - 7_200_000),
    });
    let mut board = board(vec![worker(1, "one", more)]);
    let (text, drawn) = picture(&mut board, 80, 24);
    assert!(text.contains("unreachable for 3m"), "{text}");
    assert_eq!(drawn.lasts, Some(Duration::from_secs(58)), "then it is 4 minutes");
}

#[test]
fn files_that_two_live_workers_have_changed_are_marked() {
    let tree = |number: u32, name: &str, state: &str| {
        let path = format!("/trees/{name}");
        let worktree = json!({
            "name": name, "state": "ready", "path": path, "branch": name, "base": "0", "sourceBranch": null,
            "withChanges": false, "main": "/home/ada/shop", "repository": "/home/ada/shop/.git",
            "workerId": id(number), "createdAt": serde_json::to_value(NOW).unwrap(),
        });
        worker(number, name, json!({"cwd": path, "state": state, "worktree": worktree}))
    };
    let mut board = board(vec![
        tree(1, "auth", "idle"),
        tree(2, "docs", "idle"),
        tree(3, "over", "stopped"),
        worker(4, "here", json!({})),
        worker(5, "away", json!({"cwd": "/home/ada/other"})),
        worker(6, "same", json!({})),
    ]);
    let paths =
        [(1, "a.rs b.rs"), (2, "b.rs c.rs"), (3, "a.rs b.rs"), (4, "c.rs"), (5, "a.rs"), (6, "d.rs c.rs")];
    for (worker, paths) in paths {
        let changed = ChangedFiles::new((3, 1), paths.split(' ').map(str::to_owned));
        board.counts.insert(at(worker), Some(changed));
    }
    let (text, _) = picture(&mut board, 100, 20);
    let mark = |name: &str| {
        let row = text.lines().find(|line| line.contains(name)).unwrap();
        row.split_once('!').map(|(_, mark)| mark.split(' ').next().unwrap().to_owned())
    };
    for (name, marked) in [
        ("auth", Some("1")),
        ("docs", Some("2")),
        ("over", None),
        ("here", Some("1")),
        ("away", None),
        ("same", Some("1")),
    ] {
        assert_eq!(mark(name).as_deref(), marked, "{name}: {text}");
    }
}
