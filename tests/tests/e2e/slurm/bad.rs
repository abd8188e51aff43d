//! What can be wrong with a cluster: each has a code and advice, and leaves no job.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Slurm};

/// Starts a worker there in vain, returns the error and removes the worker.
fn refused(sandbox: &TestSandbox, code: &str) -> Value {
    let error = sandbox.try_start_on("cluster").error(code);
    if let Some(worker) = error["details"]["workerId"].as_str() {
        let _ = sandbox.run(&["worker", "rm", "--force", worker]).data_of("worker.removed");
    }
    error
}

/// The same after errors that say to try again: a job may end just before its step.
fn refused_at_last(sandbox: &TestSandbox, code: &str) -> Value {
    for _ in 0..5 {
        let error = sandbox.try_start_on("cluster").any_error();
        if let Some(worker) = error["details"]["workerId"].as_str() {
            let _ = sandbox.run(&["worker", "rm", "--force", worker]).data_of("worker.removed");
        }
        if error["code"] == code {
            return error;
        }
        assert_eq!(error["retryable"], true, "{error}");
    }
    panic!("no {code} after five starts");
}

#[test]
fn what_is_missing_on_a_cluster_is_named() {
    let mut sandbox = TestSandbox::new();
    let Some(mut slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    slurm.place(&sandbox, json!({"args": ["--partition=none"]}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "job", "{error}");
    slurm.place(&sandbox, json!({"cwd": "/no-such-folder"}));
    let error = refused(&sandbox, "PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["cwd"], "/no-such-folder", "{error}");
    slurm.place(&sandbox, json!({"program": "/usr/bin/no-such-runtime"}));
    let error = refused_at_last(&sandbox, "PLACEMENT_NOT_PREPARED");
    assert!(error.to_string().contains("no-such-runtime"), "{error}");
    slurm.place(&sandbox, json!({"args": ["--array=1-3"]}));
    let error = sandbox.try_start_on("cluster").error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("--array"), "{error}");
    slurm.place(&sandbox, json!({}));
    slurm.kill_controller();
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "engine", "{error}");
    slurm.start_controller();
    wait_until("the end of the jobs", DEADLINE, || slurm.jobs().is_empty().then_some(()));
    let worker = sandbox.start_on("cluster");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_cluster_is_prepared_and_checked_step_by_step() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    slurm.place(&sandbox, json!({"program": null}));
    let check = || sandbox.run(&["placement", "check", "cluster"]);
    let error = check().error("PLACEMENT_NOT_PREPARED");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("prepare cluster"), "{error}");
    let prepare = || sandbox.run(&["placement", "prepare", "cluster"]).data_of("placement.prepared");
    let prepared = prepare();
    assert_eq!(prepared["uploaded"], true, "{prepared}");
    let program = prepared["program"].as_str().unwrap();
    assert!(program.starts_with(Slurm::placed(&sandbox).to_str().unwrap()), "{prepared}");
    assert_eq!(prepare()["uploaded"], false);
    // A copy that was cut short is replaced.
    fs::write(program, "#!/bin/sh\n").unwrap();
    assert_eq!(prepare()["uploaded"], true);
    let checked = check().data_of("placement.checked");
    let steps: Vec<&Value> = checked["items"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, ["engine", "runtime", "folder", "job", "agent", "log", "stop"], "{checked}");
    let worker = sandbox.start_on("cluster");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    slurm.place(&sandbox, json!({"program": null, "cwd": "/none"}));
    let error = check().error("PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["steps"][1]["step"], "runtime", "{error}");
    let listed = sandbox.run(&["placement", "list"]).data_of("placement.listed");
    assert_eq!((&listed["items"][0]["kind"], &listed["items"][0]["cwd"]), (&"slurm".into(), &"/none".into()));
    sandbox.finish();
}
