//! Hooks of held permission requests: started for each held request, aborted when it is no longer
//! held. Which hooks run follows from the stored state, so a new daemon runs those of held requests
//! again.

use std::time::Duration;

use subagent_config::policy::RuleAction;
use subagent_core::model::{Approval, HooksOutcome, PermissionDecision, WorkerInput};
use subagent_protocol::Error;
use subagent_protocol::hook_answer::HookWord;
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::ApprovalRequested;

use crate::supervisor::hooks::{self, Answered, HookSubject, HookVerdict};
use crate::supervisor::policy::choice_of;
use crate::supervisor::worker::actor::Actor;

/// Delay before the hooks of a request run again after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);

impl Actor {
    /// Starts the hooks of held requests and aborts those of others.
    pub(crate) fn look_after_hooks(&mut self) {
        if !self.settled {
            return;
        }
        let approvals = &self.worker.approvals;
        let held = |id: &RequestId| approvals.get(id).is_some_and(|asked| asked.approval == Approval::Held);
        self.hooks.by_request.retain(|id, running| {
            let wanted = held(id);
            if !wanted {
                running.abort();
            }
            wanted
        });
        for id in approvals.keys().filter(|id| held(id)) {
            if self.hooks.by_request.contains_key(id) {
                continue;
            }
            let asker = HookSubject {
                id: self.id,
                worker_id: self.worker_id.clone(),
                session_id: self.session_id.clone(),
                hooks: self.spec.hooks.clone(),
            };
            let (shared, watch, request_id) = (self.shared.clone(), self.watch.clone(), id.clone());
            let asks = move |asked: &str| {
                let ruled = watch.as_ref().and_then(|watch| watch.judge(asked));
                !ruled.as_ref().is_some_and(hooks::allows)
            };
            let running = self.hooks.running.spawn(async move {
                let heard = hooks::run(&shared, asker, &request_id, asks).await;
                if heard.is_err() {
                    tokio::time::sleep(STORE_RETRY).await;
                }
                (request_id, heard)
            });
            self.hooks.by_request.insert(id.clone(), running);
        }
    }

    /// Applies the answer of a request's hooks.
    pub(crate) async fn hooks_answered(&mut self, (request_id, heard): Answered) {
        self.hooks.by_request.remove(&request_id);
        let heard = match heard {
            Ok(heard) => heard,
            Err(error) => return self.hooks_failed(&request_id, &error),
        };
        for failed in &heard.failed {
            self.note_hook_failed(failed).await;
        }
        let outcome = self.outcome(heard);
        subagent_failpoint::hit("decision.before_commit");
        self.apply(WorkerInput::HooksAnswered { request_id, outcome }).await;
        subagent_failpoint::hit("decision.after_commit");
    }

    /// The hooks run again, because the request is still held.
    fn hooks_failed(&self, request_id: &RequestId, error: &Error) {
        tracing::error!(worker = %self.worker_id, %request_id, %error, "hooks could not be run; trying again");
    }

    /// Combines the answer of the hooks with the current policy. The strictest verdict wins, except
    /// that a user's hook may allow what would ask.
    fn outcome(&self, heard: HookVerdict) -> HooksOutcome {
        let ruled = self.watch.as_ref().and_then(|watch| watch.judge(&heard.asked));
        let asked = serde_json::from_str::<ApprovalRequested>(&heard.asked).ok();
        let HookVerdict { word, reason, hook, .. } = heard;
        let by_hook = |choice| HooksOutcome::ByHook { choice, reason, hook };
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
            (_, HookWord::Allow) => {
                match asked.as_ref().and_then(|asked| choice_of(asked, RuleAction::Allow)) {
                    Some(choice) => by_hook(choice),
                    None => HooksOutcome::Ask,
                }
            }
            (_, HookWord::Ask | HookWord::Nothing) => HooksOutcome::Ask,
        }
    }
}
