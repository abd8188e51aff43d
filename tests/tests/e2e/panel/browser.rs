//! The page in a real Chromium. Skipped, and loudly so, where Chromium or what drives it is missing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Browser, On, Running, TestSandbox, say, wait_until};
use subagent_tests::invariants::Recorder;

use super::super::worktrees::repository;
use super::{LIMIT, Panel};

/// Memory that a panel may take for a line of 32 MiB.
const MAX_PANEL_KIB: u64 = 256 * 1024;

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A journey that is under way.
fn begin(sandbox: &TestSandbox, browser: &Browser, name: &str, link: &str) -> Running {
    browser.start(sandbox, "journey.mjs", &[name, link], &[], Duration::from_secs(240))
}

#[track_caller]
pub(super) fn finish(journey: Running) {
    let output = journey.output();
    assert!(output.status.success() && output.stdout.contains("done"), "{output}");
}

fn ready(journey: &Running) {
    journey.wait_line("that it is ready", |line| (line == "ready").then_some(()));
}

/// All that the agent has said.
fn said(sandbox: &TestSandbox, worker: &str) -> String {
    let events = sandbox.events(worker);
    events.iter().filter_map(|event| event["data"]["text"].as_str()).collect()
}

#[test]
fn a_question_is_answered_in_the_page_and_a_shell_goes_on() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let journey = begin(&sandbox, &browser, "approve", &panel.link());
    ready(&journey);
    let send = ["send", &worker, "!ask execute make clean\nit went on"];
    let shell = sandbox.command("subagent").args(send).at_terminal(100, On::All);
    finish(journey);
    shell.wait_for("answered by owner: allow");
    assert_eq!(shell.screen().status.code(), Some(0));
    assert!(said(&sandbox, &worker).contains("allow-once"), "{}", said(&sandbox, &worker));
    drop(panel);
    sandbox.finish();
}

#[test]
fn everything_is_done_by_keys() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!ask execute make clean");
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "keyboard", &panel.link()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_run_is_started_read_commented_on_and_stopped_by_keys() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!edit create notes.txt one\\ntwo");
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "keys", &panel.link()));
    wait_until("the end of the worker", LIMIT, || {
        (sandbox.show(&worker)["state"] == "stopped").then_some(())
    });
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_rule_is_made_and_a_turn_is_steered_and_canceled_by_keys() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send_no_wait(&worker, "!ask execute make clean\n!sleep 3600000");
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "steers", &panel.link()));
    let rules = sandbox.run(&["policy", "rules", "list"]).data();
    assert_eq!(rules["items"][0]["rule"], "execute(make clean)", "{rules}");
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_long_transcript_is_loaded_part_by_part() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let steps: String = (0..350).map(|step| format!("!tool execute step-{step}\n")).collect();
    let _ = sandbox.send(&worker, &format!("the begin\n{steps}the end"));
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "older", &panel.link()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_page_of_an_older_panel_is_loaded_again() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "old", &panel.link()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_task_appears_below_its_parent() {
    let Some(browser) = Browser::find() else { return };
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!(true), &["--name", "Root"]);
    let panel = Panel::start(&sandbox, &[]);
    let journey = begin(&sandbox, &browser, "tree", &panel.link());
    ready(&journey);
    let task = sandbox.task_file("nested", "Scout\u{202e}ing\u{200b}", "background", "!sleep 3600000");
    let _ = sandbox.send(&root, &sandbox.gives(&task));
    finish(journey);
    drop(panel);
    sandbox.finish();
}

#[test]
fn waiting_messages_are_moved_dropped_and_sent_now() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send_no_wait(&worker, "!sleep 3600000");
    for text in ["first", "second", "third"] {
        let queue = ["send", "--worker-id", &worker, "--text", text, "--queue", "--no-wait"];
        let _ = sandbox.run(&queue).data_of("turn.queued");
    }
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "queue", &panel.link()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn two_browsers_see_one_answer() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!ask execute make clean");
    let panel = Panel::start(&sandbox, &["--pair"]);
    let link = format!("{} {}", panel.link(), panel.code());
    finish(begin(&sandbox, &browser, "two", &link));
    wait_until("the end of the turn", LIMIT, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_form_is_filled_in_in_the_page() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let schema = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "title": "Name"}, "size": {"type": "string", "title": "Size", "enum": ["small", "large"]},
    }});
    let form = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
    let panel = Panel::start(&sandbox, &[]);
    let sent = sandbox.send_no_wait(&worker, &format!("!elicit {form}"));
    finish(begin(&sandbox, &browser, "form", &panel.link()));
    let _ = sandbox.turn_end(&sent);
    let said = said(&sandbox, &worker);
    assert!(said.contains("Ada") && said.contains("large"), "{said}");
    drop(panel);
    sandbox.finish();
}

#[test]
fn the_list_grows_and_a_run_is_started_in_the_page() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let journey = begin(&sandbox, &browser, "grows", &panel.link());
    ready(&journey);
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--name", "grown"]).run();
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.send(&worker, "first words");
    finish(journey);
    drop(panel);
    sandbox.finish();
}

#[test]
fn the_page_goes_on_when_the_daemon_was_killed() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let journey = begin(&sandbox, &browser, "killed", &panel.link());
    ready(&journey);
    sandbox.kill_daemon();
    let _ = sandbox.send(&worker, "after the kill");
    finish(journey);
    drop(panel);
    sandbox.finish();
}

