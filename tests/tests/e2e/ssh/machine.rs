//! Faults of the other machine: it restarts, its disk is full, its clock differs. An agent there uses
//! files and terminals of that machine only.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use subagent_tests::harness::{HostMachine, SshHost, TestSandbox, wait_until};

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(120);
/// The folder of placed workers, below the home there.
const PLACED: &str = ".local/state/subagent/placed";
/// Number of reports of a turn for which a small disk has no room.
const REPORTS: i64 = 60_000;
/// Room that such a turn finds, in bytes.
const ROOM: u64 = 1024 * 1024;
/// Number of stored reports after which a pause counts.
const FIRST_REPORTS: i64 = 1000;
/// Time without another report after which a turn stands still.
const STANDS_STILL: Duration = Duration::from_secs(2);
/// Differences of the clock there from the clock here, in seconds.
const CLOCKS: [i64; 2] = [-5 * 3600, 3 * 3600];
/// How much later the clock there may be read than the clock here, in seconds.
const MAX_READING: i64 = 60;
/// The longest time that a turn without a wait may use, in seconds.
const SHORT_TURN: f64 = 60.0;

/// Waits until the worker is shown as unreachable, and returns what is shown about that.
fn unreachable(sandbox: &TestSandbox, worker: &str) -> Value {
    wait_until("the worker to be unreachable", DEADLINE, || {
        Some(sandbox.show(worker)["unreachable"].take()).filter(Value::is_object)
    })
}

fn reached(sandbox: &TestSandbox, worker: &str) {
    wait_until("the worker to be reached", DEADLINE, || {
        sandbox.show(worker).get("unreachable").is_none().then_some(())
    });
}

/// Asserts that no event of these types follows within some seconds.
fn is_not_reported(sandbox: &TestSandbox, accepted: &Value, until: &str, seconds: &str) -> Value {
    let [worker, cursor] = ["workerId", "acceptedEventId"].map(|key| accepted[key].as_str().unwrap());
    let wait = ["wait", "--worker-id", worker, "--from-event-id", cursor, "--until", until];
    sandbox.subagent(&wait).args(["--timeout-seconds", seconds]).run().error("WAIT_TIMEOUT")
}

fn of_type(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == kind).cloned().collect()
}

/// Starts a worker there with these flags, and returns its id.
fn start_there(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let start = ["worker", "start", "--launcher", "demo", "--on", "there"];
    let started = sandbox.subagent(&start).args(flags).run().data_of("worker.started");
    started["workerId"].as_str().unwrap().to_owned()
}

fn stop(sandbox: &TestSandbox, worker: &str) {
    let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
}

/// Waits until the host has no process but its server and the connections that end.
fn nothing_is_left(host: &SshHost) {
    wait_until("the end of everything there", DEADLINE, || {
        host.processes().iter().all(|one| one.name == "sshd").then_some(())
    });
}

/// Restarts the machine there in a turn, and perhaps the daemon while that machine is off.
fn restarted_in_a_turn(with_another_daemon: bool) {
    let sandbox = TestSandbox::new();
    let Some(mut host) = SshHost::start_machine(&sandbox, HostMachine::default()) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let runtime = sandbox.runtime(&worker);
    let prompt = format!("!touch {}\n!say begun\n!sleep 600000", sandbox.file_name("touched"));
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    host.shut_down();
    assert!(runtime.ends());
    let _ = unreachable(&sandbox, &worker);
    if with_another_daemon {
        sandbox.kill_daemon();
        let _ = unreachable(&sandbox, &worker);
    }
    let ends = "worker.lost,turn.completed,turn.failed,turn.canceled";
    let waited = is_not_reported(&sandbox, &accepted, ends, "4");
    assert_eq!(waited["details"]["workerState"], "running", "{waited}");
    host.boot(&sandbox);
    let end = sandbox.turn_end(&accepted);
    let error = &end["data"]["error"];
    assert_eq!(
        (&end["type"], &error["code"], &error["details"]["dispatched"]),
        (&json!("turn.failed"), &json!("RUNTIME_LOST"), &json!("maybe")),
        "{end}"
    );
    let events = sandbox.events(&worker);
    let at = |kind: &str| events.iter().position(|event| event["type"] == kind);
    assert!(at("worker.reached").is_some() && at("worker.reached") < at("worker.lost"), "{events:?}");
    assert_eq!(of_type(&events, "worker.lost").len(), 1);
    sandbox.check();
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let next = sandbox.runtime(&worker);
    assert_ne!((next.pid, next.start_time), (runtime.pid, runtime.start_time));
    let prompts = sandbox.number("SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'");
    assert_eq!((sandbox.touches("touched"), prompts), (1, 2));
    stop(&sandbox, &worker);
    nothing_is_left(&host);
    sandbox.finish();
}

