//! The `data` of events that the daemon's rules make; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use serde_json::Value;

use crate::budget::{Budget, Limits, OnLimit, OnUnknown, Scope};
use crate::client::{ExitStatus, Failure};
use crate::error::Error;
use crate::event::ApprovalOption;
use crate::ids::{RequestId, RuleId, TurnId, WorkerId};
use crate::options::Current;
use crate::record::{NoiseReason, SessionOrigin};
use crate::state::QueuePause;

use super::tasks::ToldTask;

/// A turn was accepted.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnStarted {
    /// The turn.
    turn_id: TurnId,
    /// What it was given; null of a turn that is known from its journal alone.
    #[schema(required)]
    input: Option<TurnInput>,
    /// True of a turn that is known from its journal alone, after a restore.
    recovered: Option<bool>,
}

/// What a turn was given.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnInput {
    /// The text.
    text: String,
    /// How many blocks besides.
    blocks_count: u64,
    /// The task whose end it tells.
    subagent: Option<ToldTask>,
}

/// The message of a turn.
#[derive(utoipa::ToSchema)]
struct MessageSent {
    /// The text.
    text: String,
    /// The blocks besides.
    blocks: Vec<Value>,
    /// What was attached, without what is in it.
    attachments: Option<Vec<Attached>>,
    /// The definition that came with it.
    agent: Option<String>,
    /// The task whose end it tells.
    subagent: Option<ToldTask>,
}

/// A file that went along with a message: what it is, not what is in it.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct Attached {
    /// Its name, for people.
    name: String,
    /// Where it was, `file://...`.
    uri: String,
    /// What it is, if that could be told.
    mime_type: Option<String>,
    /// Its length in bytes.
    size: u64,
    /// `text`, `image`, `audio` or `link`.
    kind: String,
    /// SHA-256 of what was read of it.
    sha256: Option<String>,
}

/// A piece of the agent's text.
#[derive(utoipa::ToSchema)]
struct ProgressMessage {
    /// Always `assistant`.
    role: String,
    /// The text.
    text: String,
}

/// The agent asks for a permission. The fields of a tool call besides, as far as the request has them.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ApprovalRequested {
    /// The request.
    request_id: RequestId,
    /// Always `tool.call`.
    kind: String,
    /// What it is about, for people.
    message: String,
    /// The answers that it takes; none of a request whose words are lost.
    options: Vec<ApprovalOption>,
    /// The `call` of the agent's request for a file or a terminal, if the client asks for it and not the agent.
    client_call: Option<u64>,
    /// The session that asks, if it is not the worker's own.
    session_id: Option<String>,
    /// Its title, if the agent gave one.
    session_title: Option<String>,
}

/// The agent asks for what only a person knows or can do: a form to fill in, or a link to follow.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ElicitationRequested {
    /// The request.
    request_id: RequestId,
    /// Always `elicitation`.
    kind: String,
    /// What it is about, for people.
    message: String,
    /// `form`, `url`, or the agent's word; absent of a request whose words are lost.
    mode: Option<String>,
    /// The tool call that it belongs to.
    tool_call_id: Option<String>,
    /// The session that asks, if it is not the worker's own.
    session_id: Option<String>,
    /// Its title, if the agent gave one.
    session_title: Option<String>,
    /// Of a form: the agent's JSON schema; null if it cannot be read.
    schema: Option<Value>,
    /// Of a link: where it leads; null if that is no place on the web.
    url: Option<Value>,
    /// Of a link: names it when the agent says that it is done.
    elicitation_id: Option<String>,
}

/// Somebody answered.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ElicitationAnswered {
    /// The request.
    request_id: RequestId,
    /// `accept`, `decline` or `cancel`.
    action: String,
    /// The names of what was filled in, never the values.
    fields: Vec<String>,
    /// Of the cancel of the turn that answered it.
    reason: Option<String>,
    /// Who answered: `owner`, `deadline` or `cancel`.
    by: Option<String>,
}

/// Any other notification.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct OtherNotification {
    /// Of `elicitation/complete`: which link.
    elicitation_id: Option<String>,
}

/// Somebody decided.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ApprovalDecided {
    /// The request.
    request_id: RequestId,
    /// What was decided, as it was asked for.
    decision: String,
    /// The option that the agent gets, or `cancelled`.
    option_id: String,
    /// The option in lower case.
    #[schema(required)]
    alias: Option<String>,
    /// What was said to it.
    #[schema(required)]
    note: Option<String>,
    /// Who decided: `owner`, `rule`, `deadline` or `cancel`.
    by: Option<String>,
    /// The rule that it became.
    always: Option<AddedRule>,
    /// The rule that decided; absent if a person or a cancel did.
    policy: Option<DecidingRule>,
}

