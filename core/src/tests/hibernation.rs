//! Hibernation ends nothing that is open, and loses nothing that is accepted meanwhile.

use subagent_protocol::Code;
use subagent_protocol::event::EventType;
use subagent_protocol::record::SessionOrigin;
use subagent_protocol::state::TurnStatus;

use super::{decide, failure, send, simulate_asking};
use crate::checker::{Checker, request};
use crate::model::{Hibernation, LifecycleState, Restart, RuntimeStatus, WorkerAction, WorkerInput};

const IDLE: WorkerInput = WorkerInput::Hibernate { idle_seconds: 90 };
const ENDS: WorkerAction = WorkerAction::Hibernate { last_turn: 0 };
const GONE: WorkerInput = WorkerInput::RuntimeGone { clean: true, rebooted: false, place: None };
const DIED: WorkerInput = WorkerInput::RuntimeGone { clean: false, rebooted: false, place: None };

fn session() -> WorkerInput {
    WorkerInput::Session {
        origin: SessionOrigin::Resumed,
        context_lost: false,
        context_lost_reason: None,
        took_ms: Some(250),
    }
}

fn terminating() -> WorkerInput {
    WorkerInput::Terminating { reason: "the worker was idle".to_owned() }
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

/// Returns the events of a step, with their data.
fn events(checker: &Checker, input: &WorkerInput) -> Vec<(EventType, serde_json::Value)> {
    let facts = checker.worker.step(input.clone()).unwrap().facts;
    facts.iter().filter_map(super::event).map(|(event_type, _, data)| (event_type, data)).collect()
}

#[test]
fn an_idle_agent_is_ended_and_the_next_message_has_it_back() {
    let (mut checker, actions) = after(&[IDLE]);
    assert_eq!((actions, checker.worker.link), (vec![ENDS], RuntimeStatus::Ending));
    checker.step(&terminating()).unwrap();
    let found = events(&checker, &GONE);
    assert_eq!(found, [(EventType::WorkerHibernated, serde_json::json!({"idleSeconds": 90}))]);
    assert_eq!(checker.step(&GONE).unwrap(), []);
    assert_eq!((&checker.worker.state, checker.worker.link), (&LifecycleState::Idle, RuntimeStatus::None));
    assert_eq!(checker.worker.hibernation, Hibernation::Begun);
    checker.reload();
    assert_eq!(checker.step(&send(1)).unwrap(), [WorkerAction::StartRuntime]);
    let (event_type, data) = events(&checker, &session()).remove(0);
    assert_eq!(event_type, EventType::WorkerRestarted);
    assert_eq!((&data["hibernated"], &data["tookMs"]), (&true.into(), &250.into()));
    assert_eq!(checker.step(&session()).unwrap(), [WorkerAction::Prompt { turn: 1 }]);
    assert_eq!(checker.worker.hibernation, Hibernation::None);
}

#[test]
fn a_worker_with_something_open_does_not_hibernate() {
    let asked = WorkerInput::ApprovalRequested { request_id: request(1) };
    let busy = [
        vec![send(1)],
        vec![send(1), WorkerInput::Dispatching { turn: 1 }],
        vec![asked.clone()],
        vec![asked, decide(request(1), Some("allow"))],
        vec![WorkerInput::ElicitationRequested { request_id: request(1) }],
        vec![simulate_asking(1)],
        vec![WorkerInput::Restart { force: false, beside: false }],
        vec![WorkerInput::Restart { force: false, beside: false }, GONE],
        vec![WorkerInput::Ending],
        vec![WorkerInput::Stop],
        vec![IDLE],
        vec![IDLE, GONE],
    ];
    for inputs in busy {
        let (checker, _) = after(&inputs);
        let step = checker.worker.step(IDLE).unwrap();
        assert_eq!((step.worker, step.actions), (checker.worker, vec![]), "{inputs:?}");
    }
}

#[test]
fn a_message_in_between_goes_to_the_next_runtime() {
    let (mut checker, actions) = after(&[IDLE, send(1)]);
    assert_eq!(actions, [], "never to the one that ends");
    assert_eq!(checker.step(&DIED).unwrap(), [WorkerAction::StartRuntime]);
    assert!(checker.worker.turn().is_some_and(|turn| !turn.retried), "the old one did not lose the message");
    assert_eq!(checker.step(&DIED).unwrap(), [WorkerAction::StartRuntime], "it has its second chance still");
    assert_eq!(checker.step(&session()).unwrap(), [WorkerAction::Prompt { turn: 1 }]);
    // If the runtime stays, it gets the message.
    let (_, actions) = after(&[IDLE, send(1), WorkerInput::HibernateRefused]);
    assert_eq!(actions, [WorkerAction::Prompt { turn: 1 }]);
}

#[test]
fn a_message_that_is_canceled_meanwhile_does_not_wake_it() {
    let cancel = WorkerInput::Cancel { turn: None, reason: "enough".to_owned() };
    let (mut checker, actions) = after(&[IDLE, send(1), cancel]);
    assert_eq!((actions, checker.rows.turns[&1].status), (vec![], TurnStatus::Canceled));
    assert_eq!(checker.step(&GONE).unwrap(), []);
    assert_eq!(checker.worker.hibernation, Hibernation::Begun);
}

#[test]
fn a_runtime_that_refuses_stays() {
    let (mut checker, actions) = after(&[IDLE, WorkerInput::HibernateRefused]);
    assert_eq!((actions, checker.worker.link), (vec![], RuntimeStatus::Ready));
    assert!(checker.worker.rests());
    // A runtime that dies then counts as lost.
    let (event_type, _) = events(&checker, &DIED).remove(0);
    assert_eq!(event_type, EventType::WorkerLost);
    checker.step(&DIED).unwrap();
    assert_eq!(checker.worker.hibernation, Hibernation::None);
}

#[test]
fn a_runtime_that_is_killed_meanwhile_is_no_loss() {
    let (checker, _) = after(&[IDLE]);
    for end in [DIED, WorkerInput::RuntimeGone { clean: false, rebooted: true, place: None }] {
        let found = events(&checker, &end);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, EventType::WorkerHibernated);
    }
}

