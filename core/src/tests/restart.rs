//! Requested restarts: the old runtime ends first, and exactly one new one is started.

use subagent_protocol::Code;
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::{TurnStatus, WorkerState};

use super::{failure, send};
use crate::checker::Checker;
use crate::model::{LifecycleState, Restart, RuntimeStatus, WorkerAction, WorkerInput};

const GONE: WorkerInput = WorkerInput::RuntimeGone { clean: true, rebooted: false, place: None };
const DIED: WorkerInput = WorkerInput::RuntimeGone { clean: false, rebooted: false, place: None };
const GENTLY: WorkerInput = WorkerInput::Restart { force: false, beside: false };
const FORCED: WorkerInput = WorkerInput::Restart { force: true, beside: false };

fn adopted(checker: &mut Checker) {
    checker.reload();
    checker.worker.link = RuntimeStatus::Adopted;
}

fn session() -> WorkerInput {
    WorkerInput::Session {
        origin: SessionOrigin::Resumed,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    }
}

fn terminating() -> WorkerInput {
    WorkerInput::Terminating { reason: "worker restarted by manager".to_owned() }
}

/// Returns a worker with a session after these inputs, and the actions of the last one.
fn after(inputs: &[WorkerInput]) -> (Checker, Vec<WorkerAction>) {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Starting;
    checker.step(&session()).unwrap();
    let mut actions = Vec::new();
    for input in inputs {
        actions = checker.step(input).unwrap_or_else(|code| panic!("{code} for {input:?}"));
    }
    (checker, actions)
}

fn status(checker: &Checker, turn: u64) -> TurnStatus {
    checker.rows.turns[&turn].status
}