#[test]
fn the_page_goes_on_when_the_daemon_was_replaced() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let journey = begin(&sandbox, &browser, "replaced", &panel.link());
    ready(&journey);
    let _ = sandbox.run(&["daemon", "restart"]).data_of("daemon.restarted");
    let _ = sandbox.send(&worker, "after the restart");
    finish(journey);
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_page_without_network_for_an_hour_shows_what_it_missed() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "away", &panel.link()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_slow_page_keeps_up_with_an_agent_that_writes_much() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let journey = begin(&sandbox, &browser, "slow", &panel.link());
    ready(&journey);
    let text = "!line 33554432\n!tool execute between\n!stream 30000\n!tool execute after\nthe end";
    let _ = sandbox.send_no_wait(&worker, text);
    finish(journey);
    let peak = Process::find(panel.running.pid()).unwrap().peak_memory_kib();
    assert!(peak < MAX_PANEL_KIB, "the panel had {peak} KiB");
    drop(panel);
    sandbox.finish();
}

#[test]
fn workers_of_two_workspaces_are_on_one_page() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, _) = TestSandbox::with_worker();
    let other = sandbox.file("elsewhere");
    std::fs::create_dir_all(other.join(".git")).unwrap();
    let there = |words: &[&str]| {
        let command = sandbox.subagent(words).cwd(&other).recorded_by(&Recorder::default());
        let _ = command.run().data();
    };
    let config = sandbox.config_file();
    there(&["controller", "init"]);
    there(&["worker", "start", "demo", "--name", "there", "--config", config.to_str().unwrap()]);
    there(&["send", "there", "!ask execute make there\nwent on there", "-d"]);
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "workspaces", &panel.link()));
    drop(panel);
    there(&["worker", "stop", "there"]);
    there(&["daemon", "stop"]);
    sandbox.finish();
}

#[test]
fn nothing_that_an_agent_writes_runs() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = [
        "A <script>hit = 1</script><img src=x onerror='hit = 1'><svg onload='hit = 1'></svg>",
        "!say [a](javascript:hit=1) [b](data:text/html,x) [c](https://example.org/) <javascript:hit=1> ![d](https://example.org/x.png)",
        "!think <iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
        "!tool execute <b onmouseover='hit = 1'>__proto__</b>",
        "!say \u{202e}gpj.exe\u{2066} \u{200b}zero\u{200b}",
        "!plan <img src=x onerror=hit=1>|__proto__|constructor",
        "!flood 1 200000",
        "the end",
    ];
    let _ = sandbox.send(&worker, &text.join("\n"));
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "hostile", &panel.link()));
    assert_eq!(sandbox.show(&worker)["state"], "idle", "a page of another origin has stopped it");
    drop(panel);
    sandbox.finish();
}

#[test]
fn changes_are_landed_in_the_page() {
    let Some(browser) = Browser::find() else { return };
    let sandbox = repository();
    let started =
        sandbox.run(&["worker", "start", "demo", "--name", "auth", "--worktree", "--tag", "job=login"]);
    let _ = started.data_of("worker.started");
    let _ = sandbox.run(&["send", "auth", "!edit create login.txt it works"]).data();
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "land", &panel.link()));
    let landed = std::fs::read_to_string(sandbox.workspace().join("login.txt")).unwrap();
    assert_eq!(landed.trim_end(), "it works");
    drop(panel);
    sandbox.finish();
}

#[test]
fn two_workers_in_one_file_are_marked_and_one_is_handed_off() {
    let Some(browser) = Browser::find() else { return };
    let (sandbox, demo) = TestSandbox::with_worker();
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--name", "other"]).run();
    let other = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    std::fs::write(sandbox.workspace().join("shared.txt"), "x\n").unwrap();
    for worker in [&demo, &other] {
        let _ = sandbox.send_no_wait(worker, "!edit replace shared.txt 1 y\n!sleep 3600000");
    }
    let panel = Panel::start(&sandbox, &[]);
    finish(begin(&sandbox, &browser, "together", &panel.link()));
    drop(panel);
    sandbox.finish();
}

#[test]
fn the_modules_of_the_page_have_tests_of_their_own() {
    if std::env::var_os("PATH")
        .is_none_or(|path| !std::env::split_paths(&path).any(|folder| folder.join("node").exists()))
    {
        assert!(std::env::var_os("SUBAGENT_REQUIRE_BROWSER").is_none(), "node is missing");
        say("SKIPPED: node is missing: the modules of the page are not tested");
        return;
    }
    let tests = root().join("panel/web-tests/page.test.mjs");
    let sandbox = TestSandbox::new();
    let words = ["--test", tests.to_str().unwrap()];
    let output = sandbox.command("node").args(words).deadline(Duration::from_secs(120)).run();
    assert!(output.status.success(), "{output}");
    sandbox.finish();
}

#[test]
fn the_modules_of_the_page_fit_their_types() {
    let Some(browser) = Browser::find() else { return };
    let sandbox = TestSandbox::new();
    let tsc = browser.driver().join("node_modules/typescript/bin/tsc");
    let project = root().join("panel/web-tests");
    let words = [tsc.to_str().unwrap(), "-p", project.to_str().unwrap()];
    let output = sandbox.command("node").args(words).deadline(Duration::from_secs(120)).run();
    assert!(output.status.success(), "{output}");
    sandbox.finish();
}
