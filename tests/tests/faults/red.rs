//! Each invariant is proven to fail: the product violates it on purpose (`SUBAGENT_SABOTAGE`, only
//! in test builds), and exactly the right check fails. On demand: `cargo test --workspace --test
//! faults -- --ignored turns_red`.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use subagent_tests::harness::{TestSandbox, say, wait_until};

use super::keys::repeated;
use super::owners::{done_without_a_right, not_the_last_one_alone};
use super::requests::prepare;
use super::soak::{at_rest, work};
use super::starts::{first_commands, more_than_one_daemon};

/// Time limit for immediate effects.
const SOON: Duration = Duration::from_secs(15);
/// Time limit for the soak to detect a violation.
const ENOUGH: Duration = Duration::from_secs(40);

/// A product with this deliberate violation.
fn broken(word: &str) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_SABOTAGE", word);
    sandbox.recorder().knows_all_decisions();
    sandbox
}

fn broken_with_worker(word: &str) -> (TestSandbox, String) {
    let sandbox = broken(word);
    sandbox.init();
    let worker = sandbox.start("demo");
    (sandbox, worker)
}

/// Checks that a violation begins with this, and none with anything else that is not allowed.
#[track_caller]
fn only(violations: &[String], name: &str) {
    assert!(!violations.is_empty(), "{name} stayed green");
    for violation in violations {
        assert!(violation.starts_with(name), "another check than {name} failed: {violation}");
    }
    say(&format!("{name} turned red: {}", violations[0].lines().next().unwrap_or_default()));
}

