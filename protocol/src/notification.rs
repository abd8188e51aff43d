//! Notifications: what they are about, and what became of them.

use serde::{Deserialize, Serialize};

use crate::ids::{EventId, WorkerId};
use crate::state::words;
use crate::time::Timestamp;

words! {
    /// What a notification is about.
    Occasion {
        /// An agent asks its owner something.
        Question = "question",
        /// A turn ended well.
        Done = "done",
        /// A turn failed, its agent broke a rule, or the daemon canceled it.
        Failed = "failed",
        /// The runtime of a worker is gone.
        Lost = "lost",
        /// A budget is used up.
        Budget = "budget",
        /// Messages of a queue wait until it is resumed.
        QueuePaused = "queue_paused",
        /// A schedule does not fire any more.
        SchedulePaused = "schedule_paused",
        /// A test that the user asked for.
        Test = "test",
    }
}

words! {
    /// The body of a webhook.
    Format {
        /// The notification as data.
        Json = "json",
        /// Its text.
        Text = "text",
        /// Its text as Slack takes it.
        Slack = "slack",
    }
}

words! {
    /// How much of the agent's text a notification holds.
    Detail {
        /// The subject of a question.
        Subject = "subject",
        /// The question in full, and the message of an error.
        Full = "full",
    }
}

words! {
    /// What became of a notification for one sink.
    DeliveryStatus {
        /// It waits, or an attempt failed and the next one is due later.
        Pending = "pending",
        /// The sink has it.
        Delivered = "delivered",
        /// It is not sent: the question was answered meanwhile, or its worker or sink is gone.
        Dropped = "dropped",
        /// Every attempt failed.
        Failed = "failed",
    }
}

/// One line of `subagent notify log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView {
    /// The sink.
    pub sink: String,
    /// The event.
    pub event_id: EventId,
    /// What it is about.
    pub occasion: String,
    /// The worker of the event, if it still exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// What became of it.
    pub status: DeliveryStatus,
    /// How often it was sent, whether it arrived or not.
    pub attempts: u32,
    /// Why the last attempt failed, or why it is not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the daemon noticed the event.
    pub created_at: Timestamp,
    /// When its status changed last.
    pub changed_at: Timestamp,
}

/// `GET /v1/notifications/log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryLog {
    /// Newest first.
    pub items: Vec<DeliveryView>,
    /// How many there are.
    pub count: usize,
}

/// A sink as the daemon has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SinkView {
    /// Its name.
    pub name: String,
    /// `desktop`, `bell`, `command` or `webhook`.
    pub to: String,
    /// What it is notified of.
    pub on: Vec<Occasion>,
    /// Whether it is also notified of `done` of workers that `run -d` has started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done_of_detached: bool,
    /// Which workers it is for, by their tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// How many notifications wait for it.
    pub pending: u64,
    /// How many of the newest notifications were given up.
    #[serde(default)]
    pub failed: u64,
    /// Why it cannot be used, or why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /v1/notifications`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sinks {
    /// In the order of the file.
    pub items: Vec<SinkView>,
    /// How many there are.
    pub count: usize,
    /// The file that the daemon reads them from.
    pub config_path: String,
    /// Why the file cannot be used; the sinks of its last good state stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /v1/notifications/test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestSinks {
    /// The sink; all of them if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkTest {
    /// The sink.
    pub name: String,
    /// Whether it has the notification.
    pub delivered: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The answer to [`TestSinks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkTests {
    /// One for each sink.
    pub items: Vec<SinkTest>,
    /// How many there are.
    pub count: usize,
}
