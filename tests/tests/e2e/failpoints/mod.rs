//! Every named failpoint with every possible fault during a manager's work: the
//! process aborts, it hangs until it is killed, or its next operation fails. Nothing
//! is lost, and everything continues.

mod points;
mod work;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use points::{AGAIN, Job, Kind, POINTS};
use subagent_tests::harness::{Random, crowd, times};

/// The fault at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process ends at once.
    Abort,
    /// The thread hangs until its process is killed.
    Hang,
    /// The operation returns an error.
    Error,
}

/// One run of a fault.
#[derive(Debug, Clone, Copy)]
struct FailpointCase {
    point: &'static str,
    fault: Fault,
    job: Job,
    /// The count of passes through the point, over all processes, at which the fault occurs.
    passing: u64,
}

impl FailpointCase {
    fn name(&self) -> String {
        format!("{}={}@{}", self.point, self.action(), self.passing)
    }

    const fn action(&self) -> &'static str {
        match self.fault {
            Fault::Abort => "abort",
            Fault::Hang => "hang",
            Fault::Error => "error",
        }
    }
}

/// Number of concurrent cases, which mostly wait for processes that start.
const WIDTH: usize = 16;

/// Returns the possible faults at a point.
fn faults(kind: Kind) -> &'static [Fault] {
    match kind {
        Kind::Hit => &[Fault::Abort, Fault::Hang],
        Kind::Check => &[Fault::Abort, Fault::Hang, Fault::Error],
    }
}

/// Runs the cases, the longest first.
fn run(suite: &str, mut cases: Vec<FailpointCase>) {
    cases.sort_by_key(|case| !matches!(case.job, Job::Flood | Job::Stream | Job::Frozen));
    crowd(suite, WIDTH, &cases, FailpointCase::name, work::run);
}

/// Faults at the first pass of each point; in the long run at as many further ones.
fn at_the_first_passing(suite: &str, fault: Fault) {
    let points = POINTS.iter().filter(|(_, kind, _)| faults(*kind).contains(&fault));
    let cases = points.map(|(point, _, job)| FailpointCase { point, fault, job: *job, passing: 1 });
    run(suite, cases.flat_map(|case| std::iter::repeat_n(case, times(1))).collect());
}

#[test]
fn no_data_is_lost_when_a_process_dies_at_a_failpoint() {
    at_the_first_passing("failpoints, abort", Fault::Abort);
}

#[test]
fn others_are_answered_while_a_process_hangs_at_a_failpoint_and_work_goes_on_after_its_death() {
    at_the_first_passing("failpoints, hang", Fault::Hang);
}

#[test]
fn what_fails_at_a_failpoint_is_reported_or_done_again_and_nothing_is_lost() {
    at_the_first_passing("failpoints, error", Fault::Error);
}

#[test]
fn nothing_is_lost_at_a_later_passing_either() {
    let mut random = Random::announced();
    let mut cases = Vec::new();
    for (point, passings) in AGAIN {
        let (point, kind, job) = POINTS.iter().find(|(name, ..)| name == point).unwrap();
        for _ in 0..times(1) {
            let (fault, passing) = (*random.pick(faults(*kind)), 2 + random.below(passings - 1));
            cases.push(FailpointCase { point, fault, job: *job, passing });
        }
    }
    run("failpoints, a later passing", cases);
}

/// Points that a runtime passes on the way to its end.
const TO_THE_END: &[&str] = &[
    "terminate.before_record",
    "terminate.after_record",
    "end.before_clean",
    "end.after_clean",
    "ended.before_record",
    "ended.after_record",
    "gone.before_unlink",
    "gone.before_commit",
    "gone.after_commit",
];

#[test]
fn a_death_while_an_idle_agent_is_ended_reports_no_loss() {
    // It is the first end in this work.
    let case =
        |point: &&'static str| FailpointCase { point, fault: Fault::Abort, job: Job::Sleep, passing: 1 };
    run("failpoints, hibernation", TO_THE_END.iter().map(case).collect());
}

/// Points outside this manager's work, with their own tests (`backup.rs`, `restore/`, `removal/`,
/// `slurm/`, `kubernetes/`, `command_placements/`, `tasks.rs`, `worktrees_killed.rs`, and `client.rs` of the
/// runtime).
const ELSEWHERE: &[&str] = &[
    "queued.after_start",
    "worktree_create.before_run",
    "worktree_create.before_commit",
    "worktree_end.before_run",
    "worktree_end.before_commit",
    "worktree_removed.before_commit",
    "land.after_begin",
    "land.before_commit",
    "write_back.before_run",
    "merge.before_commit",
    "client_file.before_open",
    "client_file.after_close",
    "expire.after_mark",
    "task_spawn.after_commit",
    "task_end.before_commit",
    "task_end.after_commit",
    "task_delivery.before_commit",
    "task_delivery.after_commit",
    "task_result.before_commit",
    "task_result.after_commit",
    "folder.before_look",
    "handover.before_write",
    "handover.after_write",
    "handover.before_adopt",
    "handover.after_adopt",
    "schedule.before_store",
    "schedule.after_store",
    "firing.before_start",
    "firing.after_start",
    "declared.before_store",
    "declared.after_store",
    "observation.before_store",
    "observation.after_store",
    "change.before_store",
    "change.after_store",
    "delivery.before_store",
    "delivery.after_store",
    "delivery.before_send",
    "delivery.after_send",
    "command.before_start",
    "command.after_start",
    "command.before_spawn",
    "command.after_spawn",
    "after_hook.before_run",
    "after_hook.after_run",
    "after_hook.after_cursor",
    "backup.before_copy",
    "backup.after_copy",
    "backup.before_rename",
    "backup.after_rename",
    "restore.before_look",
    "restore.before_write",
    "restore.before_copy",
    "restore.after_copy",
    "restore.before_carry_over",
    "restore.before_rename",
    "restore.after_exchange",
    "restore.after_rename",
];

#[test]
fn every_failpoint_of_the_product_is_tested_with_each_of_its_actions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for folder in ["config/src", "worker-runtime/src", "subagentd/src", "subagent-cli/src"] {
        collect(&root.join(folder), &mut found);
    }
    for point in ELSEWHERE {
        assert!(found.iter().any(|(name, _)| name == point), "{point} is gone");
    }
    found.retain(|(point, _)| !ELSEWHERE.contains(&point.as_str()));
    let tested: BTreeSet<(String, bool)> =
        POINTS.iter().map(|(point, kind, _)| ((*point).to_owned(), *kind == Kind::Check)).collect();
    assert_eq!(found, tested, "the points in the sources differ from the tested ones");
    assert_eq!(tested.len(), POINTS.len(), "a point is in the table twice");
    assert!(POINTS.len() >= 40, "{} points", POINTS.len());
}

/// Collects the names: string literals of the form `place.before...` and `place.after...`, each
/// with whether an operation can fail there.
fn collect(folder: &Path, found: &mut BTreeSet<(String, bool)>) {
    let word =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_point = |literal: &str| {
        literal.split_once('.').is_some_and(|(place, moment)| {
            word(place) && word(moment) && (moment.starts_with("before") || moment.starts_with("after"))
        })
    };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let parts: Vec<&str> = text.split('"').collect();
            for pair in parts.windows(2).filter(|pair| is_point(pair[1])) {
                found.insert((pair[1].to_owned(), pair[0].ends_with("check(")));
            }
        }
    }
}
