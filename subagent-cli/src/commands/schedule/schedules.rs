//! What commands about schedules share.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::schedule::When;

use crate::commands::firing::Starters;
use crate::output::{human, json};

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
    /// The part that is one text for people.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ReadableSchedule {
        when: Lenient<When>,
    }
    if let Some(when) = lenient::read::<ReadableSchedule>(item).when.0 {
        json::extend(item, [("when", human::when(&when).into())]);
    }
}
