//! An event of a stream as its readers need it: borrowed, and without what they do not look at.

use serde::Deserialize;
use serde_json::Value;

use super::EventType;
use crate::lenient;

/// An event; `D` is the part of its data that is read. Fields that a daemon leaves out are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "D: Deserialize<'de> + Default"))]
pub struct SeenEvent<'a, D> {
    /// Id of the event.
    #[serde(deserialize_with = "lenient::or_default")]
    pub event_id: &'a str,
    /// Time of the event, as text.
    #[serde(deserialize_with = "lenient::or_default")]
    pub ts: &'a str,
    /// Id of the worker.
    #[serde(deserialize_with = "lenient::or_default")]
    pub worker_id: &'a str,
    /// Type of the event. A newer daemon may know more types than [`EventType`].
    #[serde(rename = "type", deserialize_with = "lenient::or_default")]
    pub kind: &'a str,
    /// The turn that it belongs to.
    #[serde(deserialize_with = "lenient::or_default")]
    pub turn_id: Option<&'a str>,
    /// For an event of a task below the worker: the names from the root to the task.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path: Option<Vec<&'a str>>,
    /// Data of the event.
    #[serde(deserialize_with = "lenient::or_default")]
    pub data: D,
}

/// The data of an event that is read for its head alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct NoData {}

impl<'a, D: Deserialize<'a> + Default> SeenEvent<'a, D> {
    /// Reads an event. A value of another shape has no type.
    #[must_use]
    pub fn of(event: &'a Value) -> Self {
        lenient::read(event)
    }
}

impl<D> SeenEvent<'_, D> {
    /// Returns the type, if it is known.
    #[must_use]
    pub fn event_type(&self) -> Option<EventType> {
        EventType::parse(self.kind)
    }

    /// Whether the event is a question to the owner.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.event_type().is_some_and(EventType::is_question)
    }

    /// Returns the names from the root to the task; `None` for an event of the worker itself.
    #[must_use]
    pub fn task(&self) -> Option<&[&str]> {
        self.path.as_deref().filter(|path| !path.is_empty())
    }
}