#[test]
fn a_restart_of_the_machine_there_loses_the_turn_once_that_machine_answers() {
    restarted_in_a_turn(false);
}

#[test]
fn a_restart_of_the_machine_there_is_seen_by_a_daemon_that_started_meanwhile() {
    restarted_in_a_turn(true);
}

#[test]
fn a_start_on_a_full_disk_there_says_so_and_works_once_there_is_room() {
    let sandbox = TestSandbox::new();
    let machine = HostMachine::default().file_system(PLACED, "4m");
    let Some(host) = SshHost::start_machine(&sandbox, machine) else { return };
    sandbox.init();
    // No room, and room for the record of the worker without its journal.
    for room in [0, 16 * 1024] {
        let filler = host.fill(PLACED, room);
        let error = sandbox.try_start_on("there").error("STORAGE_FULL");
        let details = &error["details"];
        assert_eq!(
            (&error["retryable"], &details["placement"], &details["host"]),
            (&json!(true), &json!("there"), &json!("there")),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains("No space left on device"), "{error}");
        assert!(details["recommendedAction"].as_str().unwrap().contains("make room on the disk"), "{error}");
        let worker = details["workerId"].as_str().unwrap();
        let shown = sandbox.show(worker);
        assert_eq!(shown["state"], "error", "{shown}");
        assert!(shown["lastError"].as_str().unwrap().starts_with("STORAGE_FULL"), "{shown}");
        let refused = sandbox.sending(worker, "too early").run().error("STORAGE_FULL");
        assert_eq!(refused["details"]["dispatched"], "no", "{refused}");
        nothing_is_left(&host);
        fs::remove_file(filler).unwrap();
        assert_eq!(sandbox.send(worker, "hello")["assistantText"], "hello");
        let other = sandbox.start_on("there");
        assert_eq!(sandbox.send(&other, "hello")["assistantText"], "hello");
        for worker in [worker, &other] {
            stop(&sandbox, worker);
        }
    }
    sandbox.finish();
}

/// A turn on another machine that stands still, because the disk there is full.
struct StuckTurn {
    sandbox: TestSandbox,
    host: SshHost,
    worker: String,
    accepted: Value,
    /// The file that fills the disk.
    filler: PathBuf,
}

impl StuckTurn {
    /// Starts it; `None` without an sshd or mounts.
    fn start() -> Option<Self> {
        let mut sandbox = TestSandbox::new();
        let fast = sandbox.test_agent("fast-agent", &[]);
        sandbox.launcher("demo", fast);
        let host = SshHost::start_machine(&sandbox, HostMachine::default().file_system(PLACED, "32m"))?;
        sandbox.init();
        let worker = sandbox.start_on("there");
        let filler = host.fill(PLACED, ROOM);
        let accepted = sandbox.send_no_wait(&worker, &format!("!stream {REPORTS}"));
        let (mut known, mut since) = (0, Instant::now());
        wait_until("the turn to stand still", DEADLINE, || {
            let number = sandbox.records().0;
            if number != known {
                (known, since) = (number, Instant::now());
            }
            (known > FIRST_REPORTS && since.elapsed() > STANDS_STILL).then_some(())
        });
        let shown = sandbox.show(&worker);
        assert_eq!((&shown["state"], shown.get("unreachable")), (&json!("running"), None), "{shown}");
        assert!(known < REPORTS, "the disk was not full");
        Some(Self { sandbox, host, worker, accepted, filler })
    }

