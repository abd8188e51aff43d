//! A link that is cut while the agent writes more than the quota of the journal there: the agent is
//! read up to the quota, `worker show` says so, and all its reports arrive once after the repair.

use std::fs;

use subagent_tests::harness::{On, TestSandbox, wait_until};

use super::DEADLINE;
use super::unreachable::{Link, reached, unreachable};

/// The quota of a journal with the word `journal.small`, in bytes.
const QUOTA: u64 = 500_000;
/// Number of the agent's chunks. Their records have several times as many bytes as [`QUOTA`].
const CHUNKS: u64 = 40_000;
/// What `worker show` says of an agent that is not reached.
const SAID: &str = "Its agent is read until 1 GiB of its reports wait there, and not further.";

/// The bytes of the journal of the runtime there.
fn written(sandbox: &TestSandbox, worker: &str) -> u64 {
    let files = fs::read_dir(sandbox.state_dir().join("placed").join(worker)).unwrap().flatten();
    let journals = files.filter(|file| file.path().extension().is_some_and(|end| end == "journal"));
    journals.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// The text of `worker show`, in which lines break.
fn shown(sandbox: &TestSandbox, worker: &str) -> String {
    let show = sandbox.command("subagent").args(["worker", "show", worker]).at_terminal(250, On::Both);
    show.screen().text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_agent_behind_a_cut_link_is_read_up_to_the_quota_and_its_reports_arrive_once() {
    let mut sandbox = TestSandbox::placed();
    let link = Link::of(&mut sandbox);
    sandbox.set_env("SUBAGENT_SABOTAGE", "journal.small");
    sandbox.init();
    let worker = sandbox.start("demo");
    let (gate, over) = (sandbox.gate("turn"), sandbox.file_name("over"));
    let text = format!(
        "!say begun\n{}\n!stream {CHUNKS}\n!touch {over}\n!ask edit notes.md\n!say finished",
        gate.directive()
    );
    let accepted = sandbox.send_no_wait(&worker, &text);
    let begun = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    assert!(!shown(&sandbox, &worker).contains(SAID));
    let runtime = sandbox.runtime(&worker);
    link.cut(&sandbox);
    gate.open();
    wait_until("a journal above the quota", DEADLINE, || (written(&sandbox, &worker) > QUOTA).then_some(()));
    let reported = unreachable(&sandbox, &worker);
    let full = written(&sandbox, &worker);
    assert!(full < 2 * QUOTA, "{full} bytes");
    assert!(shown(&sandbox, &worker).contains(SAID), "{}", shown(&sandbox, &worker));
    // A message for later is stored here, and the next daemon does not reach the place either.
    let queued = ["send", "--worker-id", &worker, "--text", "next", "--if-busy", "queue", "--no-wait"];
    assert_eq!(sandbox.run(&queued).data()["unreachable"]["since"], reported["since"]);
    sandbox.kill_daemon();
    let _ = unreachable(&sandbox, &worker);
    // Nothing was read meanwhile, and the turn goes on: the agent waits in the middle of its text.
    assert_eq!(written(&sandbox, &worker), full);
    assert_eq!((sandbox.touches("over"), sandbox.show(&worker)["state"].as_str()), (0, Some("running")));
    assert!(runtime.lives());

    link.repair();
    reached(&sandbox, &worker);
    let asked = sandbox.wait_after(&worker, &begun["eventId"], "approval.requested");
    assert_eq!(sandbox.touches("over"), 1);
    assert!(!shown(&sandbox, &worker).contains(SAID));
    let _ = sandbox.approve(&worker, &asked["data"]["requestId"], "allow").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let (all, distinct, highest) = sandbox.records();
    assert!(all == distinct && all == highest, "{all} {distinct} {highest}");
    let said: String = sandbox
        .events(&worker)
        .iter()
        .filter(|event| event["type"] == "progress.message" && event["turnId"] == accepted["turnId"])
        .map(|event| event["data"]["text"].as_str().unwrap())
        .collect();
    let streamed: String = (0..CHUNKS).map(|chunk| format!("chunk {chunk} ")).collect();
    assert_eq!(said.matches(&streamed).count(), 1, "{} bytes, not {}", said.len(), streamed.len());
    assert_eq!(said.matches("chunk ").count() as u64, CHUNKS);
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.finish();
}
