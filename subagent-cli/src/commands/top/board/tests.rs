//! Keys and news, and what a board makes of them.

use serde_json::json;

use super::super::changed::ChangedFiles;
use super::super::effect::{BoardCommand, BoardEvent};
use super::super::fixture::{
    HERE, NOW, and, answer_questions, asked, asking, at, board, event, id, link, new_board, request, running,
    shop, snapshot, typed, worker,
};
use super::super::hosts::{BoardConnection, SilenceReason};
use super::*;
use crate::failure::Failure;

fn words(effects: &[BoardEffect]) -> Vec<String> {
    let command = |effect: &BoardEffect| match effect {
        BoardEffect::Command(_, command) => Some(command.words.join(" ")),
        _ => None,
    };
    effects.iter().filter_map(command).collect()
}

fn notice(board: &Board) -> &str {
    board.notice.as_ref().map(|(_, text)| text.as_str()).unwrap_or_default()
}

#[test]
fn the_first_question_is_chosen_and_fetched() {
    let mut board = new_board(BoardConnection::Connecting, true);
    let effects = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(shop()))), NOW);
    assert_eq!(effects, [BoardEffect::ShowQuestion(HERE, request(2)), BoardEffect::Count(at(2))]);
    assert_eq!(board.on_input(HERE, BoardEvent::Opened, NOW), []);
    assert_eq!((link(&board), &board.notice), (&BoardConnection::Connected, &None));
}

#[test]
fn a_key_answers_the_question_that_is_shown() {
    let mut board = asked(shop());
    assert_eq!(words(&typed(&mut board, "y")), ["approve ap_0000000002 --decision allow"]);
    assert_eq!(notice(&board), "answering ...");
    assert!(words(&typed(&mut board, "y")).is_empty(), "once");
    let mut board = asked(shop());
    assert_eq!(words(&typed(&mut board, "a\r")), ["approve ap_0000000002 --decision allow --always worker"]);
    let mut board = asked(shop());
    let words = words(&typed(&mut board, "Nnot now\r"));
    assert_eq!(words, ["approve ap_0000000002 --decision reject --note=not now"]);
}

#[test]
fn a_question_that_comes_up_by_itself_is_not_answered_by_the_key_for_the_one_before() {
    let mut board = asked(shop());
    let decided = event(1, 2, "approval.decided", json!({"requestId": request(2)}));
    let effects = board.on_input(HERE, BoardEvent::Events(vec![decided]), NOW);
    assert!(effects.contains(&BoardEffect::ShowQuestion(HERE, request(1))));
    assert!(words(&typed(&mut board, "y")).is_empty());
    assert!(notice(&board).contains("read it"), "{}", notice(&board));
}

#[test]
fn a_note_is_for_the_question_for_which_it_was_begun() {
    let mut board = asked(shop());
    typed(&mut board, "Nno");
    let decided = event(1, 2, "approval.decided", json!({"requestId": request(2)}));
    let effects = board.on_input(HERE, BoardEvent::Events(vec![decided]), NOW);
    answer_questions(&mut board, &effects);
    assert_eq!(words(&typed(&mut board, "\r")), ["approve ap_0000000002 --decision reject --note=no"]);
    assert_eq!(words(&typed(&mut board, "n")), ["approve ap_0000000001 --decision reject"]);
}

#[test]
fn keys_are_commands_for_the_chosen_worker() {
    let with = |keys: &str| {
        let mut board = asked(shop());
        (words(&typed(&mut board, keys)), notice(&board).to_owned())
    };
    assert_eq!(with("↓↓cy").0, ["cancel w_0000000003"]);
    assert!(with("↓↓cn").0.is_empty());
    assert_eq!(with("↓↓↓↓c"), (Vec::new(), "codex-2 has no open turn".to_owned()));
    assert_eq!(with("↓↓sgo on\r").0, ["send --detach --queue --text=go on w_0000000003"]);
    assert_eq!(with("↓↓sgo on\u{1b}").0, [""; 0]);
    assert_eq!(with("↓↓xy").0, ["stop w_0000000003"]);
    assert_eq!(with("↓↓xn").0, [""; 0]);
    assert_eq!(with("w\rfix it\r").0, ["run --detach -- codex fix it"]);
    let mut board = asked(shop());
    assert_eq!(typed(&mut board, "↓↓d").last(), Some(&BoardEffect::ShowDiff(at(3))));
    assert_eq!(typed(&mut board, "q"), [BoardEffect::Quit]);
    let pasted = board.on_key(&KeyPress::Paste("q\ry\r".to_owned()), NOW);
    assert_eq!(pasted, [], "a paste is no key");
    for (key, effect) in [('c', BoardEffect::Quit), ('z', BoardEffect::Suspend)] {
        assert_eq!(board.on_key(&KeyPress::Ctrl(key), NOW), [effect]);
    }
}