/// A rule that a decision became.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct AddedRule {
    /// Its id.
    rule_id: RuleId,
    /// What it is about, as `TOOL(PATTERN)`.
    rule: String,
    /// `allow` or `deny`.
    action: String,
    /// `worker` or `controller`.
    scope: String,
}

/// What a rule of the owner said of a call.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct DecidingRule {
    /// `allow` or `deny`.
    action: String,
    /// The kind of what was judged: `execute`, `edit`, ...
    kind: String,
    /// The command, path, address or agent, at most 1,000 characters; null if it is not known.
    #[schema(required)]
    subject: Option<String>,
    /// The rule, as `TOOL(PATTERN)`; null of what is so without a rule.
    #[schema(required)]
    rule: Option<String>,
    /// `definition`, `config` or `owner`.
    layer: Option<String>,
    /// The file of the rule.
    source: Option<String>,
    /// Its line there.
    line: Option<u64>,
    /// Why, where the rule alone does not say it.
    note: Option<String>,
}

/// The agent has done without asking what a rule denies; the turn is canceled.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct PolicyViolated {
    /// The agent's id of the call.
    tool_call_id: String,
    /// What shows that the call was made: a change, an output, or that it was reported as completed with no request.
    evidence: String,
    /// What was denied, and by which rule.
    #[serde(flatten)]
    decided: DecidingRule,
}

/// A budget is used up. Told once, until the limit is raised.
#[derive(utoipa::ToSchema)]
struct BudgetExceeded {
    /// Whose budget it is.
    scope: Scope,
    /// Of a worker above: which one.
    #[serde(rename = "workerId")]
    worker_id: Option<WorkerId>,
    /// What is limited.
    budget: Budget,
    /// How much.
    limit: f64,
    /// How much was used.
    used: f64,
    /// Of what.
    #[schema(required)]
    unit: Option<String>,
    /// What follows.
    action: OnLimit,
}

/// A turn was opened although it is not known how much of a budget was used. Told once.
#[derive(utoipa::ToSchema)]
struct BudgetUnknown {
    /// Whose budget it is.
    scope: Scope,
    /// Of a worker above: which one.
    #[serde(rename = "workerId")]
    worker_id: Option<WorkerId>,
    /// What is limited.
    budget: Budget,
    /// Of how many turns it is not known.
    unreported: u64,
    /// What follows.
    action: OnUnknown,
}

/// Somebody has changed limits.
#[derive(utoipa::ToSchema)]
struct BudgetChanged {
    /// Whose.
    scope: Scope,
    /// All that are set now.
    limits: Limits,
}

/// A request that nobody decides any more.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ApprovalOver {
    /// The request.
    request_id: RequestId,
    /// Why.
    reason: String,
}

/// A turn ended well.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnCompleted {
    /// The turn.
    turn_id: TurnId,
    /// `completed`; after a simulated request `approved` or `rejected`.
    outcome: String,
    /// Always `idle`.
    state: String,
    /// ACP's `stopReason`, in the agent's spelling.
    stop_reason: Option<String>,
    /// Numbers of tokens by name.
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

/// A turn failed.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnFailed {
    /// The turn.
    turn_id: TurnId,
    /// Why.
    error: Error,
}

/// A turn was canceled.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnCanceled {
    /// The turn.
    turn_id: TurnId,
    /// Why.
    reason: String,
    /// True if the agent did not obey in time and was ended by force; the next message starts it again.
    forced: Option<bool>,
}

/// A message waits.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnQueued {
    /// The turn that it will be.
    turn_id: TurnId,
    /// Its place in the queue, from 1.
    position: u64,
}

/// A message does not wait any more, and was not sent.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnDropped {
    /// The turn that it would have been.
    turn_id: TurnId,
    /// Why.
    reason: String,
}

/// What waits is not sent.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueuePaused {
    /// Why.
    reason: QueuePause,
    /// How many messages wait.
    length: u64,
    /// The turn that it was for.
    turn_id: Option<TurnId>,
}

/// What waits is sent again.
#[derive(utoipa::ToSchema)]
struct QueueResumed {
    /// How many messages wait, with the one that is sent by it.
    length: u64,
}

