//! Possible and impossible histories.

use std::collections::{BTreeMap, BTreeSet};
use std::{mem, thread};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::{ApprovalClosedReason, SessionOrigin, TurnEnd};
use subagent_protocol::state::ElicitationAction;

use super::hooks::outcomes;
use super::inbox::in_the_inbox;
use super::ops::{ModelOperation, ops};
use super::world::World;
use super::{
    answer, costs, decide, enqueue, failure, limited, over_budget, queued_id, send, simulate,
    simulate_asking, turn_id,
};
use crate::checker::{Checker, LOCAL, StateShape, request};
use crate::model::{QueuePosition, RuntimeStatus, TaskEnding, Worker, WorkerInput};

fn live(history: &[ModelOperation]) -> World {
    let mut world = World::new();
    for op in history {
        world.apply(op);
    }
    world
}

proptest! {
    #![proptest_config(Config { cases: 1_000, ..Config::default() })]

    #[test]
    fn the_promises_hold_in_any_history_of_a_runtime_and_its_daemons(history in prop::collection::vec(ops(), 0..120)) {
        live(&history).finish();
    }

    #[test]
    fn after_any_history_everything_ends_once_undisturbed(history in prop::collection::vec(ops(), 0..120)) {
        live(&history).settle();
    }

    #[test]
    fn what_cannot_be_never_breaks_a_worker(history in prop::collection::vec((anything(), prop::bool::weighted(0.05)), 0..80)) {
        let mut checker = Checker::new();
        for (index, (input, reload)) in history.iter().enumerate() {
            if *reload {
                checker.reload();
            }
            // The checker checks errors, too.
            let _ = checker.step(&named(input, u16::try_from(index).unwrap(), &checker.worker));
        }
    }
}

/// Replaces the id by one that is unique, or by that of the first queued turn.
fn named(input: &WorkerInput, index: u16, worker: &Worker) -> WorkerInput {
    let first = || worker.queue.turns.front().cloned().unwrap_or_else(|| queued_id(u16::MAX));
    match input {
        WorkerInput::Enqueue { urgency, .. } => enqueue(index, *urgency),
        WorkerInput::DropQueued { .. } => WorkerInput::DropQueued { turn_id: first() },
        WorkerInput::AppendQueued { text, .. } => {
            WorkerInput::AppendQueued { turn_id: first(), text: text.clone() }
        }
        WorkerInput::MoveQueued { to, .. } => WorkerInput::MoveQueued { turn_id: first(), to: *to },
        other => other.clone(),
    }
}

fn requests() -> impl Strategy<Value = RequestId> {
    prop::sample::select(vec![0, 1, 2, LOCAL]).prop_map(request)
}

