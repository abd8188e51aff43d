//! Tasks: one test for each rule.

use subagent_protocol::api::TaskStatus;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::{QueuePause, TurnStatus};
use subagent_protocol::{Code, Error};

use super::{enqueue, failure, queued_id, send};
use crate::checker::Checker;
use crate::model::QueuePosition::{Delivered, Queued, Resumed};
use crate::model::{Fact, LastTurn, LifecycleState, TaskEnding, Worker, WorkerAction, WorkerInput};
use crate::task::{check_name, end_message, made_name, outcome};

fn ready() -> Checker {
    let mut checker = Checker::new();
    let session = WorkerInput::Session {
        origin: SessionOrigin::New,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    };
    checker.step(&session).unwrap();
    checker
}

fn end_task() -> WorkerInput {
    WorkerInput::EndTask { ending: TaskEnding::TimedOut, reason: "over".to_owned() }
}

#[test]
fn what_is_delivered_waits_its_turn_and_an_idle_worker_gets_it_in_the_same_step() {
    let mut checker = ready();
    assert_eq!(checker.step(&enqueue(1, Delivered)), Ok(vec![WorkerAction::Prompt { turn: 1 }]));
    checker.step(&WorkerInput::Dispatching { turn: 1 }).unwrap();
    checker.step(&enqueue(2, Delivered)).unwrap();
    checker.step(&WorkerInput::TurnEnd { turn: 1, end: TurnEnd::Failed { error: failure() } }).unwrap();
    assert_eq!(checker.worker.queue.paused, Some(QueuePause::TurnFailed));
    assert_eq!(checker.step(&enqueue(3, Delivered)), Ok(Vec::new()), "what is paused comes first");
    assert_eq!(checker.step(&enqueue(4, Resumed)), Ok(vec![WorkerAction::Prompt { turn: 2 }]));
    assert_eq!(checker.worker.queue.paused, None);
    assert_eq!(checker.worker.open_turn(), Some(&queued_id(2)), "in their order");
}

#[test]
fn a_task_that_is_ended_has_nothing_waiting_and_its_turn_canceled() {
    let mut checker = ready();
    checker.step(&send(1)).unwrap();
    checker.step(&WorkerInput::Dispatching { turn: 1 }).unwrap();
    checker.step(&enqueue(1, Queued)).unwrap();
    let step = checker.worker.step(end_task()).unwrap();
    assert_eq!(step.facts.first(), Some(&Fact::TaskEnding(TaskEnding::TimedOut)), "the first thing stored");
    let dropped = |fact: &Fact| fact.event_type() == Some(EventType::TurnDropped);
    assert!(step.facts.iter().any(dropped));
    assert_eq!(
        checker.step(&end_task()),
        Ok(vec![WorkerAction::Cancel { turn: 1, reason: "over".to_owned() }])
    );
    assert!(checker.worker.queue.turns.is_empty());
    checker.step(&end_task()).unwrap();
    checker.step(&WorkerInput::Stop).unwrap();
    let step = checker.worker.step(end_task()).unwrap();
    assert_eq!((step.facts.len(), step.worker), (0, checker.worker.clone()), "its stop ends it");
}

#[test]
fn more_is_said_only_to_what_waits() {
    let mut checker = ready();
    let more = || WorkerInput::AppendQueued { turn_id: queued_id(1), text: "more".to_owned() };
    assert_eq!(checker.step(&more()).unwrap_err().as_str(), "TURN_NOT_QUEUED");
    checker.step(&send(1)).unwrap();
    checker.step(&enqueue(1, Queued)).unwrap();
    checker.step(&more()).unwrap();
}

