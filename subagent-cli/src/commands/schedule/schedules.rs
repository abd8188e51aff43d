//! What commands about schedules share.

use serde::Deserialize as _;
use serde_json::Value;
use subagent_protocol::schedule::When;

use crate::commands::firing::Starters;
use crate::output::human;

pub(super) const SCHEDULES: Starters = Starters {
    path: "/v1/schedules",
    fields: &[
        "name",
        "when",
        "timezone",
        "nextAt",
        "attendant",
        "missed",
        "overlap",
        "maxFailures",
        "failures",
        "paused",
        "error",
        "work",
        "declaredIn",
    ],
    columns: &["name", "when", "timezone", "nextAt", "attendant", "paused", "last", "error", "declaredIn"],
    log: &["at", "status", "workerId", "turnId", "leftOut", "error"],
    firing: &["schedule", "at", "status", "workerId", "turnId", "error"],
    readable,
};

pub(super) fn readable(item: &mut Value) {
    if let Ok(when) = When::deserialize(&item["when"]) {
        item["when"] = human::when(&when).into();
    }
}