#[test]
fn without_a_worker_keys_do_nothing() {
    let mut board = board(Vec::new());
    for key in "dsxcyan1\r\t↓↑jkgG".chars() {
        assert_eq!(typed(&mut board, &key.to_string()), [], "{key}");
        assert!(board.prompt.is_none(), "{key}");
    }
    let mut empty = new_board(BoardConnection::Unused, false);
    assert_eq!(words(&typed(&mut empty, "w\rfix\r")), ["run --detach -- fix"]);
}

#[test]
fn a_worker_that_was_started_here_is_chosen_when_it_is_there() {
    let mut board = board(shop());
    let command = BoardCommand {
        words: vec!["run".to_owned()],
        says: ("starting codex".to_owned(), "started".to_owned()),
    };
    let data = json!({"name": "codex-3", "workerId": id(9)});
    assert_eq!(board.on_input(HERE, BoardEvent::Ended(command, Ok(data)), NOW), [BoardEffect::Refresh(HERE)]);
    assert_eq!(notice(&board), "codex-3 started");
    let _ = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(shop()))), NOW);
    assert_eq!(board.list.chosen().unwrap().id, Some(id(2)), "it is not there");
    let more = [shop(), vec![worker(9, "codex-3", running("x"))]].concat();
    let _ = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(more))), NOW);
    assert_eq!(board.list.chosen().unwrap().id, Some(id(9)));
}

#[test]
fn an_answer_that_does_not_succeed_leaves_the_question_open() {
    let mut board = asked(shop());
    let effects = typed(&mut board, "y");
    let Some(BoardEffect::Command(_, command)) = effects.into_iter().next() else { panic!() };
    let failure = Failure::internal("no\u{1b}[2J luck");
    let _ = board.on_input(HERE, BoardEvent::Ended(command, Err(failure)), NOW);
    assert!(notice(&board).contains("INTERNAL_ERROR"));
    assert_eq!(words(&typed(&mut board, "n")).len(), 1);
}

#[test]
fn a_question_that_could_not_be_fetched_is_fetched_with_the_next_snapshot() {
    let mut board = board(shop());
    let failed = BoardEvent::Question(request(2), Err(Failure::internal("x")));
    assert_eq!(board.on_input(HERE, failed, NOW), []);
    let effects = board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(shop()))), NOW);
    assert_eq!(effects, [BoardEffect::ShowQuestion(HERE, request(2))]);
    answer_questions(&mut board, &effects);
    assert_eq!(board.on_input(HERE, BoardEvent::Snapshot(Box::new(snapshot(shop()))), NOW), []);
}

#[test]
fn a_snapshot_is_taken_for_what_events_do_not_say_and_once_for_a_hidden_worker() {
    let mut board = board(shop());
    let mut see = |seq, worker, kind: &str| {
        let effects =
            board.on_input(HERE, BoardEvent::Events(vec![event(seq, worker, kind, json!({}))]), NOW);
        effects.contains(&BoardEffect::Refresh(HERE))
    };
    assert!(!see(1, 3, "progress.message"));
    assert!(see(2, 3, "turn.completed"));
    assert!(see(3, 77, "progress.message") && !see(4, 77, "progress.message"));
    assert!(see(5, 3, "schedule.paused") && see(6, 77, "trigger.paused"));
}

fn reason() -> SilenceReason {
    SilenceReason { sentence: "INTERNAL_ERROR: x".to_owned(), short: "x".to_owned() }
}

#[test]
fn the_connection_is_said_to_be_lost_and_there_again() {
    let mut board = board(shop());
    let _ = board.on_input(HERE, BoardEvent::Lost, NOW);
    assert_eq!(*link(&board), BoardConnection::Lost);
    let _ = board.on_input(HERE, BoardEvent::Opened, NOW);
    assert_eq!(
        (link(&board), notice(&board)),
        (&BoardConnection::Connected, "connected to the daemon again")
    );
    let _ = board.on_input(HERE, BoardEvent::Unreachable(Failure::internal("x")), NOW);
    assert_eq!(*link(&board), BoardConnection::Unreachable(reason()));
}

