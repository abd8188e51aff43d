//! A manager's work with one fault during it, and the conditions that must hold afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Stubborn, TestSandbox, times, wait_until};

use super::points::Job;
use super::{FailpointCase, Fault};

/// More than a segment of the journal holds.
const FLOOD: &str = "!flood 300 65536";
/// More than the WAL holds before a checkpoint.
const STREAM: &str = "!flood 100 65536";
/// Progress without a later event that would sync it.
const PAUSE: &str = "!say so far\n!sleep 500\n!say further";
/// `subagentd status` waits 10 s for a sign of life.
const STATUS_DEADLINE: Duration = Duration::from_secs(20);
/// A request with an effect has 30 s. Starting a daemon for it has another 30 s, as
/// has the daemon before.
const CLIENT_DEADLINE: Duration = Duration::from_secs(100);
/// Time limit for reaching a point.
const DEADLINE: Duration = Duration::from_secs(200);

/// The only fault of a run.
struct Trouble<'a> {
    case: &'a FailpointCase,
    once: PathBuf,
    /// The hanging process was killed.
    killed: AtomicBool,
    /// The work is over: no more faults occur.
    done: AtomicBool,
}

impl Trouble<'_> {
    fn is_reached(&self) -> bool {
        self.once.exists()
    }

    /// Whether no more faults can occur.
    fn is_over(&self) -> bool {
        match self.case.fault {
            Fault::Hang => self.killed.load(Ordering::Relaxed),
            Fault::Abort | Fault::Error => self.is_reached(),
        }
    }

    /// Waits until a process hangs, checks that other requests are answered, and kills it.
    fn keep_watch(&self, sandbox: &TestSandbox) {
        let hanging = wait_until("the point to be reached, or the end", DEADLINE, || {
            let text = fs::read_to_string(&self.once).unwrap_or_default();
            match text.strip_suffix('\n') {
                Some(pid) => Some(Some(pid.parse().unwrap())),
                None => self.done.load(Ordering::Relaxed).then_some(None),
            }
        });
        let Some(pid) = hanging else { return };
        let process = Process::find(pid).unwrap();
        let status = sandbox.command("subagentd").args(["status", "--json"]).deadline(STATUS_DEADLINE).run();
        assert!(matches!(status.status.code(), Some(0 | 1)), "{status}");
        if status.document()["ok"] == false {
            status.error("DAEMON_UNRESPONSIVE");
        }
        if times(1) > 1 {
            // In the long run a command may use all of its time.
            let listed = sandbox.subagent(&["worker", "list"]).deadline(CLIENT_DEADLINE).run();
            assert!(listed.status.success() || listed.any_error()["code"] != "INTERNAL_ERROR", "{listed}");
        }
        assert!(process.lives(), "a hanging process must stay until it is killed");
        process.signal(Signal::SIGKILL);
        wait_until("the hanging process to be gone", Duration::from_secs(10), || {
            (!process.lives()).then_some(())
        });
        self.killed.store(true, Ordering::Relaxed);
    }
}

/// Runs one case to its end.
pub(crate) fn run(case: &FailpointCase) {
    let mut sandbox = if case.job == Job::Placed { TestSandbox::placed() } else { TestSandbox::new() };
    let once = sandbox.file("reached");
    sandbox.set_env("SUBAGENT_FAILPOINTS", case.name());
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let trouble = Trouble { case, once, killed: AtomicBool::new(false), done: AtomicBool::new(false) };
    thread::scope(|scope| {
        let watching = (case.fault == Fault::Hang).then(|| scope.spawn(|| trouble.keep_watch(&sandbox)));
        let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&trouble, &sandbox)));
        trouble.done.store(true, Ordering::Relaxed);
        watching.map_or(Ok(()), thread::ScopedJoinHandle::join).unwrap();
        work.unwrap();
    });
    assert!(trouble.is_reached(), "{} was never reached", case.point);
    // Everything continues.
    sandbox.remove_env("SUBAGENT_FAILPOINTS");
    let manager = Stubborn::new(&sandbox);
    let worker = manager.start();
    let last = manager.turn(&worker, "last", "well");
    assert_eq!(last["type"], "turn.completed", "{last}");
    sandbox.finish();
}

