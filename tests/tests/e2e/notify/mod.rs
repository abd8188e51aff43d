//! Notifications: their targets and order, and the handling of failed ones.

mod bad;
mod bell;
mod comes_back;
mod deliver;
mod desktop;
mod look;
mod occasions;
mod server;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

use server::SinkServer;

/// Time limit for asynchronous results.
const SOON: Duration = Duration::from_secs(30);

/// Returns the user's own config file.
fn user_file(sandbox: &TestSandbox) -> PathBuf {
    sandbox.file("home/.config/subagent/config.yaml")
}

/// Sets `notify` in the user's own config file.
fn configure(sandbox: &TestSandbox, notify: &str) {
    let file = user_file(sandbox);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // A new file each time, as editors do it.
    let new = file.with_extension("new");
    fs::write(&new, format!("notify:\n{notify}\n")).unwrap();
    fs::rename(new, file).unwrap();
}

/// A worker with the label `Build` and these notifications. The server's CA is trusted.
fn world(notify: &str) -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SSL_CERT_FILE", SinkServer::ca());
    configure(&sandbox, notify);
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--label", "Build"];
    let started = sandbox.run(&start).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap().to_owned();
    (sandbox, worker)
}

/// Returns the error of `notify test` for a sink that rejects it.
fn fails_test(sandbox: &TestSandbox) -> Value {
    let output = sandbox.run(&["notify", "test"]);
    assert_eq!(output.status.code(), Some(1), "{output}");
    output.document()["data"].take()
}

fn log(sandbox: &TestSandbox) -> Vec<Value> {
    sandbox.run(&["notify", "log"]).data_of("notify.log")["items"].as_array().unwrap().clone()
}

/// Returns the newest delivery, once it has this status.
fn settled(sandbox: &TestSandbox, status: &str) -> Value {
    let newest = || log(sandbox).first().filter(|newest| newest["status"] == status).cloned();
    wait_until(&format!("a delivery that is {status}"), SOON, newest)
}
