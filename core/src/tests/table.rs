//! Rows of the written table, one history each.

use subagent_protocol::Code;
use subagent_protocol::event::EventType;
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::state::{ApprovalStatus, Dispatched, TurnStatus, WorkerState};

use super::{decide, failure, send, simulate, simulate_asking};
use crate::checker::{Checker, LOCAL, may_follow, request};
use crate::model::{
    Approval, ApprovalInput, Fact, LifecycleState, RuntimeStatus, SimulatedTurn, Worker, WorkerAction,
    WorkerInput,
};

const GONE: WorkerInput = WorkerInput::RuntimeGone { clean: false, rebooted: false, place: None };
const CLEAN: WorkerInput = WorkerInput::RuntimeGone { clean: true, rebooted: false, place: None };

fn session() -> WorkerInput {
    WorkerInput::Session {
        origin: SessionOrigin::New,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    }
}

fn cancel() -> WorkerInput {
    WorkerInput::Cancel { turn: None, reason: "canceled by manager".to_owned() }
}

fn cancel_requested() -> WorkerInput {
    WorkerInput::CancelRequested { turn: 1, reason: "canceled by manager".to_owned() }
}

fn answered() -> WorkerInput {
    WorkerInput::TurnEnd {
        turn: 1,
        end: TurnEnd::Answered { stop_reason: Some("cancelled".to_owned()), usage: None, meta: None },
    }
}

fn failed() -> WorkerInput {
    WorkerInput::TurnEnd { turn: 1, end: TurnEnd::Failed { error: failure() } }
}

fn asks() -> WorkerInput {
    WorkerInput::ApprovalRequested { request_id: request(1) }
}

fn refused(some: bool) -> WorkerInput {
    WorkerInput::PromptRefused { turn: 1, error: some.then(failure) }
}

fn attached(link: RuntimeStatus, last_turn: u64) -> WorkerInput {
    WorkerInput::Attached { link, last_turn }
}

/// Returns the worker after these inputs, and the actions of the last one. All inputs must be
/// accepted.
fn after(inputs: &[WorkerInput]) -> (Checker, Vec<WorkerAction>) {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Starting;
    let mut actions = Vec::new();
    for input in inputs {
        actions = checker.step(input).unwrap_or_else(|code| panic!("{code} for {input:?}"));
    }
    (checker, actions)
}

/// Returns the end of a runtime by a signal.
fn asked_to_end() -> WorkerInput {
    WorkerInput::Terminating { reason: "SIGTERM".to_owned() }
}

fn running() -> Vec<WorkerInput> {
    vec![session(), send(1), WorkerInput::Dispatching { turn: 1 }]
}

fn with(mut inputs: Vec<WorkerInput>, more: &[WorkerInput]) -> Vec<WorkerInput> {
    inputs.extend_from_slice(more);
    inputs
}

#[test]
fn only_what_is_over_can_be_retired() {
    let refused =
        [vec![], vec![session()], running(), with(running(), &[GONE]), vec![session(), simulate_asking(1)]];
    for inputs in refused {
        let (mut checker, _) = after(&inputs);
        let before = checker.worker.clone();
        assert_eq!(checker.step(&WorkerInput::Retire), Err(Code::InvalidWorkerState), "{inputs:?}");
        assert_eq!(checker.worker, before);
    }
    let failed = || WorkerInput::StartFailed { error: failure() };
    // The runtime is ending, but not gone.
    let (mut checker, _) = after(&[failed()]);
    assert_eq!(checker.step(&WorkerInput::Retire), Err(Code::InvalidWorkerState));
    let retired = [WorkerInput::Retire, WorkerInput::Retire, WorkerInput::NothingLeft, WorkerInput::Retire];
    let (checker, actions) = after(&with(vec![failed(), CLEAN], &retired));
    assert_eq!((checker.worker.state, actions), (LifecycleState::Stopped, vec![]));
    // A stopping worker is waited for.
    let (_, actions) = after(&with(running(), &[WorkerInput::Stop, WorkerInput::Retire]));
    assert_eq!(actions, vec![]);
}

