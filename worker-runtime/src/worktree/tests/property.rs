//! After a kill at any step, no file or commit is lost, and unrelated files are unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use subagent_protocol::Code;
use subagent_protocol::worktree::{AfterLanding, Landing, LandingMode, Operation, Setup, WorktreeResult};
use subagent_testkit::{Random, say, times};

use super::land::landing;
use super::states::{FileStates, Origin, State};
use super::templates::Templates;
use super::world::{TEST_WAITS, time};
use crate::git::killed;
use crate::worktree::answer;

/// Number of cases in an ordinary run; `SUBAGENT_FAULTS=10` runs 10,000.
const CASES: usize = 1000;
/// Number of cases in a long run.
const MAX_CASES: usize = 10_000;
/// Approximate number of steps of the longest operation.
const STEPS: u64 = 100;
/// The variable with the operation's file, for the process that is killed.
const OPERATION: &str = "SUBAGENT_TEST_OPERATION";
const THREADS: usize = 4;

/// Not a test by itself: runs as the process that is killed.
#[test]
fn child() {
    let Some(file) = std::env::var_os(OPERATION) else { return };
    let operation: Operation = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let env: Vec<_> = std::env::vars_os().collect();
    let answer = answer(operation, &env, TEST_WAITS);
    let text = format!("{} {}", killed::passed(), serde_json::to_string(&answer).unwrap());
    fs::write(Path::new(&file).with_extension("answer"), text).unwrap();
}

#[test]
fn nothing_is_lost_when_processes_are_killed() {
    let mut random = Random::announced();
    let templates = Templates::new();
    let seeds: Vec<u64> = match std::env::var("SUBAGENT_TEST_CASE").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..times(CASES).min(MAX_CASES)).map(|_| random.number()).collect(),
    };
    let (next, failed, killed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match case(&templates, *seed) {
                        Ok(was_killed) => drop(killed.fetch_add(was_killed.into(), Ordering::Relaxed)),
                        Err(error) => {
                            failed.lock().unwrap().push(format!("SUBAGENT_TEST_CASE={seed}: {error}"))
                        }
                    }
                }
            });
        }
    });
    let (failed, killed) = (failed.into_inner().unwrap(), killed.into_inner());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), seeds.len(), failed.join("\n"));
    say(&format!("worktrees: {} cases, {killed} of them killed", seeds.len()));
    assert!(seeds.len() == 1 || killed > seeds.len() / 4, "only {killed} were killed");
}

