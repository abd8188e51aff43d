//! Notifications: what arrives where, in which order, and what becomes of what does not.

mod bad;
mod deliver;
mod desktop;
mod look;
mod occasions;
mod server;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::{Sandbox, wait_until};

use server::Server;

/// For what comes of its own accord.
const SOON: Duration = Duration::from_secs(30);

/// The user's own config file.
fn user_file(sandbox: &Sandbox) -> PathBuf {
    sandbox.file("home/.config/subagent/config.yaml")
}

/// Puts this under `notify` of the user's own config file.
fn configure(sandbox: &Sandbox, notify: &str) {
    let file = user_file(sandbox);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // Another file each time, as editors make it.
    let new = file.with_extension("new");
    fs::write(&new, format!("notify:\n{notify}\n")).unwrap();
    fs::rename(new, file).unwrap();
}

/// A worker with the label `Build`, whose owner is notified as this says. The CA of the server is trusted.
fn world(notify: &str) -> (Sandbox, String) {
    let mut sandbox = Sandbox::new();
    sandbox.set_env("SSL_CERT_FILE", Server::ca());
    configure(&sandbox, notify);
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--label", "Build"];
    let started = sandbox.run(&start).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap().to_owned();
    (sandbox, worker)
}

/// What `notify test` says where a sink does not take it.
fn fails_test(sandbox: &Sandbox) -> Value {
    let output = sandbox.run(&["notify", "test"]);
    assert_eq!(output.status.code(), Some(1), "{output}");
    output.document()["data"].take()
}

fn log(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.run(&["notify", "log"]).data_of("notify.log")["items"].as_array().unwrap().clone()
}

/// The newest delivery, once it has this status.
fn settled(sandbox: &Sandbox, status: &str) -> Value {
    let newest = || log(sandbox).first().filter(|newest| newest["status"] == status).cloned();
    wait_until(&format!("a delivery that is {status}"), SOON, newest)
}
