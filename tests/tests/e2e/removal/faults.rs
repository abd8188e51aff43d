//! The daemon is killed during a removal: a confirmed removal stays, and the
//! next daemon completes it.

use subagent_tests::harness::{Random, TestSandbox, times, wait_until};

use super::{SOON, count, text, wait_until_deleted};

#[test]
fn a_removal_that_was_cut_short_comes_to_its_end() {
    let mut sandbox = TestSandbox::new();
    let _ = sandbox.init();
    // Between the mark, the pieces, the files and the row.
    for point in [
        "remove.before_mark",
        "remove.after_mark",
        "chore.before_commit",
        "remove.before_files",
        "remove.after_files",
    ] {
        sandbox.remove_env("SUBAGENT_FAILPOINTS");
        let worker = sandbox.start("demo");
        let _ = sandbox.send(&worker, "!chunks 500 text");
        let _ = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
        let stopped = sandbox.command("subagentd").args(["stop"]).run();
        assert!(stopped.status.success(), "{stopped}");
        let once = sandbox.file(point);
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort"));
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
        let removed = sandbox.persist(&["worker", "rm", &worker]).data_of("worker.removed");
        assert_eq!(removed["workerId"], worker);
        wait_until("the daemon to abort", SOON, || once.exists().then_some(()));
        let _ = sandbox.persist(&["worker", "show", &worker]).error("WORKER_NOT_FOUND");
        wait_until_deleted(&sandbox, &worker);
        sandbox.check();
    }
    assert_eq!(count(&sandbox, "SELECT count(*) FROM events"), 0);
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_at_any_moment_of_removals() {
    let sandbox = TestSandbox::new();
    let mut random = Random::announced();
    let _ = sandbox.init();
    let stays = sandbox.start("demo");
    let kept = sandbox.send(&stays, "!chunks 50 kept");
    for round in 0..times(10) {
        let workers: Vec<String> = (0..3)
            .map(|_| {
                let worker = sandbox.start("demo");
                let _ = sandbox.send(&worker, "!chunks 2000 text");
                worker
            })
            .collect();
        let removals: Vec<_> = workers
            .iter()
            .map(|worker| sandbox.subagent(&["worker", "rm", worker, "--force"]).spawn())
            .collect();
        let daemon = sandbox.daemon();
        // At a random moment between the first mark and the last row.
        let marked = random.below(4);
        wait_until("some removals", SOON, || {
            let sql = "SELECT count(*) FROM removed_workers";
            (count(&sandbox, sql) >= i64::try_from(round * 3).unwrap() + i64::try_from(marked).unwrap())
                .then_some(())
        });
        let events = count(&sandbox, "SELECT count(*) FROM events");
        let down_to = i64::try_from(random.below(6000)).unwrap();
        let _ = subagent_tests::harness::wait_while(std::time::Duration::from_millis(300), || {
            (count(&sandbox, "SELECT count(*) FROM events") > events - down_to).then_some(())
        });
        sandbox.kill(&daemon);
        for removal in removals {
            let output = removal.output();
            if !output.status.success() {
                // Only errors that a new attempt overcomes.
                let error = output.any_error();
                assert!(
                    error["retryable"] == true || text(&error["code"]).starts_with("DAEMON_"),
                    "{output}"
                );
            }
        }
        for worker in &workers {
            let again = sandbox.persist(&["worker", "rm", worker, "--force"]);
            assert!(again.status.success() || again.any_error()["code"] == "WORKER_NOT_FOUND", "{again}");
            wait_until_deleted(&sandbox, worker);
        }
        sandbox.check();
    }
    let found = sandbox.events(&stays);
    assert!(found.iter().any(|event| event["eventId"] == kept["matchedEvent"]["eventId"]));
    sandbox.finish();
}
