//! The recommended action of an error, besides the error itself.

use subagent_tests::harness::TestSandbox;

#[track_caller]
fn assert_error(sandbox: &TestSandbox, args: &[&str], code: &str, command: Option<&str>) {
    let output = sandbox.command("subagent").args(args).run();
    assert!(output.stderr.starts_with(&format!("{code}: ")), "{output}");
    assert!(output.stderr.contains("\nHint: "), "{output}");
    let typed = output.stderr.lines().find_map(|line| line.strip_prefix("Try: "));
    assert_eq!(typed, command, "{output}");
}

#[test]
fn errors_that_have_a_next_step_say_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let look = format!("subagent worker inspect {worker}");
    assert_error(&sandbox, &["cancel", "--worker-id", &worker], "WORKER_NOT_RUNNING", Some(&look));
    let approve = ["approve", "--worker-id", &worker, "--request", "ap_0000000000", "--decision", "allow"];
    assert_error(&sandbox, &approve, "APPROVAL_NOT_FOUND", Some(&look));
    let watch = format!("subagent watch --worker-id {worker}");
    let wait = ["wait", "--worker-id", &worker, "--from-event-id", "ev_000000000000"];
    assert_error(&sandbox, &wait, "EVENT_NOT_FOUND", Some(&watch));
    let start = ["worker", "start", "--launcher", "unknown"];
    assert_error(&sandbox, &start, "LAUNCHER_NOT_FOUND", Some("subagent launcher list"));
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &gate.directive());
    assert_error(&sandbox, &["send", "--worker-id", &worker, "--text", "x"], "WORKER_BUSY", None);
    gate.open();
    let _ = sandbox.turn_end(&accepted);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let go_on = format!("subagent worker continue --from-worker {worker}");
    assert_error(&sandbox, &["send", "--worker-id", &worker, "--text", "x"], "WORKER_STOPPED", Some(&go_on));
    sandbox.finish();
}
