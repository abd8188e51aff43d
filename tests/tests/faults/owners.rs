//! A stale or forged handle changes nothing with any request. Of many takeovers, with the daemon
//! killed meanwhile, only the last one owns.

use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use subagent_protocol::api::header;
use subagent_tests::harness::{Random, TestSandbox, say, times, wait_until};

use super::a_moment;
use super::requests::{posts, prepare};

/// Number of concurrent takeovers.
const TAKEOVERS: usize = 50;
/// How often the daemon is killed meanwhile.
const KILLS: usize = 10;
/// Becoming the owner requires no handle.
const GRANTS: [&str; 2] = ["/v1/controllers", "/v1/controllers/attach"];
/// Requests that change nothing of an owner.
const FOR_ALL: [&str; 1] = ["/v1/daemon/backup"];

fn handle(granted: &Value) -> [String; 3] {
    let owner = &granted["owner"];
    [
        format!("{}: {}", header::CONTROLLER_ID, owner["controllerId"].as_str().unwrap()),
        format!("{}: {}", header::CONTROLLER_EPOCH, owner["epoch"]),
        format!("{}: {}", header::CONTROLLER_TOKEN, owner["token"].as_str().unwrap()),
    ]
}

/// Returns all data that a request could change.
pub(crate) fn everything(sandbox: &TestSandbox) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(sandbox.state_dir().join("state.db"), flags).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    let tables = [
        "SELECT concat_ws('|', worker_id, state, desired, incarnation, last_turn, stopped_at) FROM workers",
        "SELECT concat_ws('|', worker_id, number) FROM journal_cursors j JOIN workers w ON w.id = j.worker",
        "SELECT concat_ws('|', worker_id, turn_id, status, cancel_reason) FROM turns t JOIN workers w ON w.id = t.worker",
        "SELECT concat_ws('|', request_id, status, option_id) FROM approvals",
        "SELECT concat_ws('|', controller, epoch, released_at) FROM owners",
        "SELECT concat_ws('|', worker_id, seq, type) FROM events e LEFT JOIN workers w ON w.id = e.worker",
        "SELECT snapshot_id FROM handoffs",
        "SELECT rule_id FROM owner_rules",
        "SELECT concat_ws('|', file, sha256) FROM hook_trust",
        "SELECT concat_ws('|', worker, name, runs, ending, outcome) FROM tasks",
        "SELECT 'key ' || key FROM requests",
    ];
    let mut rows = Vec::new();
    for sql in tables {
        let mut statement = database.prepare(sql).unwrap();
        let found = statement.query_map([], |row| row.get(0)).unwrap();
        rows.extend(found.collect::<rusqlite::Result<Vec<String>>>().unwrap());
    }
    rows
}

/// Returns what invalid handles could change.
pub(crate) fn done_without_a_right(sandbox: &TestSandbox, first: &Value) -> Vec<String> {
    let owner = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let mut forged = handle(&owner);
    forged[2] = format!("{}: {}", header::CONTROLLER_TOKEN, "0".repeat(43));
    let mut ahead = handle(&owner);
    ahead[1] = format!("{}: {}", header::CONTROLLER_EPOCH, owner["owner"]["epoch"].as_i64().unwrap() + 1);
    let mut wrong = Vec::new();
    let guarded = |path: &&String| !GRANTS.iter().chain(&FOR_ALL).any(|open| *open == path.as_str());
    for (number, path) in posts().iter().filter(guarded).enumerate() {
        let mut post = prepare(sandbox, path, number);
        if path == "/v1/controllers/release" {
            // Every user may use force; without it the handle counts.
            post.set("force", false.into());
        }
        // The handle before the last takeover, which a release requires; an invented token; an
        // epoch of the future.
        for (what, handle) in [("stale", handle(first)), ("forged", forged.clone()), ("ahead", ahead.clone())]
        {
            let before = everything(sandbox);
            let answer = post.send(sandbox, &handle).unwrap().json();
            if answer["error"]["code"] != "INVALID_CONTROLLER_HANDLE" {
                wrong.push(format!("{path} with a {what} handle: {answer}"));
            } else if everything(sandbox) != before {
                wrong.push(format!("{path} with a {what} handle was refused, but had an effect"));
            }
        }
    }
    wrong
}

#[test]
fn a_handle_that_is_stale_or_forged_changes_nothing_with_any_request() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    assert_eq!(done_without_a_right(&sandbox, &first), Vec::<String>::new());
    sandbox.finish();
    say(&format!(
        "faults: {} requests refused with each of 3 bad handles",
        posts().len() - GRANTS.len() - FOR_ALL.len()
    ));
}

/// Checks ownerships, of which only the one with the highest epoch may remain.
pub(crate) fn not_the_last_one_alone(sandbox: &TestSandbox, granted: &[Value]) -> Vec<String> {
    let epoch = |granted: &Value| granted["owner"]["epoch"].as_i64().unwrap();
    let last = granted.iter().map(epoch).max().unwrap();
    let mut wrong = Vec::new();
    let status = sandbox.run(&["controller", "status"]).data_of("controller.status");
    if status["activeOwner"]["epoch"] != last {
        wrong.push(format!("another owner than {last} has it: {status}"));
    }
    for granted in granted {
        let mut show = sandbox.subagent(&["controller", "status"]);
        for (name, key) in [("ID", "controllerId"), ("EPOCH", "epoch"), ("TOKEN", "token")] {
            let value = &granted["owner"][key];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            show = show.env(format!("SUBAGENT_CTL_{name}"), text);
        }
        let shown = show.run().data_of("controller.status");
        if (shown["envHandle"]["valid"] == true) != (epoch(granted) == last) {
            wrong.push(format!("the handle of {}, of {last} at last: {shown}", epoch(granted)));
        }
    }
    wrong
}

#[test]
fn of_many_takeovers_under_which_the_daemon_is_killed_the_last_one_owns_alone() {
    let mut random = Random::announced();
    let rounds = times(1);
    for _ in 0..rounds {
        let sandbox = TestSandbox::new();
        let worker = {
            sandbox.init();
            sandbox.start("demo")
        };
        let granted: Vec<Value> = thread::scope(|scope| {
            let takeover = || {
                let args = ["controller", "attach", "--takeover"];
                sandbox.persist(&args).data_of("controller.attached")
            };
            let running: Vec<_> = (0..TAKEOVERS).map(|_| scope.spawn(takeover)).collect();
            for _ in 0..KILLS {
                a_moment(&mut random, 150);
                let found = wait_until("a daemon, or all takeovers", Duration::from_secs(30), || {
                    let over = running.iter().all(thread::ScopedJoinHandle::is_finished);
                    sandbox.find_daemon().map(Some).or(over.then_some(None))
                });
                if let Some(daemon) = found {
                    sandbox.kill(&daemon);
                }
            }
            running.into_iter().map(|running| running.join().unwrap()).collect()
        });
        assert_eq!(not_the_last_one_alone(&sandbox, &granted), Vec::<String>::new());
        assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
        sandbox.finish();
    }
    say(&format!(
        "faults: {TAKEOVERS} takeovers at once, the daemon killed {KILLS} times under them, {rounds} times"
    ));
}
