//! What commands about triggers share.

use serde::Deserialize as _;
use serde_json::Value;
use subagent_protocol::trigger::TriggerSource;

use crate::commands::firing::Starters;
use crate::output::human;

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
    if let Ok(source) = TriggerSource::deserialize(&item["source"]) {
        item["source"] = human::source(&source).into();
    }
}
