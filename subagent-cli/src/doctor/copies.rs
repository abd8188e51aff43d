//! Checks whether this state dir is a copy, and explains the consequences.

use subagent_config::StateIdentity;

use super::facts::DoctorFacts;
use super::finding::{CheckedPart, Finding};
use crate::client::foreign_info;

const COPY: &str = "processes.copy";

pub(super) fn look(facts: &DoctorFacts) -> Option<Finding> {
    if let Some(info) = foreign_info(&facts.state_dir) {
        let seen = format!(
            "this state dir was copied from {}, whose daemon (pid {}) its `daemon.json` names; commands here leave that daemon alone",
            info.state_dir.display(),
            info.process.pid
        );
        return Some(Finding::warning(CheckedPart::Processes, COPY, seen).advise(
            "continue: the next command that needs a daemon starts one for this folder, and its workers are shown as stopped copies",
        ));
    }
    let identity = StateIdentity::read(&facts.state_dir)?;
    identity.copy_of.as_ref()?;
    let from =
        identity.copied_from.map_or_else(|| "another one".to_owned(), |from| from.display().to_string());
    let seen = format!(
        "this state dir is a copy of {from}; workers that were copied are stopped here (`WORKER_COPIED`), and the original has its own daemon"
    );
    Some(Finding::ok(CheckedPart::Processes, COPY, seen))
}
