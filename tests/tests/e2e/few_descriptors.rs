//! A daemon with few descriptors answers every request, reports why it cannot reach a worker, and
//! reaches the next one when another has ended.

use std::time::{Duration, Instant};

use subagent_tests::harness::{TestSandbox, wait_until};

const WORKERS: usize = 8;
/// Time limit of each request.
const ANSWERED: Duration = Duration::from_secs(15);

/// Starts workers, and then a daemon that may open `limit` files.
fn adopted_with(limit: u32) -> (TestSandbox, Vec<String>) {
    adopted_by(TestSandbox::new(), limit)
}

fn adopted_by(sandbox: TestSandbox, limit: u32) -> (TestSandbox, Vec<String>) {
    sandbox.init();
    let workers: Vec<String> = (0..WORKERS).map(|_| sandbox.start("demo")).collect();
    sandbox.kill_daemon();
    let script = format!("ulimit -n {limit}; exec \"$0\" worker list --json");
    let listed = sandbox.command("sh").args(["-c", &script, &sandbox.executable("subagent")]).run().data();
    assert_eq!(listed["count"], WORKERS, "{listed}");
    (sandbox, workers)
}

/// Whether this worker's agent answers a message. Otherwise the daemon reports that it
/// cannot reach the worker.
fn is_reached(sandbox: &TestSandbox, worker: &str) -> bool {
    // The daemon may lack descriptors for one request too.
    wait_until("an answer about the worker", ANSWERED * 4, || look(sandbox, worker))
}

fn look(sandbox: &TestSandbox, worker: &str) -> Option<bool> {
    let asked = Instant::now();
    let output = sandbox.sending(worker, "well").deadline(ANSWERED * 4).run();
    assert!(asked.elapsed() < ANSWERED, "{output}");
    if output.status.success() {
        assert_eq!(output.data()["assistantText"], "well");
        return Some(true);
    }
    let error = output.error("TOO_MANY_OPEN_FILES");
    assert_eq!(error["retryable"], true, "{error}");
    assert!(error["details"]["recommendedAction"].is_string(), "{error}");
    let shown = sandbox.run(&["worker", "show", worker]);
    if !shown.status.success() {
        shown.error("TOO_MANY_OPEN_FILES");
        return None;
    }
    let shown = shown.data();
    let why = shown["lastError"].as_str()?;
    assert!(why.starts_with("TOO_MANY_OPEN_FILES"), "{shown}");
    Some(false)
}

#[test]
fn a_daemon_with_few_descriptors_adopts_workers_in_turns() {
    let (sandbox, workers) = adopted_with(60);
    let daemon = sandbox.daemon();
    let reached: Vec<&String> = workers.iter().filter(|worker| is_reached(&sandbox, worker)).collect();
    assert!(!reached.is_empty() && reached.len() < WORKERS, "{reached:?}");
    let missed = workers.iter().find(|worker| !reached.contains(worker)).unwrap();
    // A command for an unreachable worker changes nothing.
    sandbox.run(&["worker", "stop", missed]).error("TOO_MANY_OPEN_FILES");
    for worker in &reached {
        assert_eq!(sandbox.run(&["worker", "stop", worker]).data()["state"], "stopped");
    }
    wait_until("the next workers to be adopted", ANSWERED * 4, || {
        let next = workers.iter().filter(|worker| !reached.contains(worker));
        (next.filter(|worker| is_reached(&sandbox, worker)).count() >= reached.len()).then_some(())
    });
    assert!(daemon.lives());
    // A daemon with more descriptors reaches all.
    sandbox.kill_daemon();
    for worker in workers.iter().filter(|worker| !reached.contains(worker)) {
        assert!(is_reached(&sandbox, worker), "{worker}");
    }
    sandbox.finish();
}

#[test]
fn a_placed_worker_counts_with_the_files_of_its_stream() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_PLACEMENT_LOOPBACK", "1");
    let (sandbox, workers) = adopted_by(sandbox, 62);
    // (62 - 48) / 6: two, and not the four that would have room beside the daemon.
    let reached = workers.iter().filter(|worker| is_reached(&sandbox, worker)).count();
    assert_eq!(reached, 2);
    sandbox.kill_daemon();
    for worker in &workers {
        assert_eq!(sandbox.run(&["worker", "stop", worker]).data()["state"], "stopped");
    }
    sandbox.finish();
}

#[test]
fn a_daemon_with_hardly_any_descriptors_says_so() {
    let (sandbox, workers) = adopted_with(36);
    for worker in &workers {
        let _ = is_reached(&sandbox, worker);
    }
    sandbox.kill_daemon();
    assert!(is_reached(&sandbox, &workers[0]));
    sandbox.finish();
}

/// Each command comes from a shell of its own, so the daemon looks at ancestors that it has not seen.
#[test]
fn every_command_is_answered_however_few_descriptors_there_are() {
    for limit in [32, 40, 44, 48, 52] {
        let (sandbox, workers) = adopted_with(limit);
        let run = |args: &[&str]| {
            let asked = Instant::now();
            let script = format!("\"$0\" {} --json; exit $?", args.join(" "));
            let output = sandbox.command("sh").args(["-c", &script, &sandbox.executable("subagent")]).run();
            assert!(asked.elapsed() < ANSWERED, "{limit}: {output}");
            if !output.status.success() {
                let _ = output.error("TOO_MANY_OPEN_FILES");
            }
        };
        for worker in &workers[..3] {
            run(&["worker", "show", worker]);
            run(&["worker", "stop", worker]);
            run(&["worker", "list"]);
        }
        sandbox.kill_daemon();
        for worker in &workers {
            assert_eq!(sandbox.run(&["worker", "stop", worker]).data()["state"], "stopped");
        }
        sandbox.finish();
    }
}

#[test]
fn doctor_says_how_many_workers_the_daemon_reaches() {
    let sandbox = TestSandbox::new();
    let script = "ulimit -n 100; exec \"$0\" doctor --json";
    let found = sandbox.command("sh").args(["-c", script, &sandbox.executable("subagent")]).run();
    // (100 - 48) / 3: descriptors reserved for the daemon, and descriptors per runtime.
    assert!(found.stdout.contains("100 for the daemon: enough for 17 workers that run"), "{found}");
    sandbox.finish();
}