    /// Returns the number of stored records, of which none is missing or stored twice.
    fn records(&self) -> i64 {
        let (all, distinct, highest) = self.sandbox.records();
        assert!(all == distinct && all == highest, "{all} {distinct} {highest}");
        all
    }

    /// Asserts that the worker can be used, and ends it.
    fn works_again(self) {
        let waited = self.sandbox.send(&self.worker, "!stream 10");
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        let _ = self.records();
        stop(&self.sandbox, &self.worker);
        nothing_is_left(&self.host);
        self.sandbox.finish();
    }
}

#[test]
fn a_turn_goes_on_when_a_full_disk_there_has_room_again() {
    let Some(stuck) = StuckTurn::start() else { return };
    fs::remove_file(&stuck.filler).unwrap();
    let end = stuck.sandbox.turn_end(&stuck.accepted);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let records = stuck.records();
    assert!(records > REPORTS, "{records}");
    stuck.works_again();
}

#[test]
fn a_turn_on_a_disk_there_that_stays_full_fails_and_the_worker_works_again() {
    let Some(stuck) = StuckTurn::start() else { return };
    let end = stuck.sandbox.turn_end(&stuck.accepted);
    let error = &end["data"]["error"];
    assert_eq!(
        (&end["type"], &error["code"], &error["details"]["dispatched"]),
        (&json!("turn.failed"), &json!("STORAGE_FULL"), &json!("maybe")),
        "{end}"
    );
    let records = stuck.records();
    assert!(records < REPORTS, "{records}");
    fs::remove_file(&stuck.filler).unwrap();
    stuck.works_again();
}

/// Starts a host whose clock differs by these seconds.
fn with_clock(seconds: i64) -> Option<(TestSandbox, SshHost)> {
    let sandbox = TestSandbox::new();
    let machine = HostMachine::default().clock(&sandbox, seconds);
    let host = SshHost::start_machine(&sandbox, machine)?;
    sandbox.init();
    Some((sandbox, host))
}

#[test]
fn a_turn_with_a_question_works_where_the_clock_differs() {
    for seconds in CLOCKS {
        let Some((sandbox, mut host)) = with_clock(seconds) else { return };
        let worker = sandbox.start_on("there");
        let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let said = sandbox.send(&worker, "!shell date +%s");
        let there = said["assistantText"].as_str().unwrap().lines().nth(1).unwrap();
        let late = there.parse::<i64>().unwrap() - i64::try_from(here).unwrap() - seconds;
        assert!((0..MAX_READING).contains(&late), "the clock there is not set: {said}");
        let asked = sandbox.send(&worker, "!say begun\n!ask edit notes.md\n!say done");
        let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
        assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
        let events = sandbox.events(&worker);
        let cursors: Vec<&str> = events.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
        assert!(cursors.windows(2).all(|two| two[0] < two[1]), "{cursors:?}");
        let order = ["turn.started", "approval.requested", "approval.decided", "turn.completed"];
        let of_turn = events.iter().filter(|event| event["turnId"] == asked["turnId"]);
        let of_turn = of_turn.filter_map(|event| event["type"].as_str());
        let of_turn: Vec<&str> = of_turn.filter(|kind| order.contains(kind)).collect();
        assert_eq!(of_turn, order);
        sandbox.check();
        // Both times are of the clock here.
        host.end_server();
        let known = unreachable(&sandbox, &worker);
        let (heard, since) = (known["lastHeard"].as_str().unwrap(), known["since"].as_str().unwrap());
        let decided = &of_type(&events, "approval.decided")[0];
        assert!(decided["ts"].as_str().unwrap() <= heard && heard <= since, "{known} after {decided}");
        host.restart_server(&sandbox);
        reached(&sandbox, &worker);
        assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
        stop(&sandbox, &worker);
        sandbox.finish();
    }
}