#[test]
fn how_a_turn_ends() {
    use Dispatched::{Maybe, No, Yes};
    use TurnStatus::{Accepted, Canceled, Completed, Failed};
    let sent = || vec![session(), send(1)];
    let old = || vec![session(), WorkerInput::Ending, send(1)];
    let restart = |clean| WorkerInput::RuntimeGone { clean, rebooted: true, place: None };
    let table = [
        ("answered", with(running(), &[answered()]), Completed, Yes),
        ("failed", with(running(), &[failed()]), Failed, Maybe),
        ("the runtime dies", with(running(), &[GONE]), Failed, Maybe),
        ("the runtime dies before the prompt", with(sent(), &[GONE]), Accepted, No),
        ("and so does the next one", with(sent(), &[GONE, GONE]), Failed, No),
        ("power is lost before the prompt's record", with(sent(), &[restart(false)]), Failed, Maybe),
        ("canceled", with(running(), &[cancel(), cancel_requested(), answered()]), Canceled, Maybe),
        (
            "canceled, the agent fails",
            with(running(), &[cancel(), cancel_requested(), failed()]),
            Canceled,
            Maybe,
        ),
        (
            "canceled, the runtime dies",
            with(running(), &[cancel(), cancel_requested(), GONE]),
            Canceled,
            Maybe,
        ),
        ("the runtime dies before it takes the cancel", with(running(), &[cancel(), GONE]), Canceled, Maybe),
        ("the cancel came too late", with(running(), &[cancel(), answered()]), Completed, Yes),
        ("the cancel came too late for a failure", with(running(), &[cancel(), failed()]), Failed, Maybe),
        (
            "a cancel that only the journal knows",
            with(running(), &[cancel_requested(), answered()]),
            Canceled,
            Maybe,
        ),
        ("canceled before there is a runtime", with(old(), &[cancel()]), Canceled, No),
        ("canceled, and the prompt is refused", with(sent(), &[cancel(), refused(true)]), Canceled, No),
        (
            "canceled, and the prompt never arrived",
            with(sent(), &[cancel(), attached(RuntimeStatus::Ready, 0)]),
            Canceled,
            No,
        ),
        (
            "canceled, and a runtime that ends has not written down the prompt yet",
            with(
                sent(),
                &[
                    attached(RuntimeStatus::Ending, 1),
                    cancel(),
                    WorkerInput::Dispatching { turn: 1 },
                    asked_to_end(),
                    GONE,
                ],
            ),
            Canceled,
            Maybe,
        ),
        ("and never does", with(sent(), &[attached(RuntimeStatus::Ending, 1), cancel(), GONE]), Canceled, No),
        ("canceled while the prompt is under way", with(sent(), &[cancel()]), Accepted, No),
        ("the prompt is refused", with(sent(), &[refused(true)]), Failed, No),
        ("the prompt is refused by a runtime that ends", with(sent(), &[refused(false)]), Accepted, No),
        ("sent while the old runtime ends", old(), Accepted, No),
        ("which is gone", with(old(), &[CLEAN]), Accepted, No),
        (
            "and the next one cannot start",
            with(old(), &[CLEAN, WorkerInput::StartFailed { error: failure() }]),
            Failed,
            No,
        ),
        (
            "or is not even started",
            with(old(), &[CLEAN, WorkerInput::SpawnFailed { error: failure() }]),
            Failed,
            No,
        ),
        ("or dies", with(old(), &[CLEAN, GONE]), Failed, No),
        ("its runtime is told to end", with(running(), &[asked_to_end(), answered()]), Canceled, Maybe),
        ("told to end before the prompt", with(sent(), &[asked_to_end(), CLEAN]), Accepted, No),
        (
            "the agent ends by itself",
            with(running(), &[cancel(), WorkerInput::Ending, failed()]),
            Failed,
            Maybe,
        ),
        ("stopped", with(running(), &[WorkerInput::Stop, WorkerInput::Ending, answered()]), Canceled, Maybe),
        (
            "stopped, the agent does not listen",
            with(running(), &[WorkerInput::Stop, WorkerInput::Ending, failed()]),
            Canceled,
            Maybe,
        ),
        ("stopped, the runtime dies", with(running(), &[WorkerInput::Stop, GONE]), Canceled, Maybe),
        ("the stop came too late", with(running(), &[WorkerInput::Stop, answered()]), Completed, Yes),
        (
            "stopped before the prompt",
            with(sent(), &[WorkerInput::Stop, WorkerInput::Ending, CLEAN]),
            Canceled,
            No,
        ),
    ];
    for (what, history, status, dispatched) in table {
        let (checker, _) = after(&history);
        let row = &checker.rows.turns[&1];
        assert_eq!((row.status, row.dispatched), (status, dispatched), "{what}");
        let open = checker.worker.turn().is_some();
        assert_eq!(open, status == Accepted, "{what}");
    }
}