fn anything() -> impl Strategy<Value = WorkerInput> {
    let turn = || 1u64..5;
    let error = || prop::bool::ANY.prop_map(|some| some.then(failure));
    let link = prop::sample::select(vec![
        RuntimeStatus::None,
        RuntimeStatus::Adopted,
        RuntimeStatus::Starting,
        RuntimeStatus::Ready,
        RuntimeStatus::Ending,
    ]);
    let reason = prop::sample::select(ApprovalClosedReason::ALL.to_vec());
    let action = prop::sample::select(ElicitationAction::ALL.to_vec());
    let origin = prop::sample::select(SessionOrigin::ALL.to_vec());
    let end = prop_oneof![
        Just(TurnEnd::Answered { stop_reason: None, usage: None, meta: None }),
        Just(TurnEnd::Failed { error: failure() }),
    ];
    prop_oneof![
        3 => (1u64..200).prop_map(send),
        2 => (requests(), any::<bool>()).prop_map(|(id, select)| decide(id, select.then_some("allow"))),
        4 => prop::sample::select(vec![
                QueuePosition::Queued, QueuePosition::Retried, QueuePosition::Steered, QueuePosition::Delivered, QueuePosition::Resumed,
            ])
            .prop_map(|urgency| enqueue(0, urgency)),
        1 => Just(WorkerInput::DropQueued { turn_id: queued_id(0) }),
        1 => (0usize..4).prop_map(|to| WorkerInput::MoveQueued { turn_id: queued_id(0), to }),
        1 => Just(WorkerInput::ResumeQueue),
        1 => Just(WorkerInput::AppendQueued { turn_id: queued_id(0), text: "more".to_owned() }),
        1 => Just(end_task()),
        1 => any::<bool>().prop_map(|refused| WorkerInput::OpenQueued { refused: refused.then(failure) }),
        2 => any::<bool>().prop_map(|queued| WorkerInput::Cancel {
            turn: queued.then(|| queued_id(0)),
            reason: "enough".to_owned(),
        }),
        1 => Just(over_budget()),
        1 => Just(costs(3)),
        1 => prop_oneof![Just(WorkerInput::Stop), Just(WorkerInput::GiveUp)],
        1 => Just(WorkerInput::Retire),
        1 => any::<bool>().prop_map(|force| WorkerInput::Restart { force, beside: force }),
        3 => Just(WorkerInput::Hibernate { idle_seconds: 60 }),
        1 => Just(WorkerInput::HibernateRefused),
        1 => Just(WorkerInput::Wake),
        2 => (origin, any::<bool>()).prop_map(|(origin, context_lost)| WorkerInput::Session { origin, context_lost, context_lost_reason: None, took_ms: None }),
        1 => Just(WorkerInput::StartFailed { error: failure() }),
        1 => Just(WorkerInput::SpawnFailed { error: failure() }),
        3 => turn().prop_map(|turn| WorkerInput::Dispatching { turn }),
        1 => turn().prop_map(recovered),
        1 => (0u8..3).prop_map(request).prop_map(|request_id| WorkerInput::ApprovalRecovered { request_id }),
        3 => (0u8..3).prop_map(request).prop_map(|request_id| WorkerInput::ApprovalRequested { request_id }),
        3 => (0u8..3).prop_map(request).prop_map(|request_id| WorkerInput::ElicitationRequested { request_id }),
        3 => requests().prop_map(|request_id| WorkerInput::HoldForHooks { request_id }),
        2 => (requests(), prop::sample::select(outcomes().to_vec()))
            .prop_map(|(request_id, outcome)| WorkerInput::HooksAnswered { request_id, outcome }),
        2 => (requests(), action).prop_map(|(id, action)| answer(id, action)),
        1 => (1u64..200, any::<bool>()).prop_map(|(no, asks)| if asks { simulate_asking(no) } else { simulate(no) }),
        1 => (requests(), reason).prop_map(|(request_id, reason)| WorkerInput::ApprovalClosed { request_id, reason }),
        1 => requests().prop_map(|request_id| WorkerInput::AnswerWritten { request_id }),
        1 => requests().prop_map(|request_id| WorkerInput::AnswerRefused { request_id }),
        1 => (turn(), error()).prop_map(|(turn, error)| WorkerInput::PromptRefused { turn, error }),
        2 => turn().prop_map(|turn| WorkerInput::CancelRequested { turn, reason: "the journal's".to_owned() }),
        2 => (turn(), end).prop_map(|(turn, end)| WorkerInput::TurnEnd { turn, end }),
        2 => (turn(), any::<bool>()).prop_map(|(turn, known)| {
            limited(WorkerInput::TurnEnd { turn, end: TurnEnd::Failed { error: failure() } }, known.then_some(60_000))
        }),
        1 => any::<bool>().prop_map(|known| {
            limited(WorkerInput::StartFailed { error: failure() }, known.then_some(60_000))
        }),
        2 => Just(WorkerInput::ParkingOver),
        1 => Just(WorkerInput::Ending),
        1 => Just(WorkerInput::Terminating { reason: "SIGTERM".to_owned() }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(clean, rebooted)| WorkerInput::RuntimeGone { clean, rebooted, place: None }),
        1 => (link, 0u64..5).prop_map(|(link, last_turn)| WorkerInput::Attached { link, last_turn }),
        1 => Just(WorkerInput::NothingLeft),
        3 => (requests(), requests(), 0u8..5).prop_map(|(first, second, how)| {
            in_the_inbox(how, first.clone(), vec![first, second])
        }),
    ]
}

fn end_task() -> WorkerInput {
    WorkerInput::EndTask { ending: TaskEnding::Cancelled, reason: "enough".to_owned() }
}

/// Returns a turn that the store does not know.
fn recovered(turn: u64) -> WorkerInput {
    WorkerInput::TurnRecovered { turn, turn_id: turn_id(turn + 1_000) }
}

