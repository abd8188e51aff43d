//! Notifications: their occasions and their deliveries.

use serde::{Deserialize, Serialize};

use crate::ids::{EventId, WorkerId};
use crate::state::words;
use crate::time::Timestamp;

words! {
    /// The occasion of a notification.
    Occasion {
        /// An agent asks its owner a question.
        Question = "question",
        /// A turn ended with success.
        Done = "done",
        /// A turn failed, its agent violated a rule, or the daemon canceled it.
        Failed = "failed",
        /// The runtime of a worker is gone.
        Lost = "lost",
        /// A budget is used up.
        Budget = "budget",
        /// A queue was paused with messages in it.
        QueuePaused = "queue_paused",
        /// The provider limits the rate of requests: nothing is sent to the agent for a while.
        Parked = "parked",
        /// A schedule was paused.
        SchedulePaused = "schedule_paused",
        /// A trigger was paused.
        TriggerPaused = "trigger_paused",
        /// A test requested by the user.
        Test = "test",
    }
}

words! {
    /// The format of a webhook's body.
    Format {
        /// The notification as data.
        Json = "json",
        /// Only the text, without JSON.
        Text = "text",
        /// The text in Slack's format.
        Slack = "slack",
    }
}

words! {
    /// How much of the agent's text a notification contains.
    Detail {
        /// Only the subject of a question.
        Subject = "subject",
        /// The whole question, and the message of an error.
        Full = "full",
    }
}

words! {
    /// The status of a notification for one sink.
    DeliveryStatus {
        /// It waits, possibly for a retry after a failed attempt.
        Pending = "pending",
        /// The sink has accepted it.
        Delivered = "delivered",
        /// It is not sent: the question was answered meanwhile, or its worker or sink is gone.
        Dropped = "dropped",
        /// Every attempt has failed.
        Failed = "failed",
    }
}

/// One line of `subagent notify log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView {
    /// Name of the sink.
    pub sink: String,
    /// Id of the event.
    pub event_id: EventId,
    /// Occasion of the notification.
    pub occasion: String,
    /// The worker of the event, if it still exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// Status of the delivery.
    pub status: DeliveryStatus,
    /// Number of attempts, successful or not.
    pub attempts: u32,
    /// Why the last attempt failed, or why it is not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time when the daemon noticed the event.
    pub created_at: Timestamp,
    /// Time of the last status change.
    pub changed_at: Timestamp,
}

/// `GET /v1/notifications/log`: past deliveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryLog {
    /// The deliveries, newest first.
    pub items: Vec<DeliveryView>,
    /// Number of the deliveries.
    pub count: usize,
}

/// A sink with its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SinkView {
    /// Name of the sink.
    pub name: String,
    /// `desktop`, `bell`, `command` or `webhook`.
    pub to: String,
    /// The occasions it is notified of.
    pub on: Vec<Occasion>,
    /// Whether it is also notified of `done` for workers started by `run -d`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done_of_detached: bool,
    /// A tag selector of its workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Number of pending notifications.
    pub pending: u64,
    /// Number of failed ones among the newest notifications.
    #[serde(default)]
    pub failed: u64,
    /// Why it cannot be used, or why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /v1/notifications`: all sinks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sinks {
    /// The sinks, in the order of the file.
    pub items: Vec<SinkView>,
    /// Number of the sinks.
    pub count: usize,
    /// Path of the daemon's file with the sinks.
    pub config_path: String,
    /// Why the file cannot be used; the sinks of its last valid state stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /v1/notifications/test`: tests the sinks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestSinks {
    /// Name of the sink; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkTest {
    /// Name of the sink.
    pub name: String,
    /// Whether the sink accepted the notification.
    pub delivered: bool,
    /// Why the attempt failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The response to [`TestSinks`], by sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkTests {
    /// One result per sink.
    pub items: Vec<SinkTest>,
    /// Number of the results.
    pub count: usize,
}