#[test]
fn what_follows_from_an_input() {
    let prompt = WorkerAction::Prompt { turn: 1 };
    let cancels = WorkerAction::Cancel { turn: 1, reason: "canceled by manager".to_owned() };
    let allow = WorkerAction::Answer { request_id: request(1), option_id: Some("allow".to_owned()) };
    let old = || vec![session(), WorkerInput::Ending, send(1)];
    let table = [
        ("a ready runtime gets the prompt", vec![session(), send(1)], vec![prompt.clone()]),
        ("without one, one is started", vec![session(), CLEAN, send(1)], vec![WorkerAction::StartRuntime]),
        ("its session brings the prompt", vec![session(), CLEAN, send(1), session()], vec![prompt.clone()]),
        ("an old one must be gone first", old(), vec![]),
        ("then the next is started", with(old(), &[GONE]), vec![WorkerAction::StartRuntime]),
        ("also for one that died at once", vec![session(), send(1), GONE], vec![WorkerAction::StartRuntime]),
        ("but only once", vec![session(), send(1), GONE, GONE], vec![]),
        ("not for a worker that is stopped", with(old(), &[WorkerInput::Stop, GONE]), vec![]),
        ("a cancel is sent", with(running(), &[cancel()]), vec![cancels.clone()]),
        ("once", with(running(), &[cancel(), cancel()]), vec![]),
        ("not to a worker that is stopped", with(running(), &[WorkerInput::Stop, cancel()]), vec![]),
        ("a stop ends the runtime", with(running(), &[WorkerInput::Stop]), vec![WorkerAction::Terminate]),
        ("once", with(running(), &[WorkerInput::Stop, WorkerInput::Stop]), vec![]),
        (
            "an answer is sent",
            with(running(), &[asks(), decide(request(1), Some("allow"))]),
            vec![allow.clone()],
        ),
        (
            "a lost prompt is sent again",
            vec![session(), send(1), attached(RuntimeStatus::Ready, 0)],
            vec![prompt],
        ),
        ("a taken one is not", with(running(), &[attached(RuntimeStatus::Ready, 1)]), vec![]),
        (
            "a lost cancel is sent again",
            with(running(), &[cancel(), attached(RuntimeStatus::Ready, 1)]),
            vec![cancels],
        ),
        (
            "a taken one is not",
            with(running(), &[cancel(), cancel_requested(), attached(RuntimeStatus::Ready, 1)]),
            vec![],
        ),
        (
            "a lost answer is sent again",
            with(running(), &[asks(), decide(request(1), Some("allow")), attached(RuntimeStatus::Ready, 1)]),
            vec![allow],
        ),
        (
            "so is a lost stop",
            with(running(), &[WorkerInput::Stop, attached(RuntimeStatus::Ready, 1)]),
            vec![WorkerAction::Terminate],
        ),
    ];
    for (what, history, expected) in table {
        assert_eq!(after(&history).1, expected, "{what}");
    }
}

#[test]
fn what_users_see() {
    use WorkerState as W;
    let table = [
        (vec![], W::Starting),
        (vec![session()], W::Idle),
        (vec![session(), send(1)], W::Running),
        (with(running(), &[asks()]), W::WaitingApproval),
        (with(running(), &[asks(), decide(request(1), None)]), W::Running),
        (with(running(), &[asks(), cancel()]), W::Canceling),
        (with(running(), &[asks(), failed()]), W::Idle),
        (with(running(), &[WorkerInput::Stop]), W::Canceling),
        (vec![session(), asks()], W::Idle),
        (vec![session(), WorkerInput::Stop], W::Idle),
        (vec![session(), WorkerInput::Stop, GONE], W::Idle),
        (vec![session(), WorkerInput::Stop, GONE, WorkerInput::NothingLeft], W::Stopped),
        (vec![WorkerInput::StartFailed { error: failure() }], W::Error),
        (vec![WorkerInput::SpawnFailed { error: failure() }], W::Error),
        (vec![GONE], W::Error),
        (vec![CLEAN], W::Error),
        (vec![GONE, send(1)], W::Running),
        (vec![session(), simulate(1)], W::Idle),
        (vec![GONE, simulate(1)], W::Idle),
        (vec![session(), simulate_asking(1)], W::WaitingApproval),
        (vec![session(), simulate_asking(1), decide(request(LOCAL), Some("allow"))], W::Idle),
        (vec![session(), simulate_asking(1), cancel()], W::Idle),
        (vec![session(), simulate_asking(1), GONE, session()], W::WaitingApproval),
    ];
    for (history, expected) in table {
        assert_eq!(after(&history).0.worker.public_state(), expected, "{history:?}");
    }
    assert!(
        !may_follow(W::Stopped, W::Idle)
            && !may_follow(W::Idle, W::Canceling)
            && !may_follow(W::Canceling, W::Running)
    );
}