#[test]
fn a_task_ends_when_its_worker_has_nothing_to_do_and_by_what_ended_it() {
    let last = |status| Some(LastTurn { status, lost: false });
    let idle = Worker::without_runtime();
    let paused = |reason| {
        let mut worker = idle.clone();
        worker.queue.turns.push_back(queued_id(1));
        worker.queue.paused = reason;
        worker
    };
    let stopped = Worker { state: LifecycleState::Stopped, ..Worker::new() };
    let lost = Some(LastTurn { status: TurnStatus::Failed, lost: true });
    for (worker, ending, last, expected) in [
        (&idle, None, last(TurnStatus::Completed), Some(TaskStatus::Completed)),
        (&idle, None, last(TurnStatus::Failed), Some(TaskStatus::Failed)),
        (&idle, None, last(TurnStatus::Canceled), Some(TaskStatus::Cancelled)),
        (&idle, None, lost, Some(TaskStatus::Lost)),
        (&idle, None, None, Some(TaskStatus::Cancelled)),
        (&idle, Some(TaskEnding::TimedOut), last(TurnStatus::Canceled), Some(TaskStatus::TimedOut)),
        (
            &idle,
            Some(TaskEnding::MaxIterationsReached),
            last(TurnStatus::Completed),
            Some(TaskStatus::MaxIterationsReached),
        ),
        (&stopped, None, last(TurnStatus::Completed), Some(TaskStatus::Cancelled)),
        (&paused(None), None, last(TurnStatus::Completed), None),
        (&paused(Some(QueuePause::Restored)), None, None, None),
        (&paused(Some(QueuePause::Budget)), None, None, Some(TaskStatus::Failed)),
        (&paused(Some(QueuePause::TurnFailed)), None, last(TurnStatus::Failed), Some(TaskStatus::Failed)),
        (&Worker::new(), Some(TaskEnding::Cancelled), None, None),
    ] {
        assert_eq!(outcome(worker, ending, last), expected, "{worker:?} {ending:?} {last:?}");
    }
}

#[test]
fn m8_each_end_has_its_words() {
    let id: WorkerId = "w_0123456789".parse().unwrap();
    let end_message = |status, result: &str, error| end_message("Test Runner", &id, status, result, error);
    let begins = "[Subagent 'Test Runner' (w_0123456789) ";
    let error = Error::new(Code::PolicyViolation, "no luck");
    for (status, alone, explained) in [
        (TaskStatus::Completed, "completed: all green]", "completed: all green]"),
        (TaskStatus::Failed, "failed: it could not be begun]", "failed: POLICY_VIOLATION: no luck]"),
        (TaskStatus::Cancelled, "cancelled]", "cancelled: POLICY_VIOLATION: no luck]"),
        (
            TaskStatus::MaxIterationsReached,
            "reached its step limit]",
            "reached its step limit: POLICY_VIOLATION: no luck]",
        ),
        (TaskStatus::TimedOut, "timed out]", "timed out: POLICY_VIOLATION: no luck]"),
        (TaskStatus::Lost, "lost]", "lost: POLICY_VIOLATION: no luck]"),
    ] {
        assert_eq!(end_message(status, "all green", None), format!("{begins}{alone}"));
        assert_eq!(end_message(status, "all green", Some(&error)), format!("{begins}{explained}"));
    }
    let long = end_message(TaskStatus::Completed, &"ä".repeat(2_000), None);
    assert_eq!(long.matches('ä').count(), 1_000);
}

#[test]
fn names_are_made_of_descriptions_and_are_unique() {
    let free = |_: &str| false;
    assert_eq!(made_name("  Run\nthe   tests\u{7} ", free), "Run the tests");
    assert_eq!(made_name("\n", free), "task");
    let taken = |name: &str| ["task", "task-2"].contains(&name);
    assert_eq!(made_name("", taken), "task-3");
    let long = "ü".repeat(100);
    let first = made_name(&long, free);
    assert_eq!(first.chars().count(), 64);
    let second = made_name(&long, |name| name == first);
    assert!(second.ends_with("-2") && second.chars().count() == 64, "{second}");
    check_name(&second).unwrap();
}