/// Returns every input with the few values that matter for a worker with at most two turns.
fn all_inputs() -> Vec<WorkerInput> {
    let mut inputs = vec![
        send(1),
        simulate(1),
        simulate_asking(1),
        decide(request(LOCAL), Some("allow")),
        decide(request(LOCAL), None),
        enqueue(1, QueuePosition::Queued),
        end_task(),
        WorkerInput::DropQueued { turn_id: queued_id(1) },
        WorkerInput::ResumeQueue,
        WorkerInput::OpenQueued { refused: None },
        WorkerInput::OpenQueued { refused: Some(failure()) },
        WorkerInput::Cancel { turn: None, reason: "enough".to_owned() },
        over_budget(),
        costs(3),
        WorkerInput::Stop,
        WorkerInput::GiveUp,
        WorkerInput::Retire,
        WorkerInput::Restart { force: false, beside: false },
        WorkerInput::Restart { force: true, beside: false },
        WorkerInput::Hibernate { idle_seconds: 60 },
        WorkerInput::HibernateRefused,
        WorkerInput::Wake,
        WorkerInput::Session {
            origin: SessionOrigin::New,
            context_lost: false,
            context_lost_reason: None,
            took_ms: None,
        },
        WorkerInput::StartFailed { error: failure() },
        WorkerInput::SpawnFailed { error: failure() },
        WorkerInput::ApprovalRequested { request_id: request(1) },
        WorkerInput::ElicitationRequested { request_id: request(1) },
        answer(request(1), ElicitationAction::Accept),
        answer(request(1), ElicitationAction::Cancel),
        WorkerInput::ApprovalRecovered { request_id: request(1) },
        WorkerInput::HoldForHooks { request_id: request(1) },
        WorkerInput::AnswerWritten { request_id: request(1) },
        WorkerInput::AnswerRefused { request_id: request(1) },
        decide(request(1), Some("allow")),
        decide(request(1), None),
        in_the_inbox(0, request(1), vec![request(1)]),
        in_the_inbox(1, request(1), vec![]),
        in_the_inbox(2, request(1), vec![]),
        in_the_inbox(4, request(1), vec![]),
        in_the_inbox(4, request(LOCAL), vec![]),
        WorkerInput::Ending,
        WorkerInput::Terminating { reason: "SIGTERM".to_owned() },
        WorkerInput::NothingLeft,
        WorkerInput::ParkingOver,
        limited(WorkerInput::StartFailed { error: failure() }, Some(60_000)),
    ];
    for outcome in outcomes() {
        inputs.push(WorkerInput::HooksAnswered { request_id: request(1), outcome });
    }
    for reason in ApprovalClosedReason::ALL {
        inputs.push(WorkerInput::ApprovalClosed { request_id: request(1), reason: *reason });
    }
    for turn in 1..=2 {
        inputs.push(WorkerInput::Dispatching { turn });
        inputs.push(recovered(turn));
        inputs.push(WorkerInput::CancelRequested { turn, reason: "the journal's".to_owned() });
        inputs.push(WorkerInput::TurnEnd {
            turn,
            end: TurnEnd::Answered { stop_reason: None, usage: None, meta: None },
        });
        inputs.push(WorkerInput::TurnEnd { turn, end: TurnEnd::Failed { error: failure() } });
        let limit =
            |after| limited(WorkerInput::TurnEnd { turn, end: TurnEnd::Failed { error: failure() } }, after);
        inputs.push(limit(Some(60_000)));
        inputs.push(WorkerInput::PromptRefused { turn, error: None });
        inputs.push(WorkerInput::PromptRefused { turn, error: Some(failure()) });
    }
    for (clean, rebooted) in [(true, false), (false, false), (false, true)] {
        inputs.push(WorkerInput::RuntimeGone { clean, rebooted, place: None });
    }
    for link in [RuntimeStatus::Starting, RuntimeStatus::Ready, RuntimeStatus::Ending] {
        for last_turn in 0..=2 {
            inputs.push(WorkerInput::Attached { link, last_turn });
        }
    }
    inputs
}