#[test]
fn what_is_refused() {
    let stopped = || vec![session(), WorkerInput::Stop, GONE, WorkerInput::NothingLeft];
    let twice = decide(request(1), Some("allow"));
    let table = [
        (vec![], send(1), Code::WorkerBusy),
        (running(), send(2), Code::WorkerBusy),
        (vec![session(), WorkerInput::Stop], send(1), Code::WorkerStopped),
        (stopped(), send(1), Code::WorkerStopped),
        (vec![session()], cancel(), Code::WorkerNotRunning),
        (stopped(), cancel(), Code::WorkerNotRunning),
        (vec![session(), simulate_asking(1)], send(2), Code::WorkerBusy),
        (vec![session(), simulate_asking(1)], simulate(2), Code::WorkerBusy),
        (vec![session(), simulate(1)], cancel(), Code::WorkerNotRunning),
        (vec![session(), simulate_asking(1)], WorkerInput::Dispatching { turn: 1 }, Code::Internal),
        (vec![session(), simulate_asking(1)], twice.clone(), Code::ApprovalNotFound),
        (running(), twice.clone(), Code::ApprovalNotFound),
        (with(running(), &[asks(), twice.clone()]), twice.clone(), Code::ApprovalNotPending),
        (with(running(), &[asks(), cancel()]), twice, Code::ApprovalNotPending),
        (running(), WorkerInput::Dispatching { turn: 2 }, Code::Internal),
        (with(running(), &[answered()]), answered(), Code::Internal),
        (with(running(), &[answered()]), cancel_requested(), Code::Internal),
        (with(running(), &[asks()]), asks(), Code::Internal),
    ];
    for (history, input, code) in table {
        let (mut checker, _) = after(&history);
        assert_eq!(checker.step(&input), Err(code), "{input:?}");
    }
}

#[test]
fn a_refusal_that_is_older_than_the_link_changes_nothing() {
    for (history, link) in [
        (vec![session(), CLEAN, send(1)], RuntimeStatus::Starting),
        (vec![session(), WorkerInput::Ending, send(1)], RuntimeStatus::Ending),
    ] {
        let (mut checker, _) = after(&history);
        checker.step(&refused(false)).unwrap();
        assert_eq!(checker.worker.link, link);
    }
    let (mut checker, _) = after(&running());
    let before = checker.worker.clone();
    for some in [false, true] {
        checker.step(&refused(some)).unwrap();
        assert_eq!(checker.worker, before, "the journal says that it was taken");
    }
}

#[test]
fn nothing_left_counts_only_without_a_runtime() {
    let (mut checker, _) = after(&[session(), WorkerInput::Stop, WorkerInput::NothingLeft]);
    assert_eq!(checker.worker.state, LifecycleState::Stopping(None));
    // A failed start proves nothing: processes of an earlier agent may be the reason.
    checker.step(&WorkerInput::SpawnFailed { error: failure() }).unwrap();
    assert_eq!(
        (&checker.worker.state, checker.worker.link),
        (&LifecycleState::Stopping(None), RuntimeStatus::None)
    );
    checker.step(&WorkerInput::NothingLeft).unwrap();
    assert_eq!(checker.worker.state, LifecycleState::Stopped);
}

