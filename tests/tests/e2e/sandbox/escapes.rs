//! An agent that tries to escape. `tests/src/bin/hostile_agent/escapes.rs` has the attempts.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::worktree::{committed, start};
use super::world::{Bait, Confinement, contents, has_layers, world};

/// Asserts which attempts succeed; those of `control` have to.
fn try_all(mut sandbox: TestSandbox, layers: Confinement, profile: Value, least: usize) {
    let listed = profile["network"][0].as_str().unwrap_or_default().to_owned();
    let network = if listed.is_empty() { profile["network"].as_str().unwrap_or("all") } else { "hosts" };
    let agent = sandbox.test_agent("hostile-agent", &[]).key("sandbox", profile.clone());
    sandbox.launcher("hostile", agent);
    sandbox.init();
    if sandbox.file("ws/.git").exists() {
        let _ = start(&sandbox, "other", &[]);
    }
    let worker = sandbox.start("hostile");
    let shown = sandbox.show(&worker);
    let mut names: Vec<&str> =
        shown["sandbox"]["layers"].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, layers.names(), "{shown}");
    let bait = Bait::lay(&sandbox, &worker, network, &listed);
    let folders = ["outside", "home", "main", "ws/.git"].map(|folder| sandbox.file(folder));
    let foreign: Vec<_> = folders.into_iter().filter(|folder| folder.exists()).collect();
    let before = contents(&foreign);
    let said = sandbox.send(&worker, &format!("hostile: escape {}", bait.file.display()));
    let report = said["assistantText"].as_str().unwrap();
    let (control, ways): (Vec<&str>, Vec<&str>) =
        report.lines().partition(|line| line.contains(" control: "));
    let controls = 3 + usize::from(network == "hosts");
    assert!(control.len() == controls && control.iter().all(|line| line.starts_with("OUT ")), "{report}");
    let out: Vec<&&str> = ways.iter().filter(|line| !line.starts_with("kept ")).collect();
    assert!(out.is_empty(), "{layers:?} {profile}: {out:#?}\n{report}");
    assert!(ways.len() >= least, "{report}");
    assert_eq!(contents(&foreign), before, "{layers:?} {profile}: {report}");
    drop(bait);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn no_way_leads_out_of_a_workspace_that_is_only_read() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let profile = json!({"filesystem": "shared_ro", "write": ["allowed"], "network": "none"});
        try_all(world(layers), layers, profile, 61);
    }
}

#[test]
fn no_way_leads_out_of_a_copy_of_the_workspace() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let sandbox = committed(layers);
        fs::write(sandbox.file("ws/allowed/file"), "").unwrap();
        try_all(sandbox, layers, json!({"filesystem": "isolated"}), 57);
    }
}

#[test]
fn no_way_leads_out_of_the_default_sandbox() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let mut sandbox = world(layers);
        let state_dir = sandbox.file("state");
        sandbox.set_state_dir(state_dir);
        try_all(sandbox, layers, json!({}), 57);
    }
}

#[test]
fn no_way_leads_out_where_a_list_says_what_is_read_and_the_network_is_a_loopback() {
    if !has_layers() {
        return;
    }
    for layers in [Confinement::Bubblewrap, Confinement::Both] {
        let sandbox = world(layers);
        let agent = sandbox.executable("hostile-agent");
        let programs = std::path::Path::new(&agent).parent().unwrap().to_owned();
        let read = json!(["/usr", "/etc", "/lib", "/lib64", programs, "../outside"]);
        let profile = json!({"write": ["allowed"], "read": read, "network": "loopback"});
        try_all(sandbox, layers, profile, 59);
    }
}

#[test]
fn no_way_leads_out_where_a_list_says_what_the_network_reaches() {
    if !has_layers() {
        return;
    }
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listed = target.local_addr().unwrap().to_string();
    for layers in [Confinement::Bubblewrap, Confinement::Both] {
        let profile = json!({"filesystem": "shared_ro", "write": ["allowed"], "network": [listed]});
        try_all(world(layers), layers, profile, 65);
    }
}