/// Applies every input in every state that a worker with at most two turns and one permission
/// request can reach.
#[test]
fn all_inputs_in_all_states() {
    let inputs = all_inputs();
    // As text, because most parts of a worker have no order.
    let mut seen = BTreeSet::<String>::new();
    let mut shapes = BTreeSet::new();
    let mut level = vec![Checker::new()];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    while !level.is_empty() {
        let parts = level.chunks(level.len().div_ceil(threads));
        let found: Vec<_> = thread::scope(|scope| {
            let (inputs, seen) = (&inputs, &seen);
            let running: Vec<_> =
                parts.map(|part| scope.spawn(move || new_states(part, inputs, seen))).collect();
            running.into_iter().flat_map(|part| part.join().unwrap()).collect()
        });
        level = Vec::new();
        for (text, checker) in found {
            if seen.insert(text) {
                shapes.insert(StateShape::of(&checker.worker));
                level.push(checker);
            }
        }
    }
    for expected in expected_shapes() {
        assert!(shapes.contains(&expected), "{expected:?} cannot be reached");
    }
    assert!(shapes.iter().all(|shape| shape.state != "stopped" || shape.approvals == (false, false, false)));
}

/// Applies every input to each of these states. Returns the new states that are not in `seen`.
fn new_states(
    states: &[Checker],
    inputs: &[WorkerInput],
    seen: &BTreeSet<String>,
) -> BTreeMap<String, Checker> {
    let mut found = BTreeMap::new();
    for before in states {
        let mut checker = before.clone();
        for input in inputs {
            let worker = &checker.worker;
            if worker.last_turn >= 2 && matches!(input, WorkerInput::Send { .. }) {
                continue;
            }
            if let WorkerInput::Enqueue { queued, .. } = input
                && (worker.last_turn + worker.queue.turns.len() as u64 >= 2
                    || checker.rows.knows(&queued.turn_id))
            {
                continue;
            }
            // A refused input does not change the checker.
            if checker.step(input).is_ok() {
                let text = format!("{:?}", checker.worker);
                let after = mem::replace(&mut checker, before.clone());
                // Of the steps while a worker stays parked, only the first is explored. The
                // generated histories cover the rest.
                let goes_on = matches!(input, WorkerInput::RuntimeGone { .. });
                if before.worker.is_parked() && after.worker.is_parked() && !goes_on {
                    continue;
                }
                if !seen.contains(&text) {
                    found.entry(text).or_insert(after);
                }
            }
        }
    }
    found
}

/// Returns every row of the written table.
fn expected_shapes() -> Vec<StateShape> {
    let none = (false, false, false);
    let mut shapes: Vec<StateShape> = ["starting", "idle", "local", "stopping", "error", "stopped"]
        .map(|state| StateShape { state, turn: None, approvals: none, parked: false })
        .to_vec();
    let asked = [none, (true, false, false), (false, true, false)];
    for cancel in ["none", "wanted", "requested"] {
        for approvals in asked {
            shapes.push(StateShape { state: "turn", turn: Some((true, cancel)), approvals, parked: false });
        }
    }
    for dispatching in [false, true] {
        for cancel in ["wanted", "requested"] {
            shapes.push(StateShape {
                state: "stopping",
                turn: Some((dispatching, cancel)),
                approvals: none,
                parked: false,
            });
        }
    }
    let approvals = (false, false, true);
    shapes.push(StateShape { state: "turn", turn: Some((true, "wanted")), approvals, parked: false });
    for cancel in ["none", "wanted"] {
        shapes.push(StateShape {
            state: "turn",
            turn: Some((false, cancel)),
            approvals: none,
            parked: false,
        });
    }
    // An agent may ask outside of a turn.
    for state in ["idle", "local"] {
        shapes.push(StateShape { state, turn: None, approvals: (true, false, false), parked: false });
    }
    for (state, turn) in [("idle", None), ("error", None), ("turn", Some((false, "none")))] {
        shapes.push(StateShape { state, turn, approvals: none, parked: true });
    }
    shapes
}

/// Checks that the generated histories reach every state of the table. Otherwise they would prove
/// nothing.
#[test]
fn the_generated_histories_come_to_every_state() {
    let mut runner = TestRunner::deterministic();
    let histories = prop::collection::vec(ops(), 100);
    let mut shapes = BTreeSet::new();
    for _ in 0..1_000 {
        let history = histories.new_tree(&mut runner).unwrap().current();
        shapes.extend(live(&history).checker.shapes);
    }
    let missing: Vec<StateShape> =
        expected_shapes().into_iter().filter(|shape| !shapes.contains(shape)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
