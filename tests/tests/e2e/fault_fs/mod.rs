//! The Nth write, sync, open, rename etc. fails, for every file that the product writes. The client
//! gets a clear code or does not notice, nothing acknowledged is lost, and everything continues.

mod targets;

use std::collections::BTreeSet;
use std::sync::Mutex;

use subagent_tests::harness::{Faults, Random, Stubborn, TestSandbox, crowd, times};
use targets::{TARGETS, TOGETHER};

/// Number of first calls of each kind that fail, each in its own run.
const FIRST: u64 = 2;
/// Upper limit for one more, chosen at random.
const LATER: u64 = 30;
/// Number of concurrent cases.
const WIDTH: usize = 12;

struct FaultFsCase {
    name: String,
    rules: Vec<String>,
    /// The minimum number of calls that match the first rule.
    calls: u64,
    /// Whether that many calls are certain.
    certain: bool,
}

fn cases() -> Vec<FaultFsCase> {
    let mut random = Random::announced();
    let mut cases = Vec::new();
    for target in TARGETS {
        for errno in target.errnos {
            let later = (0..times(1)).map(|_| FIRST + 1 + random.below(LATER)).collect::<BTreeSet<u64>>();
            let nth = (1..=FIRST).chain(later.into_iter().filter(|_| target.calls > FIRST));
            let nth = nth.filter(|nth| *nth <= FIRST.min(target.calls) || target.calls > FIRST);
            cases.extend(nth.map(|nth| FaultFsCase {
                name: format!("{} {} {errno} {nth}", target.op, target.path),
                rules: vec![format!("op={};path={};errno={errno};nth={nth}", target.op, target.path)],
                calls: target.calls,
                certain: nth <= FIRST,
            }));
        }
    }
    cases.extend(TOGETHER.iter().map(|(name, rules)| FaultFsCase {
        name: (*name).to_owned(),
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        calls: 1,
        certain: true,
    }));
    cases
}

#[test]
fn no_data_is_lost_when_a_call_on_a_file_fails() {
    let failure_codes = Mutex::new(BTreeSet::new());
    crowd(
        "fail the Nth",
        WIDTH,
        &cases(),
        |case| case.name.clone(),
        |case| {
            let codes = run(case);
            failure_codes.lock().unwrap().extend(codes);
        },
    );
    // Each of them is one that a script can handle.
    let known = [
        "BACKEND_RUNTIME_ERROR",
        "BACKEND_UNAVAILABLE",
        // From a takeover after the first attempt to create one failed.
        "CONTROLLER_NOT_FOUND",
        "DAEMON_NOT_RUNNING",
        "DAEMON_START_FAILED",
        "RUNTIME_LOST",
        "STATE_DIR_UNWRITABLE",
        "STORAGE_ERROR",
        "STORAGE_FULL",
    ];
    let failure_codes = failure_codes.into_inner().unwrap();
    assert!(failure_codes.iter().all(|code| known.contains(&code.as_str())), "{failure_codes:?}");
}

/// Runs a manager's work with this fault. Returns the error codes that the manager received.
fn run(case: &FaultFsCase) -> Vec<String> {
    let mut sandbox = TestSandbox::new();
    let faults = Faults::arm(&mut sandbox, &case.rules);
    let manager = Stubborn::new(&sandbox);
    manager.init();
    let worker = manager.start();
    for number in 1..=2 {
        let before = failures(&faults, case);
        let file = format!("touched-{number}");
        let prompt = format!("!touch {}\n!ask execute it\n!say done", sandbox.file_name(&file));
        let end = manager.turn(&worker, &format!("key-{number}"), &prompt);
        let completed = end["type"] == "turn.completed";
        let runs = sandbox.touches(&file);
        assert!(if completed { runs == 1 } else { runs <= 1 }, "executed {runs} times: {end}");
        assert!(completed || failures(&faults, case) > before, "it failed without a reason: {end}");
        if number == 1 {
            assert_eq!(manager.get(&["worker", "restart", &worker])["state"], "idle");
        }
    }
    let handoff = manager.get(&["worker", "handoff", "--worker-id", &worker]);
    assert!(std::path::Path::new(handoff["handoffPath"].as_str().unwrap()).is_file(), "{handoff}");
    sandbox.check();
    assert_eq!(manager.get(&["worker", "stop", &worker])["state"], "stopped");
    let stopped = sandbox.command("subagentd").args(["stop", "--json"]).run();
    assert!(stopped.status.success() || stopped.any_error()["code"] != "INTERNAL_ERROR", "{stopped}");
    let failure_codes = manager.failure_codes();
    let (calls, failed) = faults.counted(0);
    assert!(calls >= case.calls, "only {calls} calls went through the library");
    assert!(failed > 0 || !case.certain, "none of {calls} calls failed");
    for rule in 1..case.rules.len() {
        assert!(faults.counted(rule).1 > 0, "{} was never met", case.rules[rule]);
    }
    faults.disarm(&mut sandbox);
    let manager = Stubborn::new(&sandbox);
    let worker = manager.start();
    assert_eq!(manager.turn(&worker, "last", "well")["type"], "turn.completed");
    sandbox.finish();
    failure_codes
}

fn failures(faults: &Faults, case: &FaultFsCase) -> u64 {
    (0..case.rules.len()).map(|rule| faults.counted(rule).1).sum()
}
