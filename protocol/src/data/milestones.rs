//! The `data` of events created by the daemon's rules; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

pub(super) mod of;

use serde_json::Value;

use crate::budget::{Budget, Limits, OnLimit, OnUnknown, Scope};
use crate::client::{ExitStatus, RequestFailure};
use crate::error::Error;
use crate::event::ApprovalOption;
use crate::ids::{RequestId, RuleId, TurnId, WorkerId};
use crate::options::Current;
use crate::record::{NoiseReason, SessionOrigin};
use crate::state::QueuePause;

use super::tasks::EndedTask;

/// A turn was accepted.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnStarted {
    /// Id of the turn.
    turn_id: TurnId,
    /// Its input; null for a turn known only from its journal.
    #[schema(required)]
    input: Option<TurnInput>,
    /// True for a turn known only from its journal, after a restore.
    recovered: Option<bool>,
}

/// The input of a turn.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnInput {
    /// Text of the message.
    text: String,
    /// Number of further content blocks.
    blocks_count: u64,
    /// The task whose end it reports.
    subagent: Option<EndedTask>,
}

/// The message of a turn.
#[derive(utoipa::ToSchema)]
struct MessageSent {
    /// Text of the message.
    text: String,
    /// The further content blocks.
    blocks: Vec<Value>,
    /// The attachments, without their content.
    attachments: Option<Vec<Attached>>,
    /// The definition that came with it.
    agent: Option<String>,
    /// The task whose end it reports.
    subagent: Option<EndedTask>,
}

/// An attachment of a message, without its content.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct Attached {
    /// The file's name for display.
    name: String,
    /// Original location, as `file://...`.
    uri: String,
    /// MIME type, if known.
    mime_type: Option<String>,
    /// Length of the file in bytes.
    size: u64,
    /// `text`, `image`, `audio` or `link`.
    kind: String,
    /// SHA-256 of the content that was read.
    sha256: Option<String>,
}

/// A piece of the agent's text.
#[derive(utoipa::ToSchema)]
struct ProgressMessage {
    /// The role, always `assistant`.
    role: String,
    /// Text of the piece.
    text: String,
}

/// The agent requests a permission. Includes the fields of a tool call, as far as
/// the request has them.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApprovalRequested)]
struct ApprovalRequestedEvent {
    /// Id of the request.
    request_id: RequestId,
    /// The kind, always `tool.call`.
    kind: String,
    /// The subject, for display.
    message: String,
    /// The possible answers; empty if the request's data is lost.
    options: Vec<ApprovalOption>,
    /// The `call` of the agent's request for a file or a terminal, if the client asks
    /// instead of the agent.
    client_call: Option<u64>,
    /// The session that asks, if it is not the worker's own.
    session_id: Option<String>,
    /// The agent's title of that session.
    session_title: Option<String>,
}

/// The agent asks its user: a form to fill in, or a link to follow.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ElicitationRequested)]
struct ElicitationRequestedEvent {
    /// Id of the request.
    request_id: RequestId,
    /// The kind, always `elicitation`.
    kind: String,
    /// The subject, for display.
    message: String,
    /// `form`, `url`, or another name of the agent's; absent if the request's data is lost.
    mode: Option<String>,
    /// The tool call that it belongs to.
    tool_call_id: Option<String>,
    /// The session that asks, if it is not the worker's own.
    session_id: Option<String>,
    /// The agent's title of that session.
    session_title: Option<String>,
    /// For a form: the agent's JSON schema; null if it is unreadable.
    schema: Option<Value>,
    /// For a link: its address; null if it is not a web address.
    url: Option<Value>,
    /// For a link: its id in the agent's later completion notice.
    elicitation_id: Option<String>,
}

/// An elicitation was answered.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ElicitationAnswered)]
struct ElicitationAnsweredEvent {
    /// Id of the request.
    request_id: RequestId,
    /// `accept`, `decline` or `cancel`.
    action: String,
    /// The names of the filled fields, never the values.
    fields: Vec<String>,
    /// The reason, if a cancel of the turn answered it.
    reason: Option<String>,
    /// What answered it: `owner`, `deadline` or `cancel`.
    by: Option<String>,
}