/// Returns the seconds that the turns of a worker have used.
fn used_time(sandbox: &TestSandbox, worker: &str) -> f64 {
    let shown = sandbox.run(&["budget", "show", "--worker-id", worker]).data_of("budget.shown");
    shown["wallTime"]["used"].as_f64().unwrap()
}

#[test]
fn the_time_of_a_turn_there_is_counted_by_the_clock_here() {
    for seconds in CLOCKS {
        let Some((sandbox, _host)) = with_clock(seconds) else { return };
        let worker = start_there(&sandbox, &["--max-wall-time", "10m", "--on-budget", "cancel"]);
        let begun = Instant::now();
        let waited = sandbox.send(&worker, "!sleep 2000\n!say done");
        let took = begun.elapsed().as_secs_f64();
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        let used = used_time(&sandbox, &worker);
        // Times of events are rounded to milliseconds.
        assert!((1.9..took + 0.1).contains(&used), "{used} s of {took} s, the clock differs by {seconds} s");
        stop(&sandbox, &worker);
        sandbox.finish();
    }
}

#[test]
fn a_question_there_that_a_rule_answers_uses_no_time() {
    for seconds in CLOCKS {
        let Some((sandbox, _host)) = with_clock(seconds) else { return };
        let flags = ["--max-wall-time", "10m", "--on-budget", "cancel", "--allow", "execute"];
        let worker = start_there(&sandbox, &flags);
        let waited = sandbox.send(&worker, "!ask execute make all\n!say done");
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        let used = used_time(&sandbox, &worker);
        assert!(used < SHORT_TURN, "{used} s, the clock differs by {seconds} s");
        stop(&sandbox, &worker);
        sandbox.finish();
    }
}

#[test]
fn the_time_for_an_answer_is_that_of_the_clock_here() {
    for seconds in CLOCKS {
        let Some((sandbox, _host)) = with_clock(seconds) else { return };
        let worker = start_there(&sandbox, &["--approval-timeout", "10m"]);
        let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
        let _ = is_not_reported(&sandbox, &asked, "approval.decided", "2");
        let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
        assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
        let hasty = start_there(&sandbox, &["--approval-timeout", "2s"]);
        let asked = sandbox.send(&hasty, "!ask edit notes.md\n!say done");
        let decided = sandbox.wait_after(&hasty, &asked["acceptedEventId"], "approval.decided");
        assert_eq!(decided["data"]["by"], "deadline", "{decided}");
        for worker in [&worker, &hasty] {
            stop(&sandbox, worker);
        }
        sandbox.finish();
    }
}

#[test]
fn a_rate_limit_there_ends_by_the_clock_here() {
    for seconds in CLOCKS {
        let Some((sandbox, _host)) = with_clock(seconds) else { return };
        let worker = start_there(&sandbox, &["--on-rate-limit", "park"]);
        let limited = sandbox.send_no_wait(&worker, "!rate-limit 600000");
        let _ = sandbox.wait_after(&worker, &limited["acceptedEventId"], "worker.parked");
        let _ = is_not_reported(&sandbox, &limited, "worker.unparked", "2");
        let other = start_there(&sandbox, &["--on-rate-limit", "park"]);
        let limited = sandbox.send_no_wait(&other, "!rate-limit 1500");
        let unparked = sandbox.wait_after(&other, &limited["acceptedEventId"], "worker.unparked");
        assert_eq!(unparked["data"]["reason"], "due", "{unparked}");
        for worker in [&worker, &other] {
            stop(&sandbox, worker);
        }
        sandbox.finish();
    }
}

