//! A daemon dies while notifications are pending and hooks run, at random moments and at each step.
//! Each question, end and failure arrives; only one in progress may arrive twice, with the same id.
//! A hook's denial counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Random, TestSandbox, crowd, wait_until};

use super::a_moment;
use super::deaths::DaemonDeath;

/// Number of deaths in an ordinary run: each step once.
const DEATHS: usize = 2 * STEPS.len();
/// Number of concurrent cases, which mostly wait.
const WIDTH: usize = 4;
/// Time limit for all notifications.
const SOON: Duration = Duration::from_secs(60);
/// Maximum time from the first message to the daemon's death.
const MILLIS: u64 = 2500;
/// Steps at which the daemon dies by itself, or the process that runs the command.
const STEPS: &[&str] = &[
    "delivery.before_store",
    "delivery.after_store",
    "delivery.before_send",
    "delivery.after_send",
    "after_hook.before_run",
    "after_hook.after_run",
    "after_hook.after_cursor",
    "command.before_start",
    "command.after_start",
    "command.before_spawn",
    "command.after_spawn",
    "decision.before_commit",
    "decision.after_commit",
];

#[test]
fn what_is_due_arrives_once_but_for_what_was_under_way_whenever_the_daemon_dies() {
    let deaths = DaemonDeath::all(DEATHS, STEPS);
    crowd("notifications", WIDTH, &deaths, DaemonDeath::name, run);
}

fn run(death: &DaemonDeath) {
    let mut random = Random::new(death.seed);
    let mut sandbox = TestSandbox::new();
    let config = sandbox.file("home/.config/subagent");
    fs::create_dir_all(&config).unwrap();
    // One write per notification, so lines are complete.
    let sink =
        |command: &str| format!("  - {{to: command, on: [question, done, failed], command: '{command}'}}\n");
    // The other sink hangs.
    let notify = format!("notify:\n{}{}", sink("cat >> ~/told"), sink("cat > /dev/null; sleep 1000"));
    let hook = |line: &str| json!([{"hooks": [{"type": "command", "command": line}]}]);
    let hooks = json!({
        "Stop": hook("awk 1 >> ~/stopped"),
        "PreToolUse": hook("if grep -q 'rm x'; then echo no >&2; exit 2; fi"),
    });
    fs::write(config.join("config.yaml"), format!("{notify}hooks: {hooks}\n")).unwrap();
    let once = death.arm(&mut sandbox);
    sandbox.init();
    let workers = [(); 4].map(|()| sandbox.start("demo"));
    let prompts = ["!ask execute make all", "done", "!error -32603 no", "!ask execute rm x"];
    for (worker, prompt) in workers.iter().zip(prompts) {
        let _ = sandbox.send_no_wait(worker, prompt);
    }
    if death.step.is_none() {
        a_moment(&mut random, MILLIS);
        sandbox.kill_daemon();
    }
    // The next command starts the next daemon, which continues.
    let settled = || {
        let log = sandbox.run(&["notify", "log"]).data_of("notify.log");
        let items = log["items"].as_array()?.clone();
        let delivered = |item: &&Value| item["status"] == "delivered";
        (items.iter().filter(delivered).count() == workers.len()).then_some(items)
    };
    let log = wait_until("the notifications", SOON, settled);
    assert!(death.step.is_none() || once.exists());
    let reported = fs::read_to_string(sandbox.file("home/told")).unwrap();
    let reported: Vec<Value> = reported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut events = BTreeSet::new();
    for document in &reported {
        *times.entry(document["id"].as_str().unwrap()).or_default() += 1;
        let data = &document["data"];
        let event =
            if data["eventId"].is_null() { &data["questions"][0]["eventId"] } else { &data["eventId"] };
        events.insert(event.as_str().unwrap());
    }
    let expected: BTreeSet<&str> = log.iter().map(|item| item["eventId"].as_str().unwrap()).collect();
    assert_eq!(events, expected, "{reported:?}");
    assert_eq!(times.len(), workers.len(), "an event must have one id: {reported:?}");
    let repeated = times.values().filter(|times| **times > 1).count();
    assert!(
        repeated <= 1 && reported.len() <= workers.len() + 1,
        "only one could be in progress: {reported:?}"
    );
    hooked(&sandbox, &workers, death);
    sandbox.finish();
}

/// Each of the three ends reaches the hook with one id, at most twice. Or it is reported as failed,
/// when the step ended the process that runs the hook instead of the daemon. The denial of the other
/// hook counts once.
fn hooked(sandbox: &TestSandbox, workers: &[String; 4], death: &DaemonDeath) {
    let failed = |worker: &&String| {
        let failed = |event: &&Value| event["type"] == "hook.failed" && event["data"]["event"] == "Stop";
        sandbox.events(worker).iter().filter(failed).count() == 1
    };
    let run = || {
        let text = fs::read_to_string(sandbox.file("home/stopped")).unwrap_or_default();
        let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
        for line in text.lines() {
            let input: Value = serde_json::from_str(line).ok()?;
            let word = |key: &str| input[key].as_str().unwrap().to_owned();
            *times.entry((word("worker"), word("eventId"))).or_default() += 1;
        }
        let ended = |worker: &&String| times.keys().any(|(name, _)| name == *worker);
        let missing: Vec<&String> = workers[1..].iter().filter(|worker| !ended(worker)).collect();
        missing.iter().all(failed).then_some((times, missing.len()))
    };
    let (times, failed) = wait_until("the hooks of the ends", SOON, run);
    let may_fail = death.step.is_some_and(|step| step.starts_with("command."));
    assert!(failed <= usize::from(may_fail), "{times:?}");
    assert!(times.len() + failed == 3 && times.values().all(|times| *times <= 2), "{times:?}");
    let events = sandbox.events(&workers[3]);
    let decided: Vec<&Value> = events.iter().filter(|event| event["type"] == "approval.decided").collect();
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(
        (&decided[0]["data"]["by"], &decided[0]["data"]["decision"]),
        (&json!("hook"), &json!("deny"))
    );
}