#[test]
fn a_story_is_fetched_followed_and_left() {
    let mut board = board(vec![worker(3, "docs", running("x"))]);
    let effects = typed(&mut board, "\r");
    assert_eq!(effects, [BoardEffect::ShowStory(at(3), None)]);
    let page = json!({"workerId": id(3), "items": [], "before": null, "cursor": null});
    let page = serde_json::from_value(page).unwrap();
    let _ = board.on_input(HERE, BoardEvent::Story(id(3), None, Ok(page)), NOW);
    let said = event(1, 3, "progress.message", json!({"text": "Hello"}));
    let _ = board.on_input(HERE, BoardEvent::Events(vec![said]), NOW);
    let BoardView::Story(story) = &mut board.view else { panic!() };
    assert_eq!(story.window(20, 5).iter().map(ToString::to_string).collect::<Vec<_>>(), ["Hello"]);
    assert_eq!(board.on_input(HERE, BoardEvent::Expired, NOW), [BoardEffect::ShowStory(at(3), None)]);
    let _ = board.on_input(HERE, BoardEvent::Diff(id(3), Ok("+x\n".to_owned())), NOW);
    assert!(matches!(board.view, BoardView::Text(_)));
    typed(&mut board, "q");
    assert!(matches!(board.view, BoardView::Story(_)), "the diff was opened over it");
    typed(&mut board, "?q");
    assert!(matches!(board.view, BoardView::Story(_)), "so were the keys");
    assert_eq!(typed(&mut board, "q"), []);
    assert!(matches!(board.view, BoardView::List));
}

#[test]
fn lines_are_counted_one_worker_after_the_other_and_again_after_a_turn() {
    let mut board = board(vec![worker(3, "docs", running("x")), worker(4, "tests", running("x"))]);
    let counted = |worker: u32| BoardEvent::Counted(id(worker), Some(ChangedFiles::new((1, 2), [])));
    assert_eq!(board.on_input(HERE, counted(3), NOW), [BoardEffect::Count(at(4))]);
    let ended = event(1, 4, "turn.completed", json!({}));
    let _ = board.on_input(HERE, BoardEvent::Events(vec![ended]), NOW);
    assert_eq!(
        board.on_input(HERE, counted(4), NOW),
        [BoardEffect::Count(at(4))],
        "files have changed in between"
    );
    assert_eq!(board.on_input(HERE, counted(4), NOW), []);
    assert_eq!(board.counts[&at(4)], Some(ChangedFiles::new((1, 2), [])));
}

#[test]
fn a_filter_is_typed_and_taken_back() {
    let mut board = board(shop());
    typed(&mut board, "/flaky");
    assert_eq!(board.entries().len(), 2);
    typed(&mut board, "\r");
    assert_eq!((board.entries().len(), board.prompt.is_none()), (2, true));
    typed(&mut board, "\u{1b}");
    assert_eq!(board.entries().len(), 10);
    typed(&mut board, "/x\u{1b}t");
    assert!(board.list.filter.is_empty() && board.list.is_tree);
}

#[test]
fn pages_stay_within_their_text() {
    let mut board = board(vec![worker(3, "docs", and(running("x"), json!({})))]);
    board.body = (80, 5);
    let text: String = (0..20).map(|line| format!("{line}\n")).collect();
    let _ = board.on_input(HERE, BoardEvent::Diff(id(3), Ok(text)), NOW);
    let top = |board: &Board| match &board.view {
        BoardView::Text(page) => page.top,
        _ => panic!(),
    };
    for (keys, expected) in [("↓", 1), ("G", 15), ("j", 15), ("g", 0), ("k", 0)] {
        typed(&mut board, keys);
        assert_eq!(top(&board), expected, "{keys}");
    }
    typed(&mut board, "q?");
    assert!(matches!(board.view, BoardView::Help(0, None)));
    typed(&mut board, "Gq");
    assert!(matches!(board.view, BoardView::List));
}

/// A board of this machine and of `lap`, whose workers have the same ids.
fn two_hosts() -> (Board, HostIndex) {
    let hosts = vec![
        BoardHost::new("local", false, BoardConnection::Connecting),
        BoardHost::new("lap", true, BoardConnection::Connecting),
    ];
    let (mut board, lap) =
        (Board::new("all hosts".to_owned(), BoardHosts::all_of(hosts), true), HostIndex(1));
    for (host, subject) in [(HERE, "here"), (lap, "there")] {
        let items = vec![worker(1, "one", asking(1, 1, subject, 9))];
        let effects = board.on_input(host, BoardEvent::Snapshot(Box::new(snapshot(items))), NOW);
        answer_questions(&mut board, &effects);
        let _ = board.on_input(host, BoardEvent::Opened, NOW);
    }
    (board, lap)
}