/// Any other notification of the agent.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct OtherNotification {
    /// For `elicitation/complete`: id of the link.
    elicitation_id: Option<String>,
}

/// A permission request was decided.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApprovalDecided)]
struct ApprovalDecidedEvent {
    /// Id of the request.
    request_id: RequestId,
    /// The decision as it was given.
    decision: String,
    /// The option sent to the agent, or `cancelled`.
    option_id: String,
    /// The option in lower case.
    #[schema(required)]
    alias: Option<String>,
    /// The note of the decision.
    #[schema(required)]
    note: Option<String>,
    /// What decided it: `owner`, `rule`, `deadline` or `cancel`.
    by: Option<String>,
    /// The rule created from it.
    always: Option<AddedRule>,
    /// The deciding rule; absent if a person or a cancel decided.
    policy: Option<DecidingRule>,
}

/// A rule created from a decision.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct AddedRule {
    /// Id of the rule.
    rule_id: RuleId,
    /// The condition, as `TOOL(PATTERN)`.
    rule: String,
    /// `allow` or `deny`, as text.
    action: String,
    /// `worker` or `controller`, as text.
    scope: String,
}

/// The result of a rule for a call.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct DecidingRule {
    /// `allow` or `deny`, as text.
    action: String,
    /// The kind of call: `execute`, `edit`, ...
    kind: String,
    /// The command, path, address or agent, at most 1,000 characters; null if unknown.
    #[schema(required)]
    subject: Option<String>,
    /// The rule, as `TOOL(PATTERN)`; null if no rule was needed.
    #[schema(required)]
    rule: Option<String>,
    /// `definition`, `config` or `owner`.
    layer: Option<String>,
    /// The file of the rule.
    source: Option<String>,
    /// Line number in the file.
    line: Option<u64>,
    /// The reason, if the rule alone does not explain it.
    note: Option<String>,
}

/// The agent did something without asking that a rule denies; the turn is canceled.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct PolicyViolated {
    /// The agent's id of the call.
    tool_call_id: String,
    /// The proof of the call: a change, an output, or its report as completed without a request.
    evidence: String,
    /// The denied call and its rule.
    #[serde(flatten)]
    decided: DecidingRule,
}

/// A budget is used up. Reported once, until the limit is raised.
#[derive(utoipa::ToSchema)]
struct BudgetExceeded {
    /// The owner of the budget.
    scope: Scope,
    /// For a worker above: its id.
    #[serde(rename = "workerId")]
    worker_id: Option<WorkerId>,
    /// The quantity that the limit bounds.
    budget: Budget,
    /// The limit that was reached.
    limit: f64,
    /// The amount used so far.
    used: f64,
    /// Unit of both amounts.
    #[schema(required)]
    unit: Option<String>,
    /// What happens to the worker now.
    action: OnLimit,
}

/// A turn was started although the usage of a budget is unknown. Reported once.
#[derive(utoipa::ToSchema)]
struct BudgetUnknown {
    /// The owner of the budget.
    scope: Scope,
    /// For a worker above: its id.
    #[serde(rename = "workerId")]
    worker_id: Option<WorkerId>,
    /// The quantity that the limit bounds.
    budget: Budget,
    /// Number of turns with unknown usage.
    unreported: u64,
    /// What happens to the worker now.
    action: OnUnknown,
}

/// Limits of a worker were changed.
#[derive(utoipa::ToSchema)]
struct BudgetChanged {
    /// The owner of the budget.
    scope: Scope,
    /// All limits that are set now.
    limits: Limits,
}

/// A request that can no longer be decided.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ApprovalOver {
    /// Id of the request.
    request_id: RequestId,
    /// Reason for its end.
    reason: String,
}

/// A turn ended with success.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnCompleted {
    /// Id of the turn.
    turn_id: TurnId,
    /// `completed`; after a simulated request `approved` or `rejected`.
    outcome: String,
    /// The state, always `idle`.
    state: String,
    /// ACP's `stopReason`, in the agent's spelling.
    stop_reason: Option<String>,
    /// Numbers of tokens by name.
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

/// A turn ended with a failure.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnFailed {
    /// Id of the turn.
    turn_id: TurnId,
    /// Error of the turn.
    error: Error,
}