#[test]
fn an_idle_worker_loses_its_runtime_and_gets_another_one() {
    let (mut checker, actions) = after(&[GENTLY]);
    assert_eq!((actions, checker.worker.link), (vec![WorkerAction::Terminate], RuntimeStatus::Ending));
    assert_eq!(checker.step(&terminating()).unwrap(), []);
    assert_eq!(checker.step(&GONE).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!(checker.worker.restart, Restart::Begun);
    assert_eq!(checker.step(&session()).unwrap(), []);
    assert_eq!((checker.worker.restart, checker.worker.link), (Restart::None, RuntimeStatus::Ready));
}

#[test]
fn without_a_runtime_one_is_started_at_once() {
    let (checker, actions) = after(&[WorkerInput::Ending, GONE, GENTLY]);
    assert_eq!((actions, checker.worker.restart), (vec![WorkerAction::StartRuntime], Restart::Begun));
}

#[test]
fn one_that_is_on_its_way_out_is_waited_for() {
    let (_, actions) = after(&[WorkerInput::Ending, GENTLY]);
    assert_eq!(actions, []);
    let (_, actions) = after(&[WorkerInput::Ending, GENTLY, GONE]);
    assert_eq!(actions, [WorkerAction::StartRuntime]);
}

#[test]
fn an_open_turn_stands_in_the_way_unless_it_may_be_canceled() {
    let running = [send(1), WorkerInput::Dispatching { turn: 1 }];
    let (mut checker, _) = after(&running);
    assert_eq!(checker.step(&GENTLY), Err(Code::WorkerBusy));
    assert_eq!(checker.step(&FORCED).unwrap(), [WorkerAction::Terminate]);
    assert_eq!(checker.worker.public_state(), WorkerState::Canceling);
    checker.step(&terminating()).unwrap();
    let end = TurnEnd::Answered { stop_reason: Some("cancelled".to_owned()), usage: None, meta: None };
    checker.step(&WorkerInput::TurnEnd { turn: 1, end }).unwrap();
    assert_eq!(status(&checker, 1), TurnStatus::Canceled);
    assert_eq!(checker.step(&GONE).unwrap(), [WorkerAction::StartRuntime]);
    // The runtime may die instead.
    let (mut checker, _) = after(&running);
    checker.step(&FORCED).unwrap();
    assert_eq!(checker.step(&DIED).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!(status(&checker, 1), TurnStatus::Canceled);
}

#[test]
fn a_worker_that_could_not_be_started_is_tried_again() {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Starting;
    checker.step(&WorkerInput::StartFailed { error: failure() }).unwrap();
    assert_eq!(checker.step(&GENTLY).unwrap(), []);
    assert_eq!(checker.step(&GONE).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!(checker.worker.public_state(), WorkerState::Starting);
    assert_eq!(checker.step(&GENTLY), Err(Code::WorkerBusy));
    checker.step(&WorkerInput::StartFailed { error: failure() }).unwrap();
    assert_eq!((checker.worker.public_state(), checker.worker.restart), (WorkerState::Error, Restart::None));
    assert_eq!(checker.step(&GONE).unwrap(), [], "it is not tried for ever");
    assert_eq!(checker.step(&GENTLY).unwrap(), [WorkerAction::StartRuntime]);
    checker.step(&session()).unwrap();
    assert_eq!(checker.worker.public_state(), WorkerState::Idle);
}

#[test]
fn a_new_runtime_that_dies_is_not_started_again() {
    for end in [GONE, DIED] {
        let (mut checker, _) = after(&[GENTLY, GONE]);
        assert_eq!(checker.step(&end).unwrap(), []);
        assert_eq!((&checker.worker.state, checker.worker.restart), (&LifecycleState::Idle, Restart::None));
    }
    let (checker, _) = after(&[GENTLY, GONE, WorkerInput::SpawnFailed { error: failure() }]);
    assert_eq!((checker.worker.link, checker.worker.restart), (RuntimeStatus::None, Restart::None));
}

#[test]
fn a_message_in_between_goes_to_the_new_runtime() {
    let (mut checker, actions) = after(&[GENTLY, send(1)]);
    assert_eq!(actions, [], "never to the one that ends");
    assert_eq!(checker.step(&GONE).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!(checker.worker.restart, Restart::Begun, "it is the runtime that was asked for");
    assert!(checker.worker.turn().is_some_and(|turn| !turn.retried), "the old one did not lose the message");
    assert_eq!(checker.step(&session()).unwrap(), [WorkerAction::Prompt { turn: 1 }]);
    assert_eq!(checker.worker.restart, Restart::None);
    // A new runtime that dies at once is retried as usual, and the restart continues.
    let (mut checker, _) = after(&[GENTLY, send(1), GONE]);
    assert_eq!(checker.step(&DIED).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!(checker.worker.restart, Restart::Begun);
    assert_eq!(checker.step(&DIED).unwrap(), []);
    assert_eq!((status(&checker, 1), checker.worker.restart), (TurnStatus::Failed, Restart::None));
}

#[test]
fn a_runtime_that_was_not_heard_yet_may_have_the_prompt() {
    let cancel = WorkerInput::Cancel { turn: None, reason: "enough".to_owned() };
    for (order, action) in [
        (cancel, WorkerAction::Cancel { turn: 1, reason: "enough".to_owned() }),
        (FORCED, WorkerAction::Terminate),
    ] {
        let (mut checker, _) = after(&[send(1)]);
        adopted(&mut checker);
        assert_eq!(checker.step(&order).unwrap(), std::slice::from_ref(&action), "{order:?}");
        assert_eq!(checker.worker.public_state(), WorkerState::Canceling);
        // The journal contains more than was sent: the cancel is sent again for the running turn.
        checker.step(&WorkerInput::Dispatching { turn: 1 }).unwrap();
        let attached = WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 1 };
        assert_eq!(checker.step(&attached).unwrap(), [action], "{order:?}");
        checker.step(&DIED).unwrap();
        assert_eq!(status(&checker, 1), TurnStatus::Canceled);
        // The runtime did not get the turn.
        let (mut checker, _) = after(&[send(1)]);
        adopted(&mut checker);
        checker.step(&order).unwrap();
        checker.step(&WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 0 }).unwrap();
        checker.step(&GONE).unwrap();
        assert_eq!(status(&checker, 1), TurnStatus::Canceled);
    }
}

#[test]
fn a_forced_one_decides_what_the_agent_asks() {
    let asked = WorkerInput::ApprovalRequested { request_id: super::request(1) };
    let (mut checker, _) = after(&[send(1), WorkerInput::Dispatching { turn: 1 }, asked, FORCED]);
    let asked = &checker.worker.approvals[&super::request(1)];
    assert_eq!(asked.approval, crate::model::Approval::DecidedByCancel);
    assert_eq!(checker.step(&DIED).unwrap(), [WorkerAction::StartRuntime]);
}

#[test]
fn another_daemon_commands_the_old_runtime_again() {
    let (mut checker, _) = after(&[GENTLY]);
    checker.reload();
    checker.worker.link = RuntimeStatus::Starting;
    let attached = |link| WorkerInput::Attached { link, last_turn: 0 };
    assert_eq!(checker.step(&attached(RuntimeStatus::Ready)).unwrap(), [WorkerAction::Terminate]);
    let (mut checker, _) = after(&[GENTLY, GONE]);
    checker.reload();
    checker.worker.link = RuntimeStatus::Starting;
    assert_eq!(checker.step(&attached(RuntimeStatus::Starting)).unwrap(), [], "it is the new one");
}

#[test]
fn a_stop_ends_it() {
    let (mut checker, _) = after(&[GENTLY, WorkerInput::Stop]);
    assert_eq!(checker.step(&GONE).unwrap(), []);
    checker.step(&WorkerInput::NothingLeft).unwrap();
    assert_eq!(checker.step(&GENTLY), Err(Code::WorkerStopped));
}

#[test]
fn a_session_of_a_runtime_whose_start_has_failed_starts_nothing() {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Starting;
    checker.step(&WorkerInput::StartFailed { error: failure() }).unwrap();
    let failed = checker.worker.clone();
    assert_eq!(checker.step(&session()).unwrap(), []);
    assert_eq!(checker.worker, failed);
}

#[test]
fn a_worker_that_is_being_started_is_restarted_only_beside_what_its_owner_gives_up() {
    let beside = WorkerInput::Restart { force: true, beside: true };
    let starting = || {
        let mut checker = Checker::new();
        checker.worker.link = RuntimeStatus::Starting;
        checker
    };
    let mut checker = starting();
    assert_eq!(checker.step(&FORCED), Err(Code::WorkerBusy));
    assert_eq!(checker.step(&beside).unwrap(), [WorkerAction::Terminate]);
    assert_eq!(checker.step(&DIED).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!((&checker.worker.state, checker.worker.restart), (&LifecycleState::Starting, Restart::Begun));
    assert_eq!(checker.step(&session()).unwrap(), []);
    assert_eq!((&checker.worker.state, checker.worker.restart), (&LifecycleState::Idle, Restart::None));
    // It waits for a place, so there is no runtime to end.
    let mut checker = starting();
    checker.worker.link = RuntimeStatus::None;
    assert_eq!(checker.step(&beside).unwrap(), [WorkerAction::StartRuntime]);
    // A runtime that did not get the order to end gets it with its hello.
    let mut checker = starting();
    checker.step(&beside).unwrap();
    checker.worker.link = RuntimeStatus::Adopted;
    let hello = WorkerInput::Attached { link: RuntimeStatus::Starting, last_turn: 0 };
    assert_eq!(checker.step(&hello).unwrap(), [WorkerAction::Terminate]);
}
