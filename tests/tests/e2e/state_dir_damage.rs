//! Each file of a state directory is removed, emptied or replaced. No command hangs, every error
//! says what is wrong and what to do, and `subagent doctor` names the cause of failing commands.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::stat::Mode;
use serde_json::Value;
use subagent_tests::harness::{Output, TestSandbox, crowd, times};

/// Number of concurrent cases.
const WIDTH: usize = 12;
/// Time limit of a command: commands do not wait for missing data.
const BOUND: Duration = Duration::from_secs(20);

/// The files and folders of a state directory; `W` is the worker.
const FILES: &[&str] = &[
    "state.db",
    "state.db-wal",
    "daemon.json",
    "daemon.lock",
    "start.lock",
    "socket-folder",
    "logs",
    "logs/subagentd.log",
    "runtimes",
    "runtimes/W",
    "runtimes/W/lock",
    "runtimes/W/guard.lock",
    "runtimes/W/1.journal",
    "runtimes/W.log",
    "handoffs",
];

/// The kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Removed,
    Emptied,
    Folder,
    Pipe,
    Knot,
}

#[derive(Debug, Clone)]
struct DamageCase {
    file: &'static str,
    damage: Damage,
    daemon: bool,
}

fn cases() -> Vec<DamageCase> {
    let mut cases = Vec::new();
    for file in FILES {
        for damage in [Damage::Removed, Damage::Emptied, Damage::Folder, Damage::Pipe, Damage::Knot] {
            let next = cases.len() % 2 == 0;
            // Alternates between the two; the longer run has both.
            let both = [next, !next].into_iter().take(if times(1) > 1 { 2 } else { 1 });
            cases.extend(both.map(|daemon| DamageCase { file, damage, daemon }));
        }
    }
    cases
}

/// Damages a file. Returns false if this damage is not possible.
fn damage(path: &Path, damage: Damage) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else { return false };
    if damage == Damage::Emptied {
        return meta.is_file() && File::options().write(true).truncate(true).open(path).is_ok();
    }
    if damage == Damage::Folder && meta.is_dir() {
        return false;
    }
    if meta.is_dir() {
        // A runtime may be writing to it.
        fs::rename(path, path.with_extension("moved")).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
    // A live daemon may have recreated its own file already, which is allowed.
    match damage {
        Damage::Removed | Damage::Emptied => true,
        Damage::Folder => fs::create_dir(path).is_ok(),
        Damage::Pipe => nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).is_ok(),
        Damage::Knot => symlink(path, path).is_ok(),
    }
}

/// The replacement of a file is removed before the sandbox, which reads its logs
/// after a failed test.
struct Odd(PathBuf);

impl Drop for Odd {
    fn drop(&mut self) {
        let kept = fs::symlink_metadata(&self.0).is_ok_and(|meta| meta.is_file() || meta.is_dir());
        if !kept {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// Checks that the output is a document in time, and that an error says what to
/// do. Returns the error.
#[track_caller]
fn judged(output: &Output) -> Option<Value> {
    assert!(output.elapsed < BOUND, "{output}");
    let document = output.document();
    if document["ok"] == true {
        return None;
    }
    let error = document["error"].clone();
    assert!(error["code"] != "INTERNAL_ERROR", "{output}");
    let advice = error["details"]["recommendedAction"].as_str().unwrap_or_default();
    assert!(!advice.is_empty(), "the error has no advice: {output}");
    Some(error)
}

/// Returns the problems found by doctor.
#[track_caller]
fn problems(sandbox: &TestSandbox) -> Vec<Value> {
    let output = sandbox.subagent(&["doctor"]).run();
    assert!(judged(&output).is_none() && output.elapsed < Duration::from_secs(15), "{output}");
    let findings = output.document()["data"]["findings"].clone();
    let wrong = |finding: &&Value| finding["status"] == "problem";
    let found: Vec<Value> = findings.as_array().unwrap().iter().filter(wrong).cloned().collect();
    assert!(found.iter().all(|finding| finding["action"].is_string()), "{found:#?}");
    found
}

fn run(case: &DamageCase) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    if !case.daemon {
        let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    }
    let odd = Odd(sandbox.state_dir().join(case.file.replace('W', &worker)));
    if !damage(&odd.0, case.damage) {
        sandbox.finish();
        return;
    }
    let before = problems(&sandbox);
    let commands: [&[&str]; 5] = [
        &["worker", "list"],
        &["send", "--worker-id", &worker, "--text", "on", "--no-wait"],
        &["worker", "stop", &worker],
        &["daemon", "status"],
        &["daemon", "stop"],
    ];
    let errors: Vec<Value> =
        commands.iter().filter_map(|command| judged(&sandbox.subagent(command).run())).collect();
    let after = problems(&sandbox);
    // A worker missing in an emptied database is explained by the error itself.
    let unexplained = errors.iter().filter(|error| error["code"] != "WORKER_NOT_FOUND").count() > 0
        && before.is_empty()
        && after.is_empty();
    assert!(!unexplained, "{case:?}: doctor finds no problem in spite of {errors:#?}");
    // Acknowledged data is gone on purpose, so nothing is checked; dropping it ends all processes.
}

#[test]
fn with_any_damage_to_a_file_no_command_hangs_and_each_error_says_what_to_do() {
    crowd(
        "damage",
        WIDTH,
        &cases(),
        |case| format!("{} {:?} daemon={}", case.file, case.damage, case.daemon),
        run,
    );
}
