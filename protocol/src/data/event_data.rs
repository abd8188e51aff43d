//! The data of an event by its type.

use serde::Deserialize as _;
use serde_json::Value;

use super::budgets::{BudgetChanged, BudgetExceeded, BudgetUnknown};
use super::definitions::{AgentApplied, AgentChanged};
use super::notifications::NotificationFailed;
use super::progress::Nothing;
use super::questions::{
    ApprovalDecidedEvent, ApprovalOver, ApprovalRequestedEvent, ElicitationAnsweredEvent,
    ElicitationRequestedEvent, PolicyViolated,
};
#[cfg(feature = "openapi")]
use super::schema::{NamedSchema, named};
use super::tasks::{
    SubagentCancelled, SubagentCompleted, SubagentEvent, SubagentFailed, SubagentProgress, SubagentSpawned,
};
use super::turns::{
    MessageSent, ProgressMessage, QueuePaused, QueueResumedEvent, TurnCanceledEvent, TurnCompleted,
    TurnDroppedEvent, TurnFailed, TurnQueued, TurnStarted,
};
use super::workers::{Because, Forbidden, Hibernated, JournalGap, Reached, SessionOpened, UnreachableState};
use crate::api::{
    ScheduleFired, SchedulePaused, TriggerFired, TriggerPaused, WorkerParked, WorkerUnparked,
    WorktreeConflict, WorktreeLanded, WorktreeMerged, WorktreeRemoved, WorktreeView,
};
use crate::event::EventType;
use crate::hook::HookFailed;

/// Declares which type of event has which data.
macro_rules! event_data {
    ($($event:ident($data:ty),)+) => {
        /// The data of an event. Events without a variant are internal, or a `progress.update`, whose
        /// fields depend on its kind.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is the event type of its name")]
        pub enum EventData {
            $($event($data),)+
        }

        impl EventData {
            /// Returns the type of the event.
            #[must_use]
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$event(_) => EventType::$event,)+
                }
            }

            /// Returns the data as it is stored and shown.
            #[must_use]
            pub fn to_value(&self) -> Value {
                // Serialization of fields with names cannot fail.
                match self {
                    $(Self::$event(data) => serde_json::to_value(data).unwrap_or_default(),)+
                }
            }

            /// Reads the data of an event. `None` for a type without a variant, and for data that
            /// lacks a field.
            #[must_use]
            pub fn read(event_type: EventType, data: &Value) -> Option<Self> {
                match event_type {
                    $(EventType::$event => <$data>::deserialize(data).ok().map(Self::$event),)+
                    _ => None,
                }
            }
        }

        /// Returns the schema of an event's data.
        #[cfg(feature = "openapi")]
        pub(super) fn schema_of(event_type: EventType) -> Option<NamedSchema> {
            match event_type {
                $(EventType::$event => Some(named::<$data>()),)+
                _ => None,
            }
        }
    };
}

event_data! {
    TurnStarted(TurnStarted),
    MessageSent(MessageSent),
    ProgressMessage(ProgressMessage),
    ApprovalRequested(ApprovalRequestedEvent),
    ApprovalDecided(ApprovalDecidedEvent),
    PolicyViolated(PolicyViolated),
    BudgetExceeded(BudgetExceeded),
    BudgetUnknown(BudgetUnknown),
    BudgetChanged(BudgetChanged),
    WorktreeCreated(WorktreeView),
    WorktreeLanded(WorktreeLanded),
    WorktreeRetired(WorktreeRemoved),
    WorktreeRemoved(WorktreeRemoved),
    WorktreeConflict(WorktreeConflict),
    WorktreeMerged(WorktreeMerged),
    ScheduleFired(ScheduleFired),
    SchedulePaused(SchedulePaused),
    TriggerFired(TriggerFired),
    TriggerPaused(TriggerPaused),
    ApprovalLost(ApprovalOver),
    ApprovalExpired(ApprovalOver),
    ApprovalCanceled(ApprovalOver),
    ElicitationRequested(ElicitationRequestedEvent),
    ElicitationAnswered(ElicitationAnsweredEvent),
    ElicitationLost(ApprovalOver),
    ElicitationCanceled(ApprovalOver),
    TurnCompleted(TurnCompleted),
    TurnFailed(TurnFailed),
    TurnCanceled(TurnCanceledEvent),
    TurnQueued(TurnQueued),
    TurnMoved(TurnQueued),
    TurnDropped(TurnDroppedEvent),
    QueuePaused(QueuePaused),
    QueueResumed(QueueResumedEvent),
    WorkerStarted(SessionOpened),
    WorkerRestarted(SessionOpened),
    AgentApplied(AgentApplied),
    AgentChanged(AgentChanged),
    WorkerHibernated(Hibernated),
    WorkerParked(WorkerParked),
    WorkerUnparked(WorkerUnparked),
    WorkerUnreachable(UnreachableState),
    WorkerReached(Reached),
    WorkerDuplicateAccepted(Nothing),
    WorkerGivenUp(Nothing),
    WorkerLost(Because),
    WorkerStopped(Nothing),
    NotificationFailed(NotificationFailed),
    WorkerForbidden(Forbidden),
    HookFailed(HookFailed),
    SubagentSpawned(SubagentSpawned),
    SubagentProgress(SubagentProgress),
    SubagentEvent(SubagentEvent),
    SubagentCompleted(SubagentCompleted),
    SubagentFailed(SubagentFailed),
    SubagentCancelled(SubagentCancelled),
    JournalGap(JournalGap),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::turns::TurnInput;
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let turn_id = "turn_0123456789".parse().unwrap();
        let input = TurnInput { text: "t".to_owned(), blocks_count: 0, subagent: None };
        let data = EventData::TurnStarted(TurnStarted { turn_id, input: Some(input), recovered: None });
        let stored = json!({"turnId": "turn_0123456789", "input": {"text": "t", "blocksCount": 0}});
        assert_eq!(data.to_value(), stored);
        assert_eq!(EventData::read(EventType::TurnStarted, &stored), Some(data));
        assert_eq!(EventData::read(EventType::TurnStarted, &json!({"input": null})), None);
        assert_eq!(EventData::read(EventType::ProgressUpdate, &stored), None);
    }

    #[cfg(feature = "openapi")]
    #[test]
    fn every_shown_event_has_a_schema() {
        for event_type in EventType::ALL {
            let has_none =
                event_type.as_str().starts_with("runtime.") || *event_type == EventType::ProgressUpdate;
            assert_eq!(schema_of(*event_type).is_none(), has_none, "{event_type}");
        }
    }
}
