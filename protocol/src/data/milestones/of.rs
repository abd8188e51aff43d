//! Maps types of events to the types of their data, for the schema of events.

use super::super::definitions::{AgentApplied, AgentChanged};
use super::super::notifications::NotificationFailed;
use super::super::progress::{
    AvailableCommands, Chunk, Compaction, CompactionSummary, ConfigOptions, Mode, Nothing, Notice,
    PlanEntries, Replayed, SessionInfo, Text, ToolCall, Usage,
};
use super::super::schema::{NamedSchema, named};
use super::super::tasks::{
    SubagentCancelled, SubagentCompleted, SubagentEvent, SubagentFailed, SubagentProgress, SubagentSpawned,
};
use crate::api::{
    ScheduleFired, SchedulePaused, TriggerFired, TriggerPaused, WorkerParked, WorkerUnparked,
    WorktreeConflict, WorktreeLanded, WorktreeMerged, WorktreeRemoved, WorktreeView,
};
use crate::event::EventType;
use crate::hook::HookFailed;

/// Returns the data type of an event; `None` for internal events and for `progress.update`.
pub(in super::super) fn event(event_type: EventType) -> Option<NamedSchema> {
    Some(match event_type {
        EventType::TurnStarted => named::<super::TurnStarted>(),
        EventType::MessageSent => named::<super::MessageSent>(),
        EventType::ProgressMessage => named::<super::ProgressMessage>(),
        EventType::ApprovalRequested => named::<super::ApprovalRequestedEvent>(),
        EventType::ApprovalDecided => named::<super::ApprovalDecidedEvent>(),
        EventType::PolicyViolated => named::<super::PolicyViolated>(),
        EventType::BudgetExceeded => named::<super::BudgetExceeded>(),
        EventType::BudgetUnknown => named::<super::BudgetUnknown>(),
        EventType::BudgetChanged => named::<super::BudgetChanged>(),
        EventType::WorktreeCreated => named::<WorktreeView>(),
        EventType::WorktreeLanded => named::<WorktreeLanded>(),
        EventType::WorktreeRetired | EventType::WorktreeRemoved => named::<WorktreeRemoved>(),
        EventType::WorktreeConflict => named::<WorktreeConflict>(),
        EventType::WorktreeMerged => named::<WorktreeMerged>(),
        EventType::ScheduleFired => named::<ScheduleFired>(),
        EventType::SchedulePaused => named::<SchedulePaused>(),
        EventType::TriggerFired => named::<TriggerFired>(),
        EventType::TriggerPaused => named::<TriggerPaused>(),
        EventType::ApprovalLost | EventType::ApprovalExpired | EventType::ApprovalCanceled => {
            named::<super::ApprovalOver>()
        }
        EventType::ElicitationRequested => named::<super::ElicitationRequestedEvent>(),
        EventType::ElicitationAnswered => named::<super::ElicitationAnsweredEvent>(),
        EventType::ElicitationLost | EventType::ElicitationCanceled => named::<super::ApprovalOver>(),
        EventType::TurnCompleted => named::<super::TurnCompleted>(),
        EventType::TurnFailed => named::<super::TurnFailed>(),
        EventType::TurnCanceled => named::<super::TurnCanceledEvent>(),
        EventType::TurnQueued | EventType::TurnMoved => named::<super::TurnQueued>(),
        EventType::TurnDropped => named::<super::TurnDroppedEvent>(),
        EventType::QueuePaused => named::<super::QueuePaused>(),
        EventType::QueueResumed => named::<super::QueueResumedEvent>(),
        EventType::WorkerStarted | EventType::WorkerRestarted => named::<super::SessionOpened>(),
        EventType::AgentApplied => named::<AgentApplied>(),
        EventType::AgentChanged => named::<AgentChanged>(),
        EventType::WorkerHibernated => named::<super::Hibernated>(),
        EventType::WorkerParked => named::<WorkerParked>(),
        EventType::WorkerUnparked => named::<WorkerUnparked>(),
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

/// Returns the kinds of a `progress.update` with the type of their fields.
/// Other kinds have none.
pub(in super::super) fn kinds() -> Vec<(&'static str, NamedSchema)> {
    vec![
        ("tool_call", named::<ToolCall>()),
        ("tool_call_update", named::<ToolCall>()),
        ("plan", named::<PlanEntries>()),
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
        ("noise", named::<super::NoiseEvent>()),
        ("fs", named::<super::ClientCall>()),
        ("terminal", named::<super::ClientCall>()),
    ]
}
