//! Rules for files and terminals of the client: which requests the runtime asks about, and the
//! answers. A worker with rules must not use a runtime that does not ask: an older one is ended.

use subagent_core::model::{LifecycleState, RuntimeStatus, WorkerInput};
use subagent_protocol::frame::{CLIENT_RULES, RuntimeCommand, RuntimeHello, RuntimePhase};
use subagent_protocol::ids::RequestId;
use subagent_protocol::{Code, Error};

use crate::store::questions::decided;
use crate::supervisor::worker::actor::Actor;

/// Sends a decision to the runtime, with the rule that made it.
pub(crate) async fn answer(actor: &mut Actor, request_id: RequestId, option_id: Option<String>) {
    let mut rule = None;
    if actor.questions.policy.is_some() {
        let (worker, asked) = (actor.identity.id, request_id.clone());
        let found =
            actor.shared.store.read(move |connection| decided::rule(connection, worker, asked.as_str()));
        match found.await {
            Ok(found) => rule = found,
            Err(error) => {
                tracing::error!(worker = %actor.identity.worker_id, %error, "a decision cannot be read; trying again");
                return actor.runtime.say_again_later();
            }
        }
    }
    actor.runtime.command(RuntimeCommand::Answer { request_id, option_id, rule });
}

/// Like [`ends_without_rules`], for a runtime that got no prompt yet, before its journal
/// reports that the worker has started. Journal records of other runtimes are read first.
pub(crate) async fn starts_without_rules(actor: &mut Actor, hello: &RuntimeHello) -> bool {
    let starts =
        actor.worker.link == RuntimeStatus::Starting || actor.worker.state == LifecycleState::Starting;
    starts && hello.incarnation == actor.runtime.incarnation && ends_without_rules(actor, hello).await
}

/// Ends a runtime that would execute what the rules deny. Returns whether it did.
pub(crate) async fn ends_without_rules(actor: &mut Actor, hello: &RuntimeHello) -> bool {
    let asks = hello.capabilities.iter().any(|known| known == CLIENT_RULES);
    let ends = matches!(hello.phase, RuntimePhase::Ending | RuntimePhase::Failed { .. });
    if actor.spec.policy.is_none() || asks || ends {
        return false;
    }
    let message = "the worker's runtime is of a version that does not apply rules to files and terminals";
    let error = Error::new(Code::BackendRuntimeError, message)
        .with("reasonCategory", "worker")
        .with("runtimeVersion", hello.version.as_str())
        .recommend("install subagentd and subagent-runtime of the same version, then restart the worker");
    actor.apply(WorkerInput::StartFailed { error }).await;
    actor.runtime.terminate_for(message);
    true
}