#[test]
fn how_a_permission_request_ends() {
    use ApprovalClosedReason as Why;
    use ApprovalStatus as S;
    let decided = Approval::Decided { option_id: None };
    for why in Why::ALL {
        let delivered = *why == Why::TurnCanceled;
        let by_cancel = if delivered { S::Delivered } else { S::Undelivered };
        let closed = ApprovalInput::Closed(*why);
        assert_eq!(Approval::Pending.end(&closed), S::Canceled);
        assert_eq!(decided.end(&closed), S::Undelivered);
        assert_eq!(Approval::DecidedByCancel.end(&closed), by_cancel);
    }
    let table = [
        (ApprovalInput::AnswerWritten, [S::Delivered, S::Delivered, S::Delivered]),
        (ApprovalInput::AnswerRefused, [S::Canceled, S::Undelivered, S::Undelivered]),
        (ApprovalInput::Lost, [S::Lost, S::Undelivered, S::Undelivered]),
    ];
    for (input, expected) in table {
        let ends =
            [&Approval::Pending, &decided, &Approval::DecidedByCancel].map(|approval| approval.end(&input));
        assert_eq!(ends, expected, "{input:?}");
    }
}

#[test]
fn what_a_turn_leaves_open_ends_as_its_own_before_it() {
    let (checker, _) = after(&with(running(), &[asks()]));
    let step = checker.worker.step(failed()).unwrap();
    let events: Vec<(EventType, Option<u64>)> =
        step.facts.iter().filter_map(super::event).map(|(event_type, turn, _)| (event_type, turn)).collect();
    assert_eq!(events, [(EventType::ApprovalCanceled, Some(1)), (EventType::TurnFailed, Some(1))]);
}

#[test]
fn what_was_asked_before_the_prompt_was_taken_outlives_the_turn() {
    // The agent asks while the prompt of the accepted turn is on its way.
    let path = [session(), send(1), asks(), WorkerInput::Dispatching { turn: 1 }, answered()];
    let (mut checker, _) = after(&path);
    let (_, asked) = checker.worker.approvals.first_key_value().expect("the agent still waits");
    assert_eq!((asked.turn, &asked.approval), (None, &Approval::Pending));
    let actions = checker.step(&decide(request(1), Some("allow"))).unwrap();
    assert!(matches!(&actions[..], [WorkerAction::Answer { .. }]), "{actions:?}");
}

