//! `subagent restore`: what continues after it, what it refuses, and the effects of a
//! failed or killed restore.

mod deaths;
mod goes_on;
mod refusals;

use std::fs;

use serde_json::Value;
use subagent_tests::harness::TestSandbox;
use subagent_tests::invariants::Acknowledged;

/// A backup, and what was acknowledged until it was made.
struct KnownBackup {
    file: String,
    known: Acknowledged,
}

fn keep(sandbox: &TestSandbox) -> KnownBackup {
    let file = sandbox.file_name("kept.db");
    let _ = sandbox.run(&["backup", "--force", &file]).data_of("state.backed_up");
    KnownBackup { file, known: sandbox.recorder().acknowledged() }
}

/// A worker, and a backup that contains it.
fn saved() -> (TestSandbox, String, KnownBackup) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let kept = keep(&sandbox);
    (sandbox, worker, kept)
}

/// A worker that has had a turn, and a backup that contains both.
fn saved_after_a_turn() -> (TestSandbox, String, KnownBackup) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let kept = keep(&sandbox);
    (sandbox, worker, kept)
}

/// Restores, and discards later acknowledged facts.
#[track_caller]
fn restore(sandbox: &TestSandbox, kept: &KnownBackup, flags: &[&str]) -> Value {
    let data = sandbox.run(&[&["restore", &kept.file], flags].concat()).data_of("state.restored");
    sandbox.recorder().go_back_to(kept.known.clone());
    data
}

fn names(sandbox: &TestSandbox) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(sandbox.state_dir()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// Returns the files of an incomplete restore.
fn left_over(sandbox: &TestSandbox) -> Vec<String> {
    names(sandbox).filter(|name| name.starts_with("state.db.restoring")).collect()
}

/// Returns the number of replaced databases that are kept.
fn kept(sandbox: &TestSandbox) -> usize {
    let is_kept = |name: &String| name.starts_with("state.db.replaced-") && !name.ends_with("-wal");
    names(sandbox).filter(is_kept).count()
}
