//! Rules for files and terminals of the client: which requests the runtime asks about, and the
//! answers. A worker with rules must not use a runtime that does not ask: an older one is ended.

use subagent_core::model::{LifecycleState, RuntimeStatus, WorkerInput};
use subagent_protocol::frame::{CLIENT_RULES, RuntimeCommand, RuntimeHello, RuntimePhase};
use subagent_protocol::ids::RequestId;
use subagent_protocol::start::ClientRules;
use subagent_protocol::{Code, Error};

use crate::store::questions::decided;
use crate::supervisor::policy::PolicyTracker;
use crate::supervisor::worker::actor::Actor;

impl Actor {
    /// Returns what a runtime asks about. If the stored rules are unreadable, it asks about
    /// everything, and the owner answers.
    pub(crate) fn client_rules(&self) -> Option<ClientRules> {
        self.spec.policy.as_ref()?;
        let all = || ClientRules { read: true, edit: true, execute: true, guarded: Vec::new() };
        Some(self.watch.as_ref().map_or_else(all, PolicyTracker::client_rules))
    }

    /// Sends a decision to the runtime, with the rule that made it.
    pub(crate) async fn answer_permission(&mut self, request_id: RequestId, option_id: Option<String>) {
        let mut rule = None;
        if self.watch.is_some() {
            let (worker, asked) = (self.id, request_id.clone());
            let found =
                self.shared.store.read(move |connection| decided::rule(connection, worker, asked.as_str()));
            match found.await {
                Ok(found) => rule = found,
                Err(error) => {
                    tracing::error!(worker = %self.worker_id, %error, "a decision cannot be read; trying again");
                    return self.say_again_later();
                }
            }
        }
        self.command(RuntimeCommand::Answer { request_id, option_id, rule });
    }

    /// Like [`Self::ends_without_rules`], for a runtime that got no prompt yet, before its journal
    /// reports that the worker has started. Journal records of other runtimes are read first.
    pub(crate) async fn starts_without_rules(&mut self, hello: &RuntimeHello) -> bool {
        let starts =
            self.worker.link == RuntimeStatus::Starting || self.worker.state == LifecycleState::Starting;
        starts && hello.incarnation == self.incarnation && self.ends_without_rules(hello).await
    }

    /// Ends a runtime that would execute what the rules deny. Returns whether it did.
    pub(crate) async fn ends_without_rules(&mut self, hello: &RuntimeHello) -> bool {
        let asks = hello.capabilities.iter().any(|known| known == CLIENT_RULES);
        let ends = matches!(hello.phase, RuntimePhase::Ending | RuntimePhase::Failed { .. });
        if self.spec.policy.is_none() || asks || ends {
            return false;
        }
        let message = "the worker's runtime is of a version that does not apply rules to files and terminals";
        let error = Error::new(Code::BackendRuntimeError, message)
            .with("reasonCategory", "worker")
            .with("runtimeVersion", hello.version.as_str())
            .recommend("install subagentd and subagent-runtime of the same version, then restart the worker");
        self.apply(WorkerInput::StartFailed { error }).await;
        self.command(RuntimeCommand::Terminate { reason: message.to_owned() });
        self.ends_soon();
        true
    }
}
