//! Detects executables of different versions. They work together, but the user should know.

use std::path::Path;

use nix::unistd::{AccessFlags, access};
use subagent_protocol::Code;

use super::facts::{Daemon, DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};
use super::holders::ProcessRole;
use crate::sibling_executable::sibling_executable;

const GROUP: CheckedPart = CheckedPart::Versions;
const EXECUTABLES: &str = "versions.executables";
const DAEMON: &str = "versions.daemon";
const RUNTIMES: &str = "versions.runtimes";
const REPLACED: &str = "versions.replaced";
const OWN: &str = env!("CARGO_PKG_VERSION");

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    let mut found = vec![executables(), daemon(facts)];
    found.extend(runtimes(facts));
    found.extend(replaced(facts));
    found
}

/// The executables must be in one folder; without the others this command cannot work.
fn executables() -> Finding {
    let problem = |seen: String| {
        Finding::problem(GROUP, EXECUTABLES, seen)
            .advise("install subagent, subagentd, subagent-runtime and subagent-webhook, of one version, into one folder")
    };
    let mut folder = None;
    for name in ["subagentd", "subagent-runtime", "subagent-webhook"] {
        let path = match sibling_executable(name) {
            Ok(path) => path,
            Err(failure) => return problem(failure.message),
        };
        let usable = access(&path, AccessFlags::X_OK).map_err(|error| error.to_string());
        match usable.map(|()| path.is_file()) {
            Ok(true) => folder = path.parent().map(Path::to_owned),
            Ok(false) => return problem(format!("{} is not a program", path.display())),
            Err(why) => return problem(format!("{} cannot be started: {why}", path.display())),
        }
    }
    let folder = folder.unwrap_or_default();
    Finding::ok(GROUP, EXECUTABLES, format!("all four are in {}", folder.display()))
}

/// Returns the advice to replace the daemon. A foreground daemon must be restarted by its user.
fn restart(facts: &DoctorFacts) -> &'static str {
    match &facts.daemon {
        Daemon::Answers(shown) if shown.info.mode != "background" => {
            "end it with `subagent daemon stop` and start it where it was started; workers go on"
        }
        _ => "replace it with `subagent daemon restart`; workers and their turns go on",
    }
}

fn daemon(facts: &DoctorFacts) -> Finding {
    match &facts.daemon {
        Daemon::Answers(shown) if shown.info.version != OWN => {
            let seen = format!("the daemon is {}, this command is {OWN}", shown.info.version);
            Finding::warning(GROUP, DAEMON, seen).advise(restart(facts))
        }
        Daemon::Answers(_) => Finding::ok(GROUP, DAEMON, format!("command and daemon are {OWN}")),
        Daemon::Fails(failure) if failure.is(Code::DaemonTooOld) || failure.is(Code::DaemonTooNew) => {
            let advice = failure.facts().recommended_action.0;
            Finding::problem(GROUP, DAEMON, failure.message.clone())
                .advise(advice.unwrap_or("use executables of one version").to_owned())
        }
        Daemon::Fails(_) => {
            Finding::ok(GROUP, DAEMON, format!("this command is {OWN}; the daemon did not say"))
        }
        Daemon::Hidden => {
            Finding::ok(GROUP, DAEMON, format!("this command is {OWN}; the daemon is not seen"))
        }
        Daemon::None if facts.state == StateDirStatus::Outside => {
            Finding::ok(GROUP, DAEMON, format!("this command is {OWN}"))
        }
        Daemon::None => Finding::ok(GROUP, DAEMON, format!("this command is {OWN}; no daemon runs")),
    }
}

fn runtimes(facts: &DoctorFacts) -> Vec<Finding> {
    let workers = facts.examination.iter().flat_map(|examination| &examination.workers);
    let versions = workers.filter_map(|worker| Some((&worker.worker_id, worker.runtime_version.as_ref()?)));
    let mut found: Vec<Finding> = versions
        .filter(|(_, version)| *version != OWN)
        .map(|(worker, version)| {
            let seen = format!("the runtime of {worker} is {version}, this command is {OWN}");
            Finding::warning(GROUP, RUNTIMES, seen)
                .advise(format!("when it is idle, replace it with `subagent worker restart {worker}`"))
        })
        .collect();
    if found.is_empty() {
        let seen = "no runtime is known to have another version";
        found.push(Finding::ok(GROUP, RUNTIMES, seen));
    }
    found
}

fn replaced(facts: &DoctorFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    for holder in facts.holders.iter().filter(|holder| holder.replaced) {
        let (pid, worker) = (holder.pid, &holder.worker);
        found.push(match holder.role {
            ProcessRole::Daemon => {
                let seen =
                    format!("the executable of the daemon (pid {pid}) was replaced since it was started");
                Finding::warning(GROUP, REPLACED, seen).advise(restart(facts))
            }
            ProcessRole::Runtime => {
                let seen =
                    format!("the executable of the runtime of {worker} (pid {pid}) was replaced since");
                Finding::warning(GROUP, REPLACED, seen)
                    .advise(format!("when it is idle, replace it with `subagent worker restart {worker}`"))
            }
            // A guard has the executable of its runtime.
            ProcessRole::Guard => continue,
        });
    }
    if found.is_empty() {
        found.push(Finding::ok(GROUP, REPLACED, "all that runs uses the installed executables"));
    }
    found
}
