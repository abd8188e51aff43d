//! A process below a worker changes nothing with any request, independent of the command line: the
//! agent uses the daemon's socket itself.

use subagent_tests::harness::{TestSandbox, say};

use super::owners::everything;
use super::requests::{Post, posts, prepare};

/// Returns the daemon's response to this request of a process below this worker.
fn answer(sandbox: &TestSandbox, worker: &str, post: &Post) -> String {
    let socket = sandbox.daemon_info().unwrap().socket;
    // It inserts line ends, which a shell and a prompt cannot contain.
    let ask = [&sandbox.executable("stranger"), "ask", socket.to_str().unwrap(), &post.text()];
    let command = ask.map(|word| format!("'{}'", word.replace('\n', "\\n"))).join(" ");
    let waited = sandbox.send(worker, &format!("!shell {command}"));
    waited["assistantText"].as_str().unwrap().to_owned()
}

/// Returns all data that could change, without the request's own effects: a turn of the worker with
/// a key, and the record of the refusal.
fn others(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let asking = |row: &String| row.starts_with(worker) || row.starts_with("key ");
    everything(sandbox).into_iter().filter(|row| !asking(row)).collect()
}

#[test]
fn from_below_a_worker_no_request_changes_anything() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for (number, path) in posts().iter().enumerate() {
        let post = prepare(&sandbox, path, number);
        let before = others(&sandbox, &worker);
        let said = answer(&sandbox, &worker, &post);
        assert!(said.contains("403 Forbidden") && said.contains("FORBIDDEN_FROM_WORKER"), "{path}: {said}");
        assert_eq!(others(&sandbox, &worker), before, "{path} was refused, but had an effect");
    }
    let count = posts().len();
    let noted =
        sandbox.events(&worker).into_iter().filter(|event| event["type"] == "worker.forbidden").count();
    assert!(noted >= count, "{noted} of {count} attempts are journaled");
    sandbox.finish();
    say(&format!("faults: {count} requests refused from below a worker"));
}