#[test]
fn files_and_terminals_of_an_agent_there_are_on_that_machine() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("demo", agent);
    sandbox.set_env("ONLY_HERE", "of-this-machine");
    let machine = HostMachine::default().file_system("work", "1m").variable("ONLY_THERE", "of-the-server");
    let Some(host) = SshHost::start_machine(&sandbox, machine) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let file = host.work().join("folder/new.txt");
    let path = file.to_str().unwrap();
    let said = sandbox.send(&worker, &format!("write {path} hello there\nread {path}"));
    assert_eq!(said["assistantText"], "written\nhello there\n");
    assert_eq!(fs::read_to_string(host.seen_from_here(&file)).unwrap(), "hello there");
    assert!(!file.exists(), "it was written on this machine");
    // Files of this machine, with the path of the folder there and in the workspace here.
    let ours = [host.work().join("ours.txt"), sandbox.workspace().join("ours.txt")];
    for file in &ours {
        fs::write(file, "of this machine").unwrap();
        let said = sandbox.send(&worker, &format!("read {}", file.display()));
        assert!(said["assistantText"].as_str().unwrap().starts_with("error "), "{said}");
    }
    let below = ours[1].display();
    let said = sandbox.send(&worker, &format!("write {below} overwritten"));
    assert!(said["assistantText"].as_str().unwrap().starts_with("error "), "{said}");
    assert_eq!(fs::read_to_string(&ours[1]).unwrap(), "of this machine");
    let boot_id = "/proc/sys/kernel/random/boot_id";
    let command = format!("echo $ONLY_THERE ${{ONLY_HERE:-absent}}; pwd; cat folder/new.txt {boot_id}");
    let said = sandbox.send(&worker, &format!("run {command}"));
    let text = said["assistantText"].as_str().unwrap();
    let expected = format!("exit Some(0) of-the-server absent\n{}\nhello there", host.work().display());
    assert!(text.starts_with(&expected), "{text}");
    let here = fs::read_to_string(boot_id).unwrap();
    assert!(!text.contains(here.trim()), "it ran on this machine: {text}");
    let events = sandbox.events(&worker);
    let of_kind = |kind: &str| {
        let of_kind = events.iter().filter(|event| event["data"]["kind"] == kind);
        of_kind.map(|event| event["data"].clone()).collect::<Vec<Value>>()
    };
    let write = &of_kind("fs")[0];
    assert_eq!((&write["method"], &write["path"]), (&json!("fs/write_text_file"), &json!(path)), "{write}");
    let terminal = of_kind("terminal");
    let exited = terminal.iter().find(|event| event["method"] == "terminal.exited").unwrap();
    assert_eq!(exited["exitStatus"], json!({"exitCode": 0, "signal": null}), "{exited}");
    let left = sandbox.send(&worker, "leave trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000");
    assert_eq!(left["assistantText"], "term_1_2\n");
    stop(&sandbox, &worker);
    nothing_is_left(&host);
    sandbox.finish();
}

#[test]
fn a_machine_there_without_its_proc_is_reported_as_such() {
    let sandbox = TestSandbox::new();
    // An empty folder in the place of the one with the id of the boot.
    let machine = HostMachine::default().file_system("/proc/sys/kernel/random", "4k");
    let Some(_host) = SshHost::start_machine(&sandbox, machine) else { return };
    sandbox.init();
    let error = sandbox.try_start_on("there").error("BACKEND_RUNTIME_ERROR");
    assert!(error["message"].as_str().unwrap().contains("/proc is not mounted"), "{error}");
    assert_eq!(error["details"]["host"], "there", "{error}");
    let action = error["details"]["recommendedAction"].as_str().unwrap();
    assert!(action.contains("subagent placement check there"), "{error}");
    // Nothing can be proved there.
    let worker = error["details"]["workerId"].as_str().unwrap();
    let _ = sandbox.run(&["worker", "stop", worker, "--without-host"]).data_of("worker.stopped");
    sandbox.finish();
}