/// The agent has a session.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct SessionOpened {
    /// How it came to be.
    session: SessionOrigin,
    /// Whether an earlier one was asked for and could not be restored.
    context_lost: bool,
    /// Why it could not, in the agent's words.
    context_lost_reason: Option<String>,
    /// Whether the worker hibernated.
    hibernated: Option<bool>,
    /// How long it took then, in milliseconds.
    took_ms: Option<u64>,
}

/// The agent of an idle worker has ended, and its session is taken up again when it is needed.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct Hibernated {
    /// For how long nothing had been open.
    idle_seconds: u64,
}

/// Why something happened.
#[derive(utoipa::ToSchema)]
struct Because {
    /// The reason.
    reason: String,
}

/// What somebody below a worker asked for.
#[derive(utoipa::ToSchema)]
struct Forbidden {
    /// What was asked for.
    request: String,
}

/// Records of the journal are missing.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct JournalGap {
    /// The number of the first one.
    first_missing: u64,
    /// The number of the last one.
    last_missing: u64,
}

/// What somebody chose of the session, and what became of it; beside the fields of the kind. Absent of what the agent
/// reports of its own accord.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct OptionOutcome {
    /// `mode`, `model` or the config option's id.
    option: Option<String>,
    /// What it was to be: a text, true or false.
    value: Option<Value>,
    /// Whether the agent took it.
    applied: Option<bool>,
    /// Why not.
    error: Option<Error>,
    /// What the agent says that is set now.
    current: Option<Current>,
}

/// A file or a terminal that the agent asked its client for: the request, its outcome, or the end of a command.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClientCall {
    /// `requested`; then `completed`, `failed` or `canceled`; `exited` for the end of a command.
    status: String,
    /// Names the request in its outcome, begins anew in each runtime.
    call: Option<u64>,
    /// The file, as the agent wrote it.
    path: Option<String>,
    /// The first line that was asked for.
    line: Option<u64>,
    /// How many lines were asked for.
    limit: Option<u64>,
    /// How much was written, read or shown.
    bytes: Option<u64>,
    /// The command of a terminal.
    command: Option<String>,
    /// Its arguments.
    args: Option<Vec<String>>,
    /// Where it runs.
    cwd: Option<String>,
    /// How much of its output is to be kept.
    output_byte_limit: Option<u64>,
    /// The terminal, as soon as there is one.
    terminal_id: Option<String>,
    /// How its command ended.
    exit_status: Option<ExitStatus>,
    /// What the agent was answered.
    error: Option<Failure>,
    /// How much the command had printed.
    output_bytes: Option<u64>,
    /// The end of that, at most 4 KiB.
    tail: Option<String>,
}

/// A line that is no message.
#[derive(utoipa::ToSchema)]
struct Noise {
    /// Why it was not taken.
    reason: NoiseReason,
    /// Its length.
    bytes: u64,
    /// Its CRC-32C.
    digest: String,
    /// Its beginning.
    head: String,
}

pub(super) mod of {
    //! Which type is whose.

    use super::super::definitions::{AgentApplied, AgentChanged};
    use super::super::notifications::NotificationFailed;
    use super::super::progress::{
        AvailableCommands, Chunk, Compaction, CompactionSummary, ConfigOptions, Mode, Nothing, Notice, Plan,
        Replayed, SessionInfo, Text, ToolCall, Usage,
    };
    use super::super::schema::{Named, named};
    use super::super::tasks::{
        SubagentCancelled, SubagentCompleted, SubagentEvent, SubagentFailed, SubagentProgress,
        SubagentSpawned,
    };
    use crate::api::{
        ScheduleFired, SchedulePaused, WorktreeConflict, WorktreeLanded, WorktreeRemoved, WorktreeView,
    };
    use crate::event::EventType;
    use crate::hook::HookFailed;

