//! Checks whether the daemon can use the configured notification targets, and whether deliveries succeeded.

use subagent_protocol::notification::SinkView;

use super::facts::DoctorFacts;
use super::finding::{CheckedPart, Finding};

const GROUP: CheckedPart = CheckedPart::Config;
const ID: &str = "config.notify";

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    // Without a daemon no notifications are sent.
    let Some(sinks) = &facts.sinks else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(error) = &sinks.error {
        let advice = "correct it; until then the previous sinks are used";
        found.push(Finding::problem(GROUP, ID, error.as_str()).advise(advice));
    }
    found.extend(sinks.items.iter().filter_map(sink));
    if found.is_empty() && sinks.count > 0 {
        found.push(Finding::ok(GROUP, ID, format!("{} sinks take notifications", sinks.count)));
    }
    found
}

fn sink(sink: &SinkView) -> Option<Finding> {
    let SinkView { name, pending, failed, error, .. } = sink;
    let seen = match (error, failed) {
        (None, 0) => return None,
        (Some(error), _) => format!("the sink {name} fails ({pending} notifications wait): {error}"),
        (None, failed) => format!("the sink {name} did not take {failed} notifications"),
    };
    let name = shell_words::quote(name);
    let advice = format!("see `subagent notify log`; after a change try `subagent notify test {name}`");
    Some(Finding::warning(GROUP, ID, seen).advise(advice))
}
