//! Hooks of held permission requests: started for each held request, aborted when it is no longer
//! held. Which hooks run follows from the stored state, so a new daemon runs those of held requests
//! again.

use subagent_config::policy::RuleAction;
use subagent_core::model::{Approval, HooksOutcome, PermissionDecision, WorkerInput};
use subagent_protocol::hook_answer::HookWord;
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::ApprovalRequested;

use crate::supervisor::hooks::{self, Answered, HookSubject, HookVerdict};
use crate::supervisor::policy::choice_of;
use crate::supervisor::worker::STORE_RETRY;
use crate::supervisor::worker::actor::Actor;

/// Starts the hooks of held requests and aborts those of others.
pub(crate) fn check(actor: &mut Actor) {
    if !actor.runtime.settled {
        return;
    }
    let approvals = &actor.worker.approvals;
    let held = |id: &RequestId| approvals.get(id).is_some_and(|asked| asked.approval == Approval::Held);
    actor.questions.hooks.by_request.retain(|id, running| {
        let wanted = held(id);
        if !wanted {
            running.abort();
        }
        wanted
    });
    for id in approvals.keys().filter(|id| held(id)) {
        if actor.questions.hooks.by_request.contains_key(id) {
            continue;
        }
        let asker = HookSubject {
            id: actor.identity.id,
            worker_id: actor.identity.worker_id.clone(),
            session_id: actor.session.id.clone(),
            hooks: actor.spec.hooks.clone(),
        };
        let (shared, watch, request_id) = (actor.shared.clone(), actor.questions.policy.clone(), id.clone());
        let asks = move |asked: &str| {
            let ruled = watch.as_ref().and_then(|watch| watch.judge(asked));
            !ruled.as_ref().is_some_and(hooks::allows)
        };
        let running = actor.questions.hooks.running.spawn(async move {
            let heard = hooks::run(&shared, asker, &request_id, asks).await;
            if heard.is_err() {
                tokio::time::sleep(STORE_RETRY).await;
            }
            (request_id, heard)
        });
        actor.questions.hooks.by_request.insert(id.clone(), running);
    }
}

/// Applies the answer of a request's hooks.
pub(crate) async fn answered(actor: &mut Actor, (request_id, heard): Answered) {
    actor.questions.hooks.by_request.remove(&request_id);
    let heard = match heard {
        Ok(heard) => heard,
        // The hooks run again, because the request is still held.
        Err(error) => {
            let worker = &actor.identity.worker_id;
            tracing::error!(%worker, %request_id, %error, "hooks could not be run; trying again");
            return;
        }
    };
    for failed in &heard.failed {
        actor.note_hook_failed(failed).await;
    }
    let outcome = outcome(actor, heard);
    subagent_failpoint::hit("decision.before_commit");
    actor.apply(WorkerInput::HooksAnswered { request_id, outcome }).await;
    subagent_failpoint::hit("decision.after_commit");
}

/// Combines the answer of the hooks with the current policy. The strictest verdict wins, except
/// that a user's hook may allow what would ask.
fn outcome(actor: &Actor, heard: HookVerdict) -> HooksOutcome {
    let ruled = actor.questions.policy.as_ref().and_then(|watch| watch.judge(&heard.asked));
    let asked = serde_json::from_str::<ApprovalRequested>(&heard.asked).ok();
    let HookVerdict { word, reason, hook, .. } = heard;
    let by_hook = |choice| match hook {
        Some(hook) => HooksOutcome::ByHook { choice, reason, hook },
        None => HooksOutcome::Ask,
    };
    match (ruled, word) {
        (Some(WorkerInput::DecideByRule { choice, rule, .. }), word)
            if choice.decision != HookWord::Allow.as_str()
                || matches!(word, HookWord::Nothing | HookWord::Allow) =>
        {
            HooksOutcome::ByRule { choice, rule }
        }
        (_, HookWord::Deny) => {
            let choice = asked.as_ref().and_then(|asked| choice_of(asked, RuleAction::Deny));
            by_hook(choice.unwrap_or_else(PermissionDecision::cancelled))
        }
        (_, HookWord::Allow) => match asked.as_ref().and_then(|asked| choice_of(asked, RuleAction::Allow)) {
            Some(choice) => by_hook(choice),
            None => HooksOutcome::Ask,
        },
        (_, HookWord::Ask | HookWord::Nothing) => HooksOutcome::Ask,
    }
}
