//! Hibernation: when an idle agent is ended. The idle timer runs while the runtime is ready and the
//! worker has nothing open. Requests and activity of the agent reset it.

use std::time::Duration;

use subagent_core::model::WorkerInput;
use subagent_protocol::record::{JournalRecord, RecordType};
use tokio::time::Instant;

use crate::store::{Durability, Tx, workers};
use crate::supervisor::entropy;
use crate::supervisor::worker::actor::Actor;

/// Kinds of updates that agents send while they are idle.
const IDLE_KINDS: [&str; 6] =
    ["usage", "session_info", "available_commands", "mode", "config_option", "notice"];

/// Returns whether a record reports activity of the agent or of a client with it.
pub(crate) fn is_activity(record: &JournalRecord<'_>) -> bool {
    match record.t {
        RecordType::Update => !record.k.as_deref().is_some_and(|kind| IDLE_KINDS.contains(&kind)),
        RecordType::Segment | RecordType::Sealed | RecordType::Noise => false,
        _ => true,
    }
}

pub(crate) async fn hibernate(actor: &mut Actor) {
    let idle_seconds = actor.session.active_at.elapsed().as_secs();
    let Ok(step) = actor.worker.step(WorkerInput::Hibernate { idle_seconds }) else { return };
    let (id, cursor, now, worker) =
        (actor.identity.id, actor.journal.cursor, entropy::now(), step.worker.clone());
    subagent_failpoint::hit("hibernate.before_commit");
    let write = move |tx: &mut Tx<'_>| workers::update(tx, id, &worker, cursor, now);
    match actor.shared.store.write(Durability::Full, 1, write).await {
        Ok(()) => actor.adopt(step, None),
        // Nothing has happened yet. The next attempt follows after another idle timeout.
        Err(error) => {
            tracing::warn!(worker = %actor.identity.worker_id, %error, "a hibernation cannot be stored");
            actor.session.is_active();
        }
    }
    subagent_failpoint::hit("hibernate.after_commit");
}

/// Returns when the agent is to be ended, unless something happens before.
pub(crate) fn hibernates_at(actor: &Actor) -> Option<Instant> {
    let timeout = Duration::from_millis(actor.spec.idle_timeout_ms?);
    let is_idle = actor.worker.rests() && actor.settings.is_idle();
    let may = actor.runtime.settled && actor.runtime.listens() && is_idle;
    if !may || actor.session.hibernation_obstacle(&actor.spec, &actor.worker, &actor.runtime).is_some() {
        return None;
    }
    // A time that overflows the clock means no timer.
    actor.session.active_at.checked_add(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_reports_of_itself_is_no_work() {
        let active = |text: &str| is_activity(&serde_json::from_str(text).unwrap());
        for kind in IDLE_KINDS {
            assert!(!active(&format!(r#"{{"n":1,"at":1,"t":"update","k":"{kind}","b":{{}}}}"#)), "{kind}");
        }
        for idle in [r#""t":"noise""#, r#""t":"segment""#, r#""t":"sealed""#] {
            assert!(!active(&format!(r#"{{"n":1,"at":1,{idle},"b":{{}}}}"#)), "{idle}");
        }
        for work in [
            r#""t":"update","k":"message""#,
            r#""t":"update","k":"tool_call_update""#,
            r#""t":"update","k":"a word of tomorrow""#,
            r#""t":"update""#,
            r#""t":"childUpdate","k":"usage""#,
            r#""t":"clientRequest","k":"terminal""#,
            r#""t":"terminalExited","k":"terminal""#,
            r#""t":"notification""#,
            r#""t":"approvalRequested""#,
        ] {
            assert!(active(&format!(r#"{{"n":1,"at":1,{work},"b":{{}}}}"#)), "{work}");
        }
    }
}