/// Runs one case. Returns whether its operation was killed.
fn case(templates: &Templates, seed: u64) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let is_create = random.below(6) == 0;
    let mut state = State::new(templates, Random::new(random.number()), seed.is_multiple_of(5), !is_create);
    let worktree = state.worktree.clone();
    let operation = if is_create {
        let setup = Setup { commands: vec!["true".into()], copy: vec!["ignored".into()] };
        Operation::Create { worktree, setup }
    } else {
        match random.below(4) {
            0 => Operation::Remove { worktree },
            1 => Operation::Discard { worktree, time: time(0) },
            _ => Operation::Land { worktree, landing: Box::new(some_landing(state.random())) },
        }
    };
    let (contents, main) = (state.contents(), state.main_files());
    let status = state.world.git(&["status", "--porcelain", "--ignore-submodules"]);
    let head = state.head();
    let was_killed = kill(&state, &operation, &mut random);
    // All content still exists, even before any repair.
    kept(&state, &contents, &format!("after the kill of {operation:?}"))?;
    let answer = state.world.run(operation.clone());
    let context = format!("{operation:?}\n  answered {answer:?}");
    let failed = |what: String| Err(format!("{what}\n  {context}"));
    let into = match &answer {
        WorktreeResult::Ready
        | WorktreeResult::Removed
        | WorktreeResult::Found(_)
        | WorktreeResult::Discarded(_) => None,
        WorktreeResult::Landed(landed) => Some(landed.into.clone()),
        WorktreeResult::Failed(error)
            if matches!(error.code, Code::LandConflict | Code::LandRefused | Code::LandCheckFailed) =>
        {
            None
        }
        WorktreeResult::Failed(error) if is_busy(error, state.is_locked) => None,
        _ => return failed("an answer that should not be".to_owned()),
    };
    if let Err(what) = kept(&state, &contents, "at the end") {
        return failed(what);
    }
    let changed = match into {
        // Repeating a landing that was killed at its end does nothing.
        Some(_) => {
            state.world.git(&["diff-tree", "-r", "--name-only", "--no-renames", "-z", &head, &state.head()])
        }
        None => String::new(),
    };
    let changed: BTreeSet<_> = changed.split('\0').map(|name| state.world.top().join(name)).collect();
    let untouched = |files: FileStates| -> FileStates {
        files.into_iter().filter(|(path, _)| !changed.contains(path)).collect()
    };
    let (before, after) = (untouched(main), untouched(state.main_files()));
    if before != after {
        return failed(format!("the main tree was touched: {before:?}\n  is now {after:?}"));
    }
    let now = state.world.git(&["status", "--porcelain", "--ignore-submodules"]);
    if now != status {
        return failed(format!("its status was {status:?}, is {now:?}"));
    }
    if state.world.top().join(".git/subagent/landing.json").exists() {
        return failed("landing.json was left".to_owned());
    }
    if !state.lock_is_as_before() {
        return failed("index.lock was left or removed".to_owned());
    }
    match state.world.run(Operation::Look { worktree: state.worktree.clone() }) {
        WorktreeResult::Found(contents) if contents.exists || !is_create => Ok(was_killed),
        other => failed(format!("then it looks so: {other:?}")),
    }
}

/// Whether an operation of the user is under way, or the index is locked as it should be.
fn is_busy(error: &subagent_protocol::Error, is_locked: bool) -> bool {
    let reason = error.details.get("reason").and_then(|reason| reason.as_str());
    error.code == Code::WorktreeBusy && (is_locked || reason != Some("locked"))
}

fn some_landing(random: &mut Random) -> Landing {
    Landing {
        id: 0,
        into: Some("main".to_owned()),
        how: *random.pick(&[
            LandingMode::Squash,
            LandingMode::Squash,
            LandingMode::Merge,
            LandingMode::Rebase,
        ]),
        then: *random.pick(&[
            AfterLanding::Remove,
            AfterLanding::Remove,
            AfterLanding::Keep,
            AfterLanding::GoOn,
        ]),
        checks: if random.below(3) == 0 { vec!["true".to_owned()] } else { Vec::new() },
        ..landing()
    }
}

/// Runs the operation in a process that is killed at some step, before or during a git run.
/// Returns whether it was.
pub(super) fn kill(state: &State, operation: &Operation, random: &mut Random) -> bool {
    let file = state.world.dir.path().join("operation");
    fs::write(&file, serde_json::to_vec(operation).unwrap()).unwrap();
    let step = 1 + random.below(STEPS);
    let point =
        if random.below(2) == 0 { step.to_string() } else { format!("{step}:{}", random.below(4000)) };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "worktree::tests::property::child"]).env_clear().envs(state.world.env.clone());
    child.env(OPERATION, &file).env(killed::VARIABLE, point);
    let output = child.output().unwrap();
    !output.status.success()
}

/// Checks that all content still exists.
fn kept(state: &State, contents: &BTreeMap<String, Origin>, when: &str) -> Result<(), String> {
    let now = state.ids();
    let is_there = |id: &String| now.contains(id);
    let mut lost =
        contents.iter().filter(|(id, origin)| !is_there(id) && !is_there(&origin.converted)).peekable();
    if lost.peek().is_none() {
        return Ok(());
    }
    Err(format!("lost {when}: {:?}", lost.collect::<Vec<_>>()))
}