fn work(trouble: &Trouble<'_>, sandbox: &TestSandbox) {
    let manager = Stubborn::new(sandbox);
    let job = trouble.case.job;
    // Work after the fault and another turn is done only in the long run.
    let enough = || trouble.is_over() && times(1) == 1;
    manager.init();
    let worker = manager.start();
    turn(trouble, sandbox, &manager, &worker, 1);
    let set =
        manager.get(&["worker", "set", &worker, "--name", "work", "--mode", "bold", "--max-turns", "1000"]);
    assert_eq!(
        (&set["chosen"]["mode"], &set["budget"]["turns"]["limit"]),
        (&"bold".into(), &1000.into()),
        "{set}"
    );
    if job == Job::Cancel {
        cancel(sandbox, &manager, &worker);
    }
    if job == Job::Sleep {
        sleep(sandbox, &manager, &worker);
    }
    if job == Job::Queue {
        queue(sandbox, &manager, &worker);
    }
    if job == Job::Park {
        park(sandbox, &manager, &worker);
    }
    if job == Job::Comeback {
        let _ = manager.get(&["worker", "start", "--launcher", "demo", "--delegate"]);
        sandbox.kill_daemon();
        // No command runs before a runtime has reached the point.
        wait_until("the point to be reached", DEADLINE, || trouble.is_reached().then_some(()));
    }
    if job == Job::StopDead {
        sandbox.kill_daemon();
        // The fault may kill the command itself.
        let stop = sandbox.command("subagentd").args(["stop", "--json"]).deadline(CLIENT_DEADLINE).run();
        assert!(stop.status.success() || stop.status.code().is_none(), "{stop}");
    }
    if job == Job::Frozen {
        sandbox.runtime(&worker).signal(Signal::SIGSTOP);
    }
    if !enough() {
        let restarted = manager.get(&["worker", "restart", &worker]);
        assert_eq!(restarted["state"], "idle");
        turn(trouble, sandbox, &manager, &worker, 2);
    }
    if !enough() {
        hand_off(sandbox, &manager, &worker);
    }
    sandbox.check();
    assert_eq!(manager.get(&["worker", "stop", &worker])["state"], "stopped");
    if job == Job::Remove {
        remove(sandbox, &manager, &worker);
    }
    if !enough() {
        stop_daemon(sandbox);
    }
    if trouble.case.fault == Fault::Error {
        let failure_codes = manager.failure_codes();
        assert!(failure_codes.len() <= 3, "too many errors for one fault: {failure_codes:?}");
    }
}

/// Runs a turn with a question. It completes unless the fault occurs during it.
fn turn(trouble: &Trouble<'_>, sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str, number: u32) {
    let was_over = trouble.is_over();
    let file = format!("touched-{number}");
    let more = match trouble.case.job {
        Job::Flood if number == 1 => FLOOD.to_owned(),
        Job::Stream if number == 1 => STREAM.to_owned(),
        Job::Pause if number == 1 => format!("{PAUSE}\n!wait-file {}", trouble.once.display()),
        _ => String::new(),
    };
    // The other kind of question, with a form.
    let elicit = r#"!elicit {"mode":"form","message":"m","requestedSchema":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}}"#;
    let elicit = if number == 2 { elicit } else { "" };
    let prompt = format!("!touch {}\n!ask execute it\n{elicit}\n{more}\n!say done", sandbox.file_name(&file));
    let end = manager.turn(worker, &format!("key-{number}"), &prompt);
    let completed = end["type"] == "turn.completed";
    let times = sandbox.touches(&file);
    assert!(if completed { times == 1 } else { times <= 1 }, "executed {times} times: {end}");
    assert!(completed || (!was_over && trouble.is_reached()), "turn {number} failed without a reason: {end}");
}

fn cancel(sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str) {
    let gate = sandbox.gate("never");
    let prompt = format!("!say begun\n{}", gate.directive());
    let accepted = sandbox.send_no_wait(worker, &prompt);
    let _ = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
    let canceled = manager.get(&["cancel", "--worker-id", worker]);
    assert!(canceled["turnId"] == accepted["turnId"] || canceled["turnId"].is_null(), "{canceled}");
    let end = manager.end(worker, accepted["acceptedEventId"].as_str().unwrap());
    assert_eq!(end["type"], "turn.canceled", "{end}");
}

