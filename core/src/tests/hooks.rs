//! Permission requests that wait for hooks: hidden, then decided or shown, once.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::data::questions::DecidingHook;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::{HookEvent, HookOrigin};
use subagent_protocol::state::{ApprovalStatus, WorkerState};

use super::{decide, events_of, rule, send};
use crate::checker::request;
use crate::model::{Approval, Fact, HooksOutcome, PermissionDecision, Worker, WorkerAction, WorkerInput};

fn held() -> Worker {
    let inputs = [
        send(1),
        WorkerInput::Dispatching { turn: 1 },
        WorkerInput::ApprovalRequested { request_id: request(1) },
        WorkerInput::HoldForHooks { request_id: request(1) },
    ];
    let start = Worker::without_runtime();
    inputs.into_iter().fold(start, |worker, input| worker.step(input).unwrap().worker)
}

fn answered(outcome: HooksOutcome) -> WorkerInput {
    WorkerInput::HooksAnswered { request_id: request(1), outcome }
}

/// Returns the possible outcomes of hooks.
pub(super) fn outcomes() -> [HooksOutcome; 3] {
    let choice =
        PermissionDecision { option_id: Some("allow".to_owned()), alias: None, decision: "allow".to_owned() };
    [HooksOutcome::Ask, denied(), HooksOutcome::ByRule { choice, rule: rule() }]
}

fn denied() -> HooksOutcome {
    let choice =
        PermissionDecision { option_id: Some("no".to_owned()), alias: None, decision: "deny".to_owned() };
    let hook = DecidingHook {
        event: HookEvent::PreToolUse,
        command: "check".to_owned(),
        file: "/hooks.yaml".into(),
        origin: HookOrigin::User,
    };
    HooksOutcome::ByHook { choice, reason: Some("why".to_owned()), hook }
}

fn released(facts: &[Fact]) -> usize {
    facts.iter().filter(|fact| matches!(fact, Fact::ApprovalReleased { .. })).count()
}

#[test]
fn a_held_request_is_no_question_and_is_not_decided_by_people() {
    let held = held();
    assert_eq!(held.approvals[&request(1)].approval, Approval::Held);
    assert_eq!(held.public_state(), WorkerState::Running);
    assert_eq!(held.step(decide(request(1), Some("yes"))).unwrap_err().code, Code::ApprovalNotPending);
}

#[test]
fn hooks_answer_once() {
    let step = held().step(answered(denied())).unwrap();
    assert_eq!(released(&step.facts), 1);
    let reported = &events_of(&step.facts, EventType::ApprovalDecided)[0];
    assert_eq!((&reported["by"], &reported["note"]), (&json!("hook"), &json!("why")));
    assert_eq!(reported["hook"]["command"], "check");
    let answer = WorkerAction::Answer { request_id: request(1), option_id: Some("no".to_owned()) };
    assert_eq!(step.actions, [answer]);
    let late = step.worker.step(answered(HooksOutcome::Ask)).unwrap();
    assert_eq!((late.facts.len(), late.actions.len()), (0, 0));
}

#[test]
fn what_no_hook_decides_is_asked() {
    let step = held().step(answered(HooksOutcome::Ask)).unwrap();
    assert_eq!((released(&step.facts), step.actions.len()), (1, 0));
    assert_eq!(step.worker.public_state(), WorkerState::WaitingApproval);
}

#[test]
fn the_end_of_a_held_request_is_reported_and_a_late_answer_means_nothing() {
    let ends = [
        WorkerInput::Cancel { turn: None, reason: "enough".to_owned() },
        WorkerInput::RuntimeGone { clean: true, rebooted: false, place: None },
        WorkerInput::AnswerRefused { request_id: request(1) },
    ];
    for end in ends {
        let step = held().step(end.clone()).unwrap();
        assert_eq!(released(&step.facts), 1, "{end:?}");
        let closed = |fact: &Fact| {
            matches!(
                fact,
                Fact::ApprovalClosed { status: ApprovalStatus::Lost | ApprovalStatus::Canceled, .. }
            ) || matches!(fact, Fact::ApprovalDecided { by_cancel: true, .. })
        };
        assert!(step.facts.iter().any(closed), "{end:?}");
        let late = step.worker.step(answered(denied())).unwrap();
        assert_eq!((late.facts.len(), late.actions.len()), (0, 0), "{end:?}");
    }
}