#[test]
fn keys_act_on_the_host_of_the_row_also_if_ids_are_the_same() {
    let (mut board, lap) = two_hosts();
    let effects = typed(&mut board, "↓");
    assert_eq!(effects[0], BoardEffect::ShowQuestion(lap, request(1)), "the other one was shown");
    assert_eq!(typed(&mut board, "y"), [], "it was not read");
    answer_questions(&mut board, &effects);
    let of = |effects: Vec<BoardEffect>| {
        let command = |effect| match effect {
            BoardEffect::Command(host, command) => Some((host, command.words.join(" "))),
            _ => None,
        };
        effects.into_iter().find_map(command).unwrap()
    };
    assert_eq!(of(typed(&mut board, "y")), (lap, "approve ap_0000000001 --decision allow".to_owned()));
    assert_eq!(of(typed(&mut board, "xy")), (lap, "stop w_0000000001".to_owned()));
    let (begun, words) = of(typed(&mut board, "wcodex\rfix\r"));
    assert_eq!((begun, words), (HERE, "run --detach -- codex fix".to_owned()), "workers start here");
    assert_eq!(of(typed(&mut board, "↑xy")), (HERE, "stop w_0000000001".to_owned()));
    // News of one host change nothing of the other.
    let decided = event(1, 1, "approval.decided", json!({"requestId": request(1)}));
    let _ = board.on_input(lap, BoardEvent::Events(vec![decided]), NOW);
    let needs: Vec<usize> = board.hosts.rows().map(|(_, row)| row.needs.len()).collect();
    assert_eq!(needs, [1, 0]);
}

#[test]
fn a_host_that_does_not_answer_is_one_row_until_it_is_back() {
    let (mut board, lap) = two_hosts();
    typed(&mut board, "↓");
    let later = Timestamp(NOW.0 + 5000);
    let _ = board.on_input(lap, BoardEvent::Lost, later);
    let shown = |board: &Board| (board.hosts.rows().count(), board.hosts.silent().count());
    assert_eq!(shown(&board), (2, 1), "its workers are still known");
    assert_eq!(board.hosts.get(lap).unwrap().answered, Some(later));
    let gone = || BoardEvent::Unreachable(Failure::internal("gone"));
    let _ = board.on_input(lap, gone(), Timestamp(NOW.0 + 9000));
    assert_eq!(shown(&board), (1, 1));
    assert_eq!(board.hosts.get(lap).unwrap().answered, Some(later), "that is no answer");
    let chosen = board.list.chosen().unwrap();
    assert_eq!((chosen.host, &chosen.id), (lap, &None), "the row of the host took the place of its worker");
    for key in "xdsc".chars() {
        assert_eq!(typed(&mut board, &key.to_string()), []);
        assert_eq!(notice(&board), "lap does not answer");
    }
    assert_eq!(typed(&mut board, "\r"), []);
    let _ = board.on_input(lap, BoardEvent::Opened, later);
    assert_eq!((shown(&board), notice(&board)), ((2, 0), "connected to lap again"));
}

#[test]
fn a_host_that_is_dialed_gives_way_to_the_first_question() {
    let far = |name: &str| BoardHost::new(name, true, BoardConnection::Connecting);
    let hosts = BoardHosts::all_of(vec![far("dead"), far("lap")]);
    let (mut board, lap) = (Board::new("all hosts".to_owned(), hosts, true), HostIndex(1));
    let _ = board.on_input(HERE, BoardEvent::Unreachable(Failure::internal("x")), NOW);
    assert_eq!(board.list.chosen().unwrap().id, None);
    let items = || vec![worker(1, "one", asking(1, 1, "there", 9))];
    let _ = board.on_input(lap, BoardEvent::Snapshot(Box::new(snapshot(items()))), NOW);
    assert_eq!(board.list.chosen().unwrap().request, Some(request(1)));
    typed(&mut board, "↓");
    let _ = board.on_input(lap, BoardEvent::Snapshot(Box::new(snapshot(items()))), NOW);
    assert_eq!(board.list.chosen().unwrap().id, None, "a person has chosen it");
}
