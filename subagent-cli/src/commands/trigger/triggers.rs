//! What commands about triggers share.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::trigger::TriggerSource;

use crate::commands::firing::Starters;
use crate::output::{human, json};

pub(super) const TRIGGERS: Starters = Starters {
    path: "/v1/triggers",
    fields: &[
        "name",
        "source",
        "token",
        "webhookPath",
        "attendant",
        "overlap",
        "maxFailures",
        "failures",
        "paused",
        "error",
        "work",
        "declaredIn",
    ],
    columns: &["name", "source", "attendant", "paused", "last", "error", "declaredIn"],
    log: &["at", "occurrence", "status", "workerId", "turnId", "error"],
    firing: &["schedule", "at", "occurrence", "status", "workerId", "turnId", "error"],
    readable,
};

pub(super) fn readable(item: &mut Value) {
    /// The part that is one text for people.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ReadableTrigger {
        source: Lenient<TriggerSource>,
    }
    if let Some(source) = lenient::read::<ReadableTrigger>(item).source.0 {
        json::extend(item, [("source", human::source(&source).into())]);
    }
}