    /// The type of the data of an event; `None` for one that is never shown, and for a `progress.update`.
    pub(in super::super) fn event(event_type: EventType) -> Option<Named> {
        Some(match event_type {
            EventType::TurnStarted => named::<super::TurnStarted>(),
            EventType::MessageSent => named::<super::MessageSent>(),
            EventType::ProgressMessage => named::<super::ProgressMessage>(),
            EventType::ApprovalRequested => named::<super::ApprovalRequested>(),
            EventType::ApprovalDecided => named::<super::ApprovalDecided>(),
            EventType::PolicyViolated => named::<super::PolicyViolated>(),
            EventType::BudgetExceeded => named::<super::BudgetExceeded>(),
            EventType::BudgetUnknown => named::<super::BudgetUnknown>(),
            EventType::BudgetChanged => named::<super::BudgetChanged>(),
            EventType::WorktreeCreated => named::<WorktreeView>(),
            EventType::WorktreeLanded => named::<WorktreeLanded>(),
            EventType::WorktreeRetired | EventType::WorktreeRemoved => named::<WorktreeRemoved>(),
            EventType::WorktreeConflict => named::<WorktreeConflict>(),
            EventType::ScheduleFired => named::<ScheduleFired>(),
            EventType::SchedulePaused => named::<SchedulePaused>(),
            EventType::ApprovalLost | EventType::ApprovalExpired | EventType::ApprovalCanceled => {
                named::<super::ApprovalOver>()
            }
            EventType::ElicitationRequested => named::<super::ElicitationRequested>(),
            EventType::ElicitationAnswered => named::<super::ElicitationAnswered>(),
            EventType::ElicitationLost | EventType::ElicitationCanceled => named::<super::ApprovalOver>(),
            EventType::TurnCompleted => named::<super::TurnCompleted>(),
            EventType::TurnFailed => named::<super::TurnFailed>(),
            EventType::TurnCanceled => named::<super::TurnCanceled>(),
            EventType::TurnQueued | EventType::TurnMoved => named::<super::TurnQueued>(),
            EventType::TurnDropped => named::<super::TurnDropped>(),
            EventType::QueuePaused => named::<super::QueuePaused>(),
            EventType::QueueResumed => named::<super::QueueResumed>(),
            EventType::WorkerStarted | EventType::WorkerRestarted => named::<super::SessionOpened>(),
            EventType::AgentApplied => named::<AgentApplied>(),
            EventType::AgentChanged => named::<AgentChanged>(),
            EventType::WorkerHibernated => named::<super::Hibernated>(),
            EventType::WorkerLost => named::<super::Because>(),
            EventType::WorkerStopped => named::<Nothing>(),
            EventType::NotificationFailed => named::<NotificationFailed>(),
            EventType::WorkerForbidden => named::<super::Forbidden>(),
            EventType::HookFailed => named::<HookFailed>(),
            EventType::SubagentSpawned => named::<SubagentSpawned>(),
            EventType::SubagentProgress => named::<SubagentProgress>(),
            EventType::SubagentEvent => named::<SubagentEvent>(),
            EventType::SubagentCompleted => named::<SubagentCompleted>(),
            EventType::SubagentFailed => named::<SubagentFailed>(),
            EventType::SubagentCancelled => named::<SubagentCancelled>(),
            EventType::JournalGap => named::<super::JournalGap>(),
            EventType::ProgressUpdate
            | EventType::RuntimeSegment
            | EventType::RuntimeSealed
            | EventType::RuntimeAgentStarted
            | EventType::RuntimeStartFailed
            | EventType::RuntimeDispatching
            | EventType::RuntimeApprovalHeld
            | EventType::RuntimeApprovalClosed
            | EventType::RuntimeAnswerWritten
            | EventType::RuntimeCancelRequested
            | EventType::RuntimeTurnEnd
            | EventType::RuntimeTerminating
            | EventType::RuntimeAgentExited
            | EventType::RuntimeEnded => return None,
        })
    }

    /// The kinds of a `progress.update` with the type of their fields. Every other kind has none.
    pub(in super::super) fn kinds() -> Vec<(&'static str, Named)> {
        vec![
            ("tool_call", named::<ToolCall>()),
            ("tool_call_update", named::<ToolCall>()),
            ("plan", named::<Plan>()),
            ("thought", named::<Text>()),
            ("user_message", named::<Text>()),
            ("agent_message_chunk", named::<Chunk>()),
            ("usage", named::<Usage>()),
            ("mode", named::<Mode>()),
            ("mode", named::<super::OptionOutcome>()),
            ("available_commands", named::<AvailableCommands>()),
            ("config_option", named::<ConfigOptions>()),
            ("config_option", named::<super::OptionOutcome>()),
            ("session_info", named::<SessionInfo>()),
            ("notice", named::<Notice>()),
            ("compaction", named::<Compaction>()),
            ("compaction_summary", named::<CompactionSummary>()),
            ("replayed", named::<Replayed>()),
            ("session", named::<super::SessionOpened>()),
            ("notification", named::<super::OtherNotification>()),
            ("noise", named::<super::Noise>()),
            ("fs", named::<super::ClientCall>()),
            ("terminal", named::<super::ClientCall>()),
        ]
    }
}