#[test]
fn orders_in_between_win() {
    let (mut checker, actions) = after(&[IDLE, WorkerInput::Restart { force: false, beside: false }]);
    assert_eq!(actions, [WorkerAction::Terminate], "it may refuse what it was told before");
    assert_eq!(checker.step(&WorkerInput::HibernateRefused).unwrap(), []);
    assert_eq!(checker.worker.link, RuntimeStatus::Ending);
    assert_eq!(checker.step(&GONE).unwrap(), [WorkerAction::StartRuntime]);
    assert_eq!((checker.worker.restart, checker.worker.hibernation), (Restart::Begun, Hibernation::None));
    let (mut checker, actions) = after(&[IDLE, WorkerInput::Stop]);
    assert_eq!(actions, [WorkerAction::Terminate]);
    assert_eq!(checker.step(&WorkerInput::HibernateRefused).unwrap(), []);
    checker.step(&GONE).unwrap();
    checker.step(&WorkerInput::NothingLeft).unwrap();
    assert_eq!(checker.step(&send(1)), Err(Code::WorkerStopped));
}

#[test]
fn one_that_hibernates_is_restarted_stopped_and_woken() {
    let (mut checker, actions) = after(&[IDLE, GONE, WorkerInput::Restart { force: false, beside: false }]);
    assert_eq!(actions, [WorkerAction::StartRuntime]);
    assert_eq!(events(&checker, &session()).remove(0).1["hibernated"], true);
    checker.step(&session()).unwrap();
    let (mut checker, actions) = after(&[IDLE, GONE, WorkerInput::Stop]);
    assert_eq!(actions, []);
    checker.step(&WorkerInput::NothingLeft).unwrap();
    let (mut checker, actions) = after(&[IDLE, GONE, WorkerInput::Wake]);
    assert_eq!(actions, [WorkerAction::StartRuntime]);
    assert_eq!(checker.step(&WorkerInput::Wake).unwrap(), [], "once");
    checker.step(&session()).unwrap();
    assert!(checker.worker.rests());
    let (_, actions) = after(&[WorkerInput::Wake]);
    assert_eq!(actions, [], "it is awake");
}

#[test]
fn one_that_cannot_be_woken_is_idle_with_an_error() {
    for failed in
        [WorkerInput::StartFailed { error: failure() }, WorkerInput::SpawnFailed { error: failure() }]
    {
        let (mut checker, _) = after(&[IDLE, GONE, send(1), failed]);
        assert_eq!(checker.rows.turns[&1].status, TurnStatus::Failed);
        assert_eq!(
            (&checker.worker.state, checker.worker.hibernation),
            (&LifecycleState::Idle, Hibernation::None)
        );
        checker.step(&GONE).unwrap();
        assert_eq!(checker.step(&send(2)).unwrap(), [WorkerAction::StartRuntime]);
    }
}

#[test]
fn another_daemon_says_it_again_or_leaves_it() {
    let attached = |link| WorkerInput::Attached { link, last_turn: 3 };
    let adopted = |inputs: &[WorkerInput]| {
        let (mut checker, _) = after(inputs);
        checker.reload();
        checker.worker.link = RuntimeStatus::Adopted;
        checker
    };
    // The runtime did not get the command.
    let mut checker = adopted(&[IDLE]);
    assert_eq!(
        checker.step(&attached(RuntimeStatus::Ready)).unwrap(),
        [WorkerAction::Hibernate { last_turn: 3 }]
    );
    // The runtime got the command.
    let mut checker = adopted(&[IDLE]);
    assert_eq!(checker.step(&attached(RuntimeStatus::Ending)).unwrap(), []);
    assert_eq!(events(&checker, &GONE).remove(0).0, EventType::WorkerHibernated);
    // The runtime did not get the command, and there is work.
    let mut checker = adopted(&[IDLE, send(1)]);
    let attached = WorkerInput::Attached { link: RuntimeStatus::Ready, last_turn: 0 };
    assert_eq!(checker.step(&attached).unwrap(), [WorkerAction::Prompt { turn: 1 }]);
    let mut checker = adopted(&[IDLE, WorkerInput::ApprovalRequested { request_id: request(1) }]);
    assert_eq!(checker.step(&attached).unwrap(), []);
    assert_eq!((checker.worker.link, checker.worker.hibernation), (RuntimeStatus::Ready, Hibernation::None));
}
