//! Many concurrent attempts to become the owner: each gets an answer, and the result is
//! one owner or none.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox};

use super::{handle, owned, take_over};

const CROWD: usize = 50;
/// All of them share two cores.
const DEADLINE: Duration = Duration::from_secs(180);

/// Reads the hint repeatedly: every version of it is complete.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Reader {
    fn of(sandbox: &TestSandbox) -> Self {
        let path: PathBuf = sandbox.workspace().join(".subagent/controller.json");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut reads = 0;
            while !seen.load(Ordering::Relaxed) {
                if let Ok(bytes) = fs::read(&path) {
                    let hint: Value = serde_json::from_slice(&bytes)
                        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)));
                    assert!(hint["controllerId"].is_string(), "{hint}");
                    reads += 1;
                }
                thread::yield_now();
            }
            reads
        });
        Self { stop, thread }
    }

    fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.thread.join().unwrap() > 0, "there was no hint to read");
    }
}

/// Runs the commands at the same time.
fn at_once(sandbox: &TestSandbox, commands: &[&[&str]]) -> Vec<Output> {
    let running: Vec<_> =
        commands.iter().map(|args| sandbox.subagent(args).deadline(DEADLINE).spawn()).collect();
    running.into_iter().map(subagent_tests::harness::Running::output).collect()
}

fn data(outputs: &[Output]) -> Vec<Value> {
    outputs.iter().filter(|output| output.status.success()).map(Output::data).collect()
}

fn epochs(granted: &[Value]) -> BTreeSet<u64> {
    granted.iter().map(|data| data["owner"]["epoch"].as_u64().unwrap()).collect()
}

/// Returns the data of `controller.status` with this handle.
fn status(sandbox: &TestSandbox, granted: &Value) -> Value {
    owned(sandbox.subagent(&["controller", "status"]), &handle(granted)).run().data()
}

#[test]
fn of_many_inits_one_wins() {
    let sandbox = TestSandbox::new();
    let reader = Reader::of(&sandbox);
    let outputs = at_once(&sandbox, &[&["controller", "init"] as &[&str]; CROWD]);
    let won = data(&outputs);
    assert_eq!(won.len(), 1, "{won:?}");
    for lost in outputs.iter().filter(|output| !output.status.success()) {
        let error = lost.error("CONTROLLER_OWNERSHIP_CONFLICT");
        assert_eq!(error["details"]["controllerId"], won[0]["controllerId"]);
    }
    let status = status(&sandbox, &won[0]);
    assert_eq!((&status["activeOwner"]["epoch"], &status["envHandle"]["valid"]), (&json!(1), &json!(true)));
    assert_eq!(sandbox.run(&["controller", "recover"]).data()["count"], 1);
    reader.finish();
    sandbox.finish();
}

#[test]
fn of_many_takeovers_each_wins_once_and_the_last_one_stays() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let reader = Reader::of(&sandbox);
    let outputs = at_once(&sandbox, &[&["controller", "attach", "--takeover"] as &[&str]; CROWD]);
    let won = data(&outputs);
    let last = u64::try_from(CROWD + 1).unwrap();
    assert_eq!((won.len(), epochs(&won)), (CROWD, (2..=last).collect()), "one after the other");
    for granted in &won {
        let status = status(&sandbox, granted);
        assert_eq!(status["activeOwner"]["epoch"], last);
        assert_eq!(status["envHandle"]["valid"], granted["owner"]["epoch"] == last);
    }
    reader.finish();
    sandbox.finish();
}

#[test]
fn of_many_releases_one_ends_the_ownership() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let outputs = at_once(&sandbox, &[&["controller", "release", "--force"] as &[&str]; CROWD]);
    let released = data(&outputs);
    assert_eq!(released.len(), CROWD, "none fails");
    let by: Vec<&Value> = released.iter().filter(|data| data["released"] == true).collect();
    assert_eq!(by.len(), 1, "{released:?}");
    assert!(
        released
            .iter()
            .filter(|data| data["released"] == false)
            .all(|data| data["reason"] == "NO_ACTIVE_OWNER")
    );
    assert_eq!(sandbox.run(&["controller", "status"]).data()["state"], "dormant");
    sandbox.finish();
}

#[test]
fn with_concurrent_changes_the_epochs_rise_and_there_is_at_most_one_owner() {
    let sandbox = TestSandbox::new();
    let first = take_over_after_init(&sandbox);
    let reader = Reader::of(&sandbox);
    let kinds: [&[&str]; 3] = [
        &["controller", "init"],
        &["controller", "attach", "--takeover"],
        &["controller", "release", "--force"],
    ];
    let commands: Vec<&[&str]> = kinds.into_iter().cycle().take(CROWD - CROWD % 3).collect();
    let outputs = at_once(&sandbox, &commands);
    for failed in outputs.iter().filter(|output| !output.status.success()) {
        failed.error("CONTROLLER_OWNERSHIP_CONFLICT");
    }
    let done = data(&outputs);
    let granted: Vec<Value> = done.iter().filter(|data| data["owner"].is_object()).cloned().collect();
    let found = epochs(&granted);
    assert_eq!(found.len(), granted.len(), "no epoch may be granted twice");
    assert_eq!(found.first().copied(), Some(3), "they continue where they were");
    assert_eq!(found.last().copied(), u64::try_from(granted.len() + 2).ok(), "without a gap");
    let ended: Vec<u64> = done.iter().filter_map(|data| data["epoch"].as_u64()).collect();
    assert_eq!(ended.iter().collect::<BTreeSet<_>>().len(), ended.len(), "each ended once: {ended:?}");
    let now = sandbox.run(&["controller", "status"]).data();
    let newest = granted.iter().max_by_key(|data| data["owner"]["epoch"].as_u64()).unwrap_or(&first);
    let valid = status(&sandbox, newest)["envHandle"]["valid"] == true;
    assert_eq!(valid, now["state"] == "active", "only the newest may own it: {now}");
    reader.finish();
    sandbox.finish();
}

fn take_over_after_init(sandbox: &TestSandbox) -> Value {
    sandbox.init();
    take_over(sandbox)
}
