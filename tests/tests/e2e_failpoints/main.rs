//! Every named failpoint, with everything that can happen there, in the middle of a manager's work: the process aborts,
//! it stands still until somebody kills it, or what it is about to do fails. Nothing is lost, everything goes on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

mod points;
mod work;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use points::{Job, Kind, POINTS};
use subagent_tests::harness::crowd;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process is gone.
    Abort,
    /// The thread that came there stands still until its process is killed.
    Hang,
    /// The operation fails.
    Error,
}

/// One run.
#[derive(Debug, Clone, Copy)]
struct Case {
    point: &'static str,
    fault: Fault,
    job: Job,
}

impl Case {
    fn name(&self) -> String {
        format!("{}={}", self.point, self.action())
    }

    const fn action(&self) -> &'static str {
        match self.fault {
            Fault::Abort => "abort",
            Fault::Hang => "hang",
            Fault::Error => "error",
        }
    }
}

/// So many at the same time: a case mostly waits for processes that start.
const WIDTH: usize = 16;

fn cases(fault: Fault) -> Vec<Case> {
    let can = |kind: Kind| fault != Fault::Error || kind == Kind::Check;
    let points = POINTS.iter().filter(|(_, kind, _)| can(*kind));
    let mut cases: Vec<Case> = points.map(|(point, _, job)| Case { point, fault, job: *job }).collect();
    // Those that take longest begin first.
    cases.sort_by_key(|case| !matches!(case.job, Job::Flood | Job::Stream | Job::Frozen));
    cases
}

#[test]
fn whoever_dies_at_a_failpoint_nothing_is_lost() {
    crowd("failpoints, abort", WIDTH, &cases(Fault::Abort), Case::name, work::run);
}

#[test]
fn whoever_hangs_at_a_failpoint_others_are_answered_and_after_its_death_everything_goes_on() {
    crowd("failpoints, hang", WIDTH, &cases(Fault::Hang), Case::name, work::run);
}

#[test]
fn what_fails_at_a_failpoint_is_told_or_done_again_and_nothing_is_lost() {
    crowd("failpoints, error", WIDTH, &cases(Fault::Error), Case::name, work::run);
}

/// Points of other work than this manager's, with tests of their own (`backup.rs`, `restore_refusals.rs`, `removal/`,
/// and `client.rs` of the runtime).
const ELSEWHERE: &[&str] = &[
    "client_file.before_open",
    "client_file.after_close",
    "expire.after_mark",
    "backup.before_copy",
    "backup.after_copy",
    "backup.before_rename",
    "backup.after_rename",
    "restore.before_look",
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
    assert_eq!(found, tested, "the points in the sources and those that are tested differ");
    assert_eq!(tested.len(), POINTS.len(), "a point stands twice in the table");
    assert!(POINTS.len() >= 40, "{} points", POINTS.len());
}

/// The names are the string literals of the form `place.before...` and `place.after...`; with each whether something can
/// fail there.
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