#[test]
fn a_decision_is_said_again_also_when_the_hello_ends_a_canceled_turn() {
    let path = [session(), asks(), decide(request(1), Some("allow")), send(1), cancel()];
    let (mut checker, _) = after(&path);
    checker.reload();
    let actions = checker.step(&attached(RuntimeStatus::Ready, 0)).unwrap();
    assert_eq!(checker.worker.state, LifecycleState::Idle);
    let [WorkerAction::Answer { request_id, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(*request_id, request(1));
}

#[test]
fn what_was_asked_outside_of_a_turn_outlives_the_turn() {
    for end in [answered(), failed()] {
        let (checker, _) = after(&[session(), asks(), send(1), WorkerInput::Dispatching { turn: 1 }, end]);
        assert_eq!(checker.worker.state, LifecycleState::Idle);
        let asked = &checker.worker.approvals[&request(1)];
        assert_eq!((asked.turn, &asked.approval), (None, &Approval::Pending), "it can still be answered");
    }
    // A cancel concerns the turn. The journal reports what happens to the other request.
    let (mut checker, _) =
        after(&[session(), asks(), send(1), WorkerInput::Dispatching { turn: 1 }, cancel()]);
    assert_eq!(checker.worker.approvals[&request(1)].approval, Approval::Pending);
    let reason = ApprovalClosedReason::TurnCanceled;
    checker.step(&WorkerInput::ApprovalClosed { request_id: request(1), reason }).unwrap();
    assert!(checker.worker.approvals.is_empty());
}

/// Returns the events of a step, with one text field of their data.
fn events_with(worker: &Worker, input: WorkerInput, field: &str) -> Vec<(EventType, String)> {
    let facts = worker.step(input).unwrap().facts;
    let text = |data: serde_json::Value| data[field].as_str().unwrap_or_default().to_owned();
    facts.iter().filter_map(super::event).map(|(event_type, _, data)| (event_type, text(data))).collect()
}

#[test]
fn how_a_simulated_turn_ends() {
    use EventType as E;
    let (checker, _) = after(&[session(), simulate_asking(1)]);
    let text = |word: &str| word.to_owned();
    for (answer, outcome) in [("allow", "approved"), ("deny", "rejected")] {
        let events = events_with(&checker.worker, decide(request(LOCAL), Some(answer)), "outcome");
        assert_eq!(events, [(E::ApprovalDecided, text("")), (E::TurnCompleted, text(outcome))]);
    }
    let events = events_with(&checker.worker, decide(request(LOCAL), None), "reason");
    assert_eq!(events, [(E::ApprovalDecided, text("")), (E::TurnCanceled, text("canceled by manager"))]);
    let events =
        events_with(&checker.worker, WorkerInput::Cancel { turn: None, reason: text("enough") }, "reason");
    assert_eq!(events, [(E::ApprovalDecided, text("")), (E::TurnCanceled, text("enough"))]);
    let events = events_with(&checker.worker, WorkerInput::Stop, "reason");
    let stopped = text("worker stopped by manager");
    assert_eq!(events, [(E::ApprovalCanceled, text("stopped")), (E::TurnCanceled, stopped)]);
}

#[test]
fn a_worker_that_is_started_without_a_runtime_gets_one_with_its_first_message() {
    let mut worker = Worker::without_runtime();
    for input in [simulate(1), simulate_asking(2), decide(request(LOCAL), Some("allow"))] {
        let step = worker.step(input).unwrap();
        assert_eq!(step.actions, []);
        worker = step.worker;
    }
    let step = worker.step(send(3)).unwrap();
    assert_eq!((step.actions, step.worker.link), (vec![WorkerAction::StartRuntime], RuntimeStatus::Starting));
}

#[test]
fn nothing_of_a_runtime_touches_a_simulated_turn() {
    let (mut checker, _) = after(&[session(), asks(), simulate_asking(1)]);
    let local = SimulatedTurn { no: 1, id: super::turn_id(1), request_id: request(LOCAL) };
    for input in [
        attached(RuntimeStatus::Ready, 0),
        refused(true),
        decide(request(1), Some("allow")),
        WorkerInput::AnswerWritten { request_id: request(1) },
        asked_to_end(),
        WorkerInput::Ending,
        GONE,
        WorkerInput::SpawnFailed { error: failure() },
        WorkerInput::NothingLeft,
    ] {
        let actions = checker.step(&input).unwrap();
        let answers = |action: &WorkerAction| matches!(action, WorkerAction::Answer { .. });
        assert!(actions.iter().all(answers), "{actions:?}");
        assert_eq!(checker.worker.state, LifecycleState::Local(local.clone()), "{input:?}");
    }
}

#[test]
fn a_loss_says_what_to_do_next() {
    let events_with = |history: &[WorkerInput]| {
        let (checker, _) = after(history);
        let step: Vec<Fact> = checker.worker.step(GONE).unwrap().facts;
        step.iter()
            .rev()
            .find_map(|fact| match fact {
                Fact::LastError(Some(error)) => Some(error.clone()),
                _ => None,
            })
            .unwrap()
    };
    let (unsent, sent, idle) =
        (events_with(&[session(), send(1), GONE]), events_with(&running()), events_with(&[session()]));
    assert!([&unsent, &sent, &idle].iter().all(|error| error.code == Code::RuntimeLost));
    assert_eq!((unsent.details["dispatched"].as_str(), unsent.retryable), (Some("no"), true));
    assert_eq!((sent.details["dispatched"].as_str(), sent.retryable), (Some("maybe"), false));
    assert!(idle.details.is_empty() && !idle.message.contains("prompt"), "no turn was open");
}

#[test]
fn a_new_worker_waits_for_its_first_runtime() {
    assert_eq!(Worker::new(), Worker::default());
    assert_eq!((Worker::new().public_state(), Worker::new().turn()), (WorkerState::Starting, None));
}

#[test]
fn the_tokens_of_a_turn_are_reported_at_its_end() {
    let usage = Some(serde_json::json!({"inputTokens": 100, "outputTokens": 20}));
    let end = TurnEnd::Answered { stop_reason: Some("end_turn".to_owned()), usage, meta: None };
    let (checker, _) = after(&running());
    let step = checker.worker.step(WorkerInput::TurnEnd { turn: 1, end }).unwrap();
    let completed = super::events_of(&step.facts, EventType::TurnCompleted);
    assert_eq!(completed[0]["usage"], serde_json::json!({"inputTokens": 100, "outputTokens": 20}));
}