/// A turn was canceled.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TurnCanceled)]
struct TurnCanceledEvent {
    /// Id of the turn.
    turn_id: TurnId,
    /// Reason for the cancel.
    reason: String,
    /// True if the agent ignored the cancel and was ended by force; the next message restarts it.
    forced: Option<bool>,
}

/// A message was queued.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnQueued {
    /// Id of its future turn.
    turn_id: TurnId,
    /// Position in the queue, from 1.
    position: u64,
}

/// A queued message was removed without being sent.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TurnDropped)]
struct TurnDroppedEvent {
    /// Id of the turn that was dropped.
    turn_id: TurnId,
    /// Reason for the drop.
    reason: String,
}

/// Queued messages are not sent.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueuePaused {
    /// Reason for the pause.
    reason: QueuePause,
    /// Number of queued messages.
    length: u64,
    /// The turn that caused the pause.
    turn_id: Option<TurnId>,
}

/// Queued messages are sent again.
#[derive(utoipa::ToSchema)]
#[schema(as = QueueResumed)]
struct QueueResumedEvent {
    /// Number of queued messages, including the one that starts now.
    length: u64,
}

/// The agent has a session.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct SessionOpened {
    /// How the session was opened.
    session: SessionOrigin,
    /// Whether an earlier session was requested and could not be restored.
    context_lost: bool,
    /// Why it could not, in the agent's terms.
    context_lost_reason: Option<String>,
    /// Whether the worker hibernated before.
    hibernated: Option<bool>,
    /// Duration of the resume in milliseconds.
    took_ms: Option<u64>,
}

/// The agent of an idle worker has ended; its session is resumed when needed.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct Hibernated {
    /// Seconds without an open turn or request.
    idle_seconds: u64,
}

/// The reason for an event.
#[derive(utoipa::ToSchema)]
struct Because {
    /// The reason as text.
    reason: String,
}

/// The forbidden request of a process below a worker.
#[derive(utoipa::ToSchema)]
struct Forbidden {
    /// Name of the request.
    request: String,
}

/// Records of the journal are missing.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct JournalGap {
    /// Number of the first missing record.
    first_missing: u64,
    /// Number of the last missing record.
    last_missing: u64,
}

/// The result of setting a session option, in addition to the fields of the kind. Absent for
/// the agent's own changes.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct OptionOutcome {
    /// `mode`, `model` or the config option's id.
    option: Option<String>,
    /// The requested value: a text, true or false.
    value: Option<Value>,
    /// Whether the agent accepted it.
    applied: Option<bool>,
    /// The error of a failure.
    error: Option<Error>,
    /// The values that the agent reports now.
    current: Option<Current>,
}

/// An agent's client request for a file or a terminal: the request, its outcome, or the
/// end of a command.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClientCall {
    /// `requested`; then `completed`, `failed` or `canceled`; `exited` for the end of a command.
    status: String,
    /// Number that links request and outcome; restarts in each runtime.
    call: Option<u64>,
    /// The file, as the agent wrote it.
    path: Option<String>,
    /// Number of the first requested line.
    line: Option<u64>,
    /// Number of requested lines.
    limit: Option<u64>,
    /// Number of bytes written, read or shown.
    bytes: Option<u64>,
    /// The command of a terminal.
    command: Option<String>,
    /// Arguments of the command.
    args: Option<Vec<String>>,
    /// Working folder of the command.
    cwd: Option<String>,
    /// The requested output limit in bytes.
    output_byte_limit: Option<u64>,
    /// Id of the terminal, once it exists.
    terminal_id: Option<String>,
    /// How its command ended.
    exit_status: Option<ExitStatus>,
    /// The error returned to the agent.
    error: Option<RequestFailure>,
    /// Number of bytes the command had printed.
    output_bytes: Option<u64>,
    /// The end of the output, at most 4 KiB.
    tail: Option<String>,
}

/// A line that is not a message.
#[derive(utoipa::ToSchema)]
#[schema(as = Noise)]
struct NoiseEvent {
    /// Why the line was rejected.
    reason: NoiseReason,
    /// Length of the line in bytes.
    bytes: u64,
    /// CRC-32C of the line.
    digest: String,
    /// Beginning of the line.
    head: String,
}
