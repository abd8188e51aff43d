//! `subagent doctor`: finds problems and says how to solve them. Must not change files without
//! `--fix`, which repairs only what needs no judgment, and must not open the database. Each check
//! has a timeout. It starts only bubblewrap, to test it, and git, for its settings.

mod config;
mod copies;
mod database;
mod disk;
mod facts;
mod finding;
mod git;
mod holders;
mod journals;
mod machine;
mod notifications;
mod permissions;
mod processes;
mod repair;
mod schedules;
mod unseen;
mod versions;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use subagent_config::Environment;

use facts::DoctorFacts;
pub use facts::ExaminedStateDir;
pub use finding::{CheckedPart, Finding, FindingStatus};

/// Timeout of a check, so that a hanging file system does not block the others.
const LOOK: Duration = Duration::from_secs(20);
/// Timeout of a check that may stop processes.
const LOOK_AND_MEND: Duration = Duration::from_secs(90);
/// Timeout of collecting the facts.
const GATHER: Duration = Duration::from_secs(40);

type DoctorCheck = fn(&DoctorFacts) -> Vec<Finding>;

const LOOKS: [(CheckedPart, &str, DoctorCheck); 11] = [
    (CheckedPart::Processes, "processes.look", processes::look),
    (CheckedPart::Database, "database.look", database::look),
    (CheckedPart::Journals, "journals.look", journals::look),
    (CheckedPart::Versions, "versions.look", versions::look),
    (CheckedPart::Permissions, "permissions.look", permissions::look),
    (CheckedPart::Disk, "disk.look", disk::look),
    (CheckedPart::Config, "config.look", config::look),
    (CheckedPart::Config, "config.notify", notifications::look),
    (CheckedPart::Config, "config.schedules", schedules::look),
    (CheckedPart::Machine, "machine.look", machine::look),
    (CheckedPart::Machine, "machine.git", git::look),
];

/// Runs all checks; the worst finding comes first.
#[must_use]
pub fn examine(env: &Environment, cwd: Option<PathBuf>, place: ExaminedStateDir, fix: bool) -> Vec<Finding> {
    let env = env.clone();
    let shown = place.state_dir.display().to_string();
    let Some(facts) = within(GATHER, move || DoctorFacts::gather(&env, cwd, place, fix)) else {
        let seen = format!("{shown} cannot be examined within {} s", GATHER.as_secs());
        return vec![
            Finding::problem(CheckedPart::Processes, "processes.look", seen)
                .advise(format!("see whether its file system answers: `ls {}`", shell_words::quote(&shown))),
        ];
    };
    let facts = Arc::new(facts);
    let time = if fix { LOOK_AND_MEND } else { LOOK };
    let mut found: Vec<Finding> = Vec::new();
    for (group, id, look) in LOOKS {
        let facts = Arc::clone(&facts);
        found.extend(within(time, move || look(&facts)).unwrap_or_else(|| {
            vec![Finding::problem(group, id, format!("the look took more than {} s", time.as_secs()))]
        }));
    }
    found.sort_by_key(|finding| (finding.status, finding.group));
    found
}

/// Runs a check on its own thread; `None` on a timeout (the thread ends with the process) or panic.
fn within<T: Send + 'static>(time: Duration, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, result) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The receiver may be gone after a timeout.
        let _ = done.send(look());
    });
    result.recv_timeout(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_hangs_is_left_behind() {
        let (_open, never) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(10), move || never.recv().is_ok()), None);
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
    }

    #[test]
    fn where_nothing_was_ever_done_nothing_is_made_and_nothing_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let env = Environment::new([("HOME".into(), base.clone().into())], &base);
        let place = |outside| ExaminedStateDir { state_dir: base.join(".subagent/state"), outside };
        // Executables beside this test, other daemons of this machine and the shared socket folder do
        // not belong to the test.
        let others = ["versions.executables", "versions.replaced", "permissions.socketDir"];
        let ours = |finding: &&Finding| {
            !matches!(finding.group, CheckedPart::Machine | CheckedPart::Disk)
                && !others.contains(&finding.id)
        };
        let found = examine(&env, None, place(false), false);
        assert!(found.iter().filter(ours).all(|finding| finding.status == FindingStatus::Ok), "{found:#?}");
        let found = examine(&env, None, place(true), false);
        let reported: Vec<&Finding> =
            found.iter().filter(ours).filter(|one| one.status != FindingStatus::Ok).collect();
        assert!(matches!(reported.as_slice(), [one] if one.id == "config.workspace"), "{reported:#?}");
        assert_eq!(std::fs::read_dir(&base).unwrap().count(), 0);
    }
}