#[track_caller]
fn some(violations: &[String], name: &str) {
    let found = violations.iter().find(|violation| violation.starts_with(name));
    let found = found.unwrap_or_else(|| panic!("{name} stayed green: {violations:#?}"));
    say(&format!("{name} turned red: {}", found.lines().next().unwrap_or_default()));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn an_event_that_is_forgotten_turns_red() {
    let (sandbox, worker) = broken_with_worker("store.forget_events");
    let _ = sandbox.send(&worker, "!chunks 10 text");
    let _ = sandbox.events(&worker);
    for _ in 0..3 {
        let _ = sandbox.send(&worker, "!chunks 30 text");
    }
    some(&sandbox.finish_broken(), "what was acknowledged is stored");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_record_that_is_skipped_turns_red() {
    let (sandbox, worker) = broken_with_worker("ingest.skip");
    let _ = sandbox.sending(&worker, "!chunks 3 text").run();
    some(&sandbox.finish_broken(), "numbers have no gap and no duplicate");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_turn_that_ends_twice_turns_red() {
    let (sandbox, worker) = broken_with_worker("turn.end_twice");
    let _ = sandbox.sending(&worker, "hello").run();
    only(&sandbox.finish_broken(), "a turn has one end");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_prompt_that_is_sent_twice_turns_red() {
    let (sandbox, worker) = broken_with_worker("prompt.again");
    let prompt = format!("!touch {}\n!say begun\n!sleep 1000", sandbox.file_name("touched"));
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    sandbox.kill(&sandbox.runtime(&worker));
    let _ = sandbox.turn_end(&accepted);
    assert_eq!(sandbox.touches("touched"), 2);
    only(&sandbox.finish_broken(), "a turn has one end");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_runtime_whose_end_is_ignored_turns_red() {
    let (sandbox, worker) = broken_with_worker("gone.ignore");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!hang");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let lookout = sandbox.lookout();
    sandbox.kill(&sandbox.runtime(&worker));
    only(&sandbox.violations(), "nothing runs without a runtime");
    wait_until("the lookout to see it", Duration::from_secs(15), || lookout.seen().then_some(()));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_request_that_outlives_its_runtime_turns_red() {
    let (sandbox, worker) = broken_with_worker("approval.keep_open");
    let waited = sandbox.send(&worker, "!ask execute it");
    sandbox.kill(&sandbox.runtime(&worker));
    let _ = sandbox.turn_end(&waited);
    some(&sandbox.violations(), "an approval has one end");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn an_answer_in_the_users_name_turns_red() {
    let (sandbox, worker) = broken_with_worker("approval.answer");
    let accepted = sandbox.send_no_wait(&worker, "!ask execute it\n!say done");
    let _ = sandbox.turn_end(&accepted);
    only(&sandbox.finish_broken(), "an approval has one end");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn content_that_is_kept_after_its_delivery_turns_red() {
    let (sandbox, worker) = broken_with_worker("elicitation.keep_content");
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"}}}"#;
    let question = format!(r#"!elicit {{"mode":"form","message":"m","requestedSchema":{schema}}}"#);
    let waited = sandbox.send(&worker, &question);
    let args = ["answer", "--worker-id", &worker, "--accept", "--set", "a=x"];
    sandbox.run(&args).data_of("elicitation.answered");
    let _ = sandbox.turn_end(&waited);
    only(&sandbox.finish_broken(), "an approval has one end");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_guard_that_spares_what_it_guards_turns_red() {
    let (sandbox, worker) = broken_with_worker("guard.spare");
    let _ = sandbox.send(&worker, "!spawn daemon\n!spawn wipe-env\n!spawn ignore-term");
    let lookout = sandbox.lookout();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    wait_until("the lookout to see what is left", Duration::from_secs(15), || lookout.seen().then_some(()));
    let seen = lookout.end().violations;
    assert!(seen.iter().any(|violation| violation.starts_with("without runtime and guard")), "{seen:#?}");
    some(&sandbox.finish_broken(), "left running");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_lock_that_does_not_lock_turns_red() {
    let sandbox = broken("daemon.no_lock");
    let outputs = first_commands(&sandbox);
    let wrong = more_than_one_daemon(&sandbox, &outputs);
    assert!(!wrong.is_empty(), "one daemon per state dir stayed green");
    say(&format!("one daemon per state dir turned red: {}", wrong[0]));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_key_that_is_forgotten_turns_red() {
    let (sandbox, _) = broken_with_worker("requests.forget");
    let post = prepare(&sandbox, "/v1/workers/{worker}/handoffs", 1);
    let wrong = repeated(&sandbox, &post, "key");
    assert!(!wrong.is_empty(), "the same key stayed green");
    say(&format!("the same key turned red: {}", wrong[0]));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_row_that_contradicts_itself_turns_red() {
    let (sandbox, worker) = broken_with_worker("store.forget_stopped_at");
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    only(&sandbox.finish_broken(), "the database is sound");
}

/// Runs the soak with one worker, until the leaking resource has grown too much.
#[track_caller]
fn the_soak_turns_red(word: &str, what: &str) {
    let (sandbox, worker) = broken_with_worker(word);
    let workers = [worker];
    let part = Duration::from_secs(2);
    let mut turns = work(&sandbox, &workers, Instant::now() + part, "warm");
    let warm = at_rest(&sandbox, &workers);
    let begun = Instant::now();
    let mut grown = Vec::new();
    while grown.is_empty() && begun.elapsed() < ENOUGH {
        turns += work(&sandbox, &workers, Instant::now() + part, &format!("leak-{turns}"));
        grown = at_rest(&sandbox, &workers).grown(&warm);
    }
    assert!(grown.iter().any(|grown| grown.contains(what)), "{turns} turns: {grown:?}");
    say(&format!("the soak turned red after {turns} turns: {}", grown[0]));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_descriptor_that_leaks_turns_red() {
    the_soak_turns_red("turn.leak_descriptor", "open files");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_handle_that_is_not_looked_at_turns_red() {
    let sandbox = broken("handle.trust");
    let first = sandbox.init();
    let wrong = done_without_a_right(&sandbox, &first);
    assert!(!wrong.is_empty(), "bad handles stayed green");
    say(&format!("bad handles turned red: {}", wrong[0].chars().take(200).collect::<String>()));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_number_that_is_given_again_turns_red() {
    let (sandbox, worker) = broken_with_worker("seq.again");
    let _ = sandbox.send(&worker, "seen");
    let _ = sandbox.events(&worker);
    // Nothing of it is left, so only the reservation keeps its numbers from others.
    sandbox.run(&["worker", "rm", &worker, "--force"]).data_of("worker.removed");
    let folder = sandbox.state_dir().join("runtimes").join(&worker);
    wait_until("the worker to be deleted", SOON, || (!folder.exists()).then_some(()));
    sandbox.kill_daemon();
    let next = sandbox.start("demo");
    let _ = sandbox.send(&next, "others have seen its numbers");
    some(&sandbox.finish_broken(), "what was acknowledged is stored");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_runtime_that_is_given_up_while_it_lives_turns_red() {
    let (sandbox, worker) = broken_with_worker("gone.invent");
    let gate = sandbox.gate("never");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let (lookout, runtime) = (sandbox.lookout(), sandbox.runtime(&worker));
    // The next daemon finds it, and reports that there is none.
    sandbox.kill_daemon();
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    some(&sandbox.violations(), "nothing runs without a runtime");
    assert!(runtime.lives());
    wait_until("the lookout to see it", SOON, || lookout.seen().then_some(()));
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_decision_that_is_not_reported_turns_red() {
    // Delivered without a report; not delivered without a report.
    let (sandbox, worker) = broken_with_worker("decision.keep_open");
    let waited = sandbox.send(&worker, "!ask execute it\n!say done");
    let _ = sandbox.approve(&worker, &waited["requestId"], "allow");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    some(&sandbox.violations(), "an approval has one end");
    let (sandbox, worker) = broken_with_worker("approval.keep_open");
    let waited = sandbox.send(&worker, "!ask execute it");
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    let decided = sandbox.approve(&worker, &waited["requestId"], "allow").data_of("approval.decided");
    assert_eq!(decided["delivery"], "pending", "{decided}");
    sandbox.kill(&runtime);
    let _ = sandbox.turn_end(&waited);
    some(&sandbox.violations(), "an approval has one end");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn an_owner_who_is_not_released_by_a_takeover_turns_red() {
    let (sandbox, _) = broken_with_worker("owner.keep");
    let takeover = || sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let granted = [takeover(), takeover()];
    let wrong = not_the_last_one_alone(&sandbox, &granted);
    assert!(!wrong.is_empty(), "two owners stayed green");
    say(&format!("one owner turned red: {}", wrong[0].chars().take(200).collect::<String>()));
    some(&sandbox.violations(), "an ownership has one owner");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn memory_that_is_not_given_back_turns_red() {
    the_soak_turns_red("turn.leak_memory", "KiB of its own");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_journal_that_is_never_deleted_turns_red() {
    the_soak_turns_red("segment.keep", "segments of journals");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_wal_that_is_never_written_back_turns_red() {
    the_soak_turns_red("checkpoint.never", "bytes of WAL");
}

#[test]
#[ignore = "on demand: breaks the product on purpose"]
fn a_stray_that_stays_turns_red() {
    // The lookout itself: a process of an agent without runtime and guard, as after a double kill.
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "!spawn wipe-env");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let lookout = sandbox.lookout();
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        runtime.signal(signal);
        guard.signal(signal);
    }
    wait_until("the lookout to see what is left", Duration::from_secs(15), || lookout.seen().then_some(()));
}
