//! The values of the rules: a worker and its parts, inputs, facts and actions.

mod action;
mod approval;
pub mod decision;
mod fact;
mod input;
mod queue;
mod rate_limit;
mod runtime;
mod spent;
mod task;
mod turn;
mod worker;

pub use action::{Transition, WorkerAction};
pub(crate) use approval::event_of;
pub use approval::{AgentRequest, Approval, ApprovalInput};
pub use decision::{ElicitationReply, HooksOutcome, PermissionDecision};
pub use fact::{Fact, InboxFact, NewRule};
pub use input::{Expiry, QuestionInput, WorkerInput};
pub use queue::{Queue, QueuePosition, Queued};
#[cfg(any(test, feature = "testing"))]
pub(crate) use rate_limit::MAX_BACKOFFS;
pub use rate_limit::{Parking, RateLimit};
pub use runtime::{Hibernation, Restart, RuntimeStatus};
pub use spent::Spent;
pub use task::{LastTurn, TaskEnding};
pub use turn::{By, Cancel, LifecycleState, RuntimeTurn, SimulatedTurn};
pub use worker::Worker;