/// Queues messages, each of which is done once.
fn queue(sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str) {
    let gate = sandbox.gate("queue");
    let queue = |key: &str, text: &str| {
        let args = ["send", "--worker-id", worker, "--queue", "--no-wait", "--turn-id", key, "--text", text];
        manager.get(&args)
    };
    let _ = queue("key-gate", &gate.directive());
    let file = |number| format!("queued-{number}");
    for number in 1..=2 {
        let text = format!("!touch {}", sandbox.file_name(&file(number)));
        let queued = queue(&format!("key-queued-{number}"), &text);
        assert_eq!(queued["position"], number, "{queued}");
    }
    gate.open();
    let _ = manager.get(&["wait", "--worker-id", worker, "--all", "--timeout-seconds", "20"]);
    for number in 1..=2 {
        assert_eq!(sandbox.touches(&file(number)), 1, "message {number}");
    }
}

/// A message that waits for the end of a rate limit is done once.
fn park(sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str) {
    let send = |key: &str, text: &str| {
        let args = ["send", "--worker-id", worker, "--queue", "--no-wait", "--turn-id", key, "--text", text];
        manager.get(&args)
    };
    let gate = sandbox.gate("limit");
    let _ = send("key-limit", &format!("{}\n!rate-limit 300", gate.directive()));
    let _ = send("key-parked", &format!("!touch {}", sandbox.file_name("parked")));
    gate.open();
    let _ = manager.get(&["wait", "--worker-id", worker, "--all", "--timeout-seconds", "20"]);
    wait_until("the parked message to be done", DEADLINE, || {
        let shown = manager.get(&["worker", "show", worker]);
        (sandbox.touches("parked") > 0 && shown["parked"].is_null() && shown["state"] == "idle").then_some(())
    });
    assert_eq!(sandbox.touches("parked"), 1, "the message was sent once");
}

/// Leaves the agent idle until it is ended; the next turn brings it back.
fn sleep(sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str) {
    let _ = manager.get(&["worker", "set", "--worker-id", worker, "--idle-timeout", "0.3"]);
    wait_until("the worker to hibernate", DEADLINE, || {
        let shown = manager.get(&["worker", "show", worker]);
        assert_eq!(shown["state"], "idle", "{shown}");
        (shown["hibernated"] == true).then_some(())
    });
    let _ = manager.get(&["worker", "set", "--worker-id", worker, "--idle-timeout", "never"]);
    assert_eq!(manager.get(&["worker", "show", worker])["hibernated"], true);
    let lost = sandbox.events(worker).into_iter().find(|event| event["type"] == "worker.lost");
    assert_eq!(lost, None, "it should have ended");
    let end = manager.turn(worker, "key-awake", "good morning");
    assert_eq!(end["type"], "turn.completed", "{end}");
}

fn hand_off(sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str) {
    let handoff = manager.get(&["worker", "handoff", "--worker-id", worker]);
    let look = manager.get(&["worker", "inspect", worker]);
    let path = |value: &Value| value.as_str().is_some_and(|path| Path::new(path).is_file());
    assert!(path(&handoff["handoffPath"]) && path(&handoff["checkpointPath"]), "{handoff}");
    assert!(!look["latestHandoff"]["snapshotId"].is_null(), "{look}");
    let folders = fs::read_dir(sandbox.state_dir().join("handoffs").join(worker)).unwrap();
    let names: Vec<String> =
        folders.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    // A handoff whose response was lost was not confirmed, but it is complete.
    assert!(names.iter().all(|name| !name.starts_with('.')) && names.len() <= 2, "{names:?}");
}

/// Removes the worker; any later daemon finishes the removal.
fn remove(sandbox: &TestSandbox, manager: &Stubborn<'_>, worker: &str) {
    assert_eq!(manager.get(&["worker", "rm", worker])["workerId"], worker);
    let folder = sandbox.state_dir().join("runtimes").join(worker);
    wait_until("everything of the removed worker to be deleted", DEADLINE, || {
        let _ = manager.get(&["worker", "list"]);
        (!folder.exists()).then_some(())
    });
}

/// Ends the daemon. A daemon that dies of a fault at its end has ended too.
fn stop_daemon(sandbox: &TestSandbox) {
    let stopped = sandbox.command("subagentd").args(["stop", "--json"]).deadline(CLIENT_DEADLINE).run();
    if !stopped.status.success() {
        let error = stopped.any_error();
        assert_ne!(error["code"], "INTERNAL_ERROR", "{stopped}");
    }
}
