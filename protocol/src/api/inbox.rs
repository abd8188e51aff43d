//! The inbox: the questions of all workers, who decided them, and the rules that decisions became.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ApprovalDecided;
use crate::Error;
use crate::event::ApprovalOption;
use crate::ids::{ControllerId, InstanceId, RequestId, RuleId, TurnId, WorkerId};
use crate::policy::PolicyRule;
use crate::state::{ApprovalStatus, QuestionKind, words};
use crate::time::Timestamp;

/// The longest time that a question may wait: nobody waits for longer than a year.
pub const MOST_WAIT_MS: u64 = 366 * 86_400_000;

words! {
    /// What becomes of a question that nobody has decided in time.
    OnTimeout {
        /// It is denied; an elicitation is declined.
        Deny = "deny",
        /// Its turn is canceled.
        Cancel = "cancel",
    }
}

words! {
    /// Who decided a question.
    DecidedBy {
        /// The owner, or whoever may act in his place.
        Owner = "owner",
        /// A rule of the owner.
        Rule = "rule",
        /// A hook.
        Hook = "hook",
        /// Its deadline.
        Deadline = "deadline",
        /// The cancel of its turn.
        Cancel = "cancel",
    }
}

words! {
    /// For whom a decision becomes a rule.
    RuleScope {
        /// For the worker that asks.
        Worker = "worker",
        /// For all workers of its controller, also those that are started later.
        Controller = "controller",
    }
}

/// How long the questions of a worker wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AnswerTime {
    /// In milliseconds, from when it is asked; at least 1, at most a year.
    pub timeout_ms: u64,
    /// What happens then.
    pub on_timeout: OnTimeout,
}

/// A question, in a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InboxItem {
    /// Its id.
    pub request_id: RequestId,
    /// The worker that asks.
    pub worker_id: WorkerId,
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// Its label.
    pub label: String,
    /// Of a task: the names from the root to it; absent of a worker that is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Its controller.
    pub controller_id: ControllerId,
    /// The turn that asks.
    pub turn_id: Option<TurnId>,
    /// Whether `approve` answers it, or `answer`.
    pub kind: QuestionKind,
    /// The kind of the tool, in ACP's words; null of an elicitation, and if the agent does not tell.
    pub tool_kind: Option<String>,
    /// What it is about, in one line: the command, the path, the address, the tool, or the agent's own words.
    pub subject: String,
    /// Its status.
    pub status: ApprovalStatus,
    /// Since when.
    pub created_at: Timestamp,
    /// When it is decided if nobody else does.
    pub deadline_at: Option<Timestamp>,
    /// And how.
    pub on_timeout: Option<OnTimeout>,
    /// The rule for which it is asked, as `policy` of `approval.decided`; its `rule` is null if no rule fits. Null if the
    /// worker has no rules.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub rule: Option<Value>,
}

/// Data of `inbox.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    /// The open questions, oldest first.
    pub items: Vec<InboxItem>,
    /// How many.
    pub count: usize,
}

/// Who decided a question, when and how; `decidedBy` of `APPROVAL_NOT_PENDING`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Decider {
    /// Who.
    pub by: DecidedBy,
    /// The ownership, if the decision came with its handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// Its controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<ControllerId>,
    /// When.
    pub at: Timestamp,
    /// The decision as it was given; the action of an elicitation.
    pub decision: String,
    /// The rule, as `policy` of `approval.decided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub rule: Option<Value>,
}

/// Data of `approval.shown`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalShown {
    /// The question.
    #[serde(flatten)]
    pub item: InboxItem,
    /// What is asked, in a sentence.
    pub message: String,
    /// Where the worker works.
    pub cwd: String,
    /// The answers that are offered.
    pub options: Vec<ApprovalOption>,
    /// What the agent tells of it, as `approval.requested` and `elicitation.requested` have it: `command`, `rawInput`,
    /// `content` (with differences), `locations`, `schema`, `url`, `sessionId`, ...
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub request: Map<String, Value>,
    /// Who decided it.
    pub decided_by: Option<Decider>,
    /// Commands that answer it; none if it is over.
    pub answers: Vec<String>,
    /// The rule that `--always` makes of an answer that allows it; absent if no rule says exactly this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_rule: Option<String>,
}

/// `POST /v1/workers/{id}/approvals`: decides all permission requests of a worker that are open.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DecideAll {
    /// What fits an option of each: its alias or id, or a synonym of allow or deny.
    pub decision: String,
    /// A note for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What became of one of several permission requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DecidedOne {
    /// Which.
    pub request_id: RequestId,
    /// As of a single one; null if it was not decided.
    pub decided: Option<ApprovalDecided>,
    /// Why it was not.
    pub error: Option<Error>,
}

/// Data of `approvals.decided`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AllDecided {
    /// Each that was open, oldest first.
    pub items: Vec<DecidedOne>,
    /// How many.
    pub count: usize,
    /// How many of them were decided.
    pub decided: usize,
}

/// A rule that a decision became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerRule {
    /// Its id.
    pub rule_id: RuleId,
    /// The rule.
    #[serde(flatten)]
    pub rule: PolicyRule,
    /// For whom it is.
    pub scope: RuleScope,
    /// The controller.
    pub controller_id: ControllerId,
    /// The worker; null if it is for all of the controller.
    pub worker_id: Option<WorkerId>,
    /// The decision that it is from.
    pub request_id: RequestId,
    /// Since when.
    pub created_at: Timestamp,
}

/// Data of `policy.rules`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerRules {
    /// The rules, in the order in which they were added.
    pub items: Vec<OwnerRule>,
    /// How many.
    pub count: usize,
}
