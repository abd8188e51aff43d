//! Every named failpoint once: the process aborts there, in the middle of a manager's work, and nothing is lost.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use subagent_tests::harness::Sandbox;

/// More than a segment of the journal holds, so that one is sealed.
const ABOVE_A_SEGMENT: &str = "!flood 300 65536";

/// A manager's work, in which the first process that comes to this point aborts. Whoever takes its place lives.
#[track_caller]
fn abort_at(point: &str) {
    let mut sandbox = Sandbox::new();
    let once = sandbox.file("aborted");
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    sandbox.persist(&["controller", "init"]).data_of("controller.initialized");
    let mut worker = None;
    for _ in 0..3 {
        let started = sandbox.persist(&["worker", "start"]);
        if started.status.success() {
            worker = started.data()["workerId"].as_str().map(str::to_owned);
            break;
        }
        // A start whose runtime died may fail, but then because of that, and the next one is a new one.
        assert!(once.exists(), "{started}");
    }
    let worker = worker.unwrap();
    for number in 1..=3 {
        let file = format!("touched-{number}");
        let flood = if number == 2 && point == "journal.before_seal" { ABOVE_A_SEGMENT } else { "" };
        let prompt = format!("!touch {}\n!ask execute it\n{flood}\n!say done", sandbox.file_name(&file));
        let end = sandbox.manage(&worker, &format!("key-{number}"), &prompt);
        let completed = end["type"] == "turn.completed";
        assert!(completed || once.exists(), "{end}");
        let times = sandbox.touches(&file);
        assert!(if completed { times == 1 } else { times <= 1 }, "executed {times} times: {end}");
        if number == 3 {
            // The third is after everything: the point was met in the first two, or is one of the end.
            assert!(completed, "{end}");
        }
    }
    let restarted = sandbox.persist(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(restarted["state"], "idle");
    let handoff =
        sandbox.persist(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    let look = sandbox.persist(&["worker", "inspect", &worker]).data_of("worker.inspected");
    assert_eq!(look["latestHandoff"]["snapshotId"], handoff["snapshotId"]);
    for path in [&handoff["handoffPath"], &handoff["checkpointPath"]] {
        assert!(Path::new(path.as_str().unwrap()).is_file(), "{handoff}");
    }
    let handoffs = fs::read_dir(sandbox.state_dir().join("handoffs").join(&worker)).unwrap();
    assert_eq!(handoffs.count(), 1, "half a handoff, or one that nobody was told of, is left");
    sandbox.check();
    let stopped = sandbox.persist(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    assert!(once.exists(), "{point} was never reached");
    let other = sandbox.start("demo");
    assert_eq!(sandbox.send(&other, "well")["assistantText"], "well");
    sandbox.finish();
}

macro_rules! failpoints {
    ($($test:ident = $point:literal),+ $(,)?) => {
        /// All points that are tested here.
        const POINTS: &[&str] = &[$($point),+];
        $(#[test] fn $test() { abort_at($point); })+
    };
}

failpoints! {
    journal_before_append = "journal.before_append",
    journal_after_append = "journal.after_append",
    journal_before_seal = "journal.before_seal",
    dispatch_before_record = "dispatch.before_record",
    dispatch_after_record = "dispatch.after_record",
    dispatch_after_write = "dispatch.after_write",
    answer_before_record = "answer.before_record",
    answer_after_record = "answer.after_record",
    answer_after_write = "answer.after_write",
    turn_end_before_record = "turn_end.before_record",
    turn_end_after_record = "turn_end.after_record",
    end_before_clean = "end.before_clean",
    end_after_clean = "end.after_clean",
    spawn_before = "spawn.before",
    spawn_after = "spawn.after",
    gone_before_commit = "gone.before_commit",
    handoff_before_rename = "handoff.before_rename",
    handoff_before_commit = "handoff.before_commit",
    store_before_commit = "store.before_commit",
    store_after_commit = "store.after_commit",
}

/// Points of other work than this manager's, with tests of their own (`backup.rs`, `restore_refusals.rs`).
const ELSEWHERE: &[&str] = &[
    "backup.before_copy",
    "backup.after_copy",
    "backup.before_rename",
    "backup.after_rename",
    "restore.before_look",
    "restore.before_carry_over",
    "restore.before_rename",
    "restore.after_rename",
];

#[test]
fn every_failpoint_of_the_product_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for folder in ["worker-runtime/src", "subagentd/src", "subagent-cli/src"] {
        collect(&root.join(folder), &mut found);
    }
    let tested: BTreeSet<String> = POINTS.iter().chain(ELSEWHERE).map(|point| (*point).to_owned()).collect();
    assert_eq!(found, tested, "the names in the sources and the names that are tested differ");
}

/// The names are the string literals of the form `place.before...` and `place.after...`.
fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split('"').filter(|literal| {
                let word = |text: &str| {
                    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                };
                literal.split_once('.').is_some_and(|(place, moment)| {
                    word(place)
                        && word(moment)
                        && (moment.starts_with("before") || moment.starts_with("after"))
                })
            });
            found.extend(names.map(str::to_owned));
        }
    }
}
