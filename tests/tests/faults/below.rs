//! From below a worker nobody changes anything, with any request, whatever the command line would say: the agent speaks
//! to the daemon's socket itself.

use subagent_tests::harness::{Sandbox, say};

use super::owners::everything;
use super::requests::{Post, posts, prepare};

/// What the daemon answers to this request of a process below this worker.
fn answer(sandbox: &Sandbox, worker: &str, post: &Post) -> String {
    let socket = sandbox.daemon_info().unwrap().socket;
    // It puts the ends of lines where a shell and a prompt cannot have them.
    let ask = [&sandbox.executable("stranger"), "ask", socket.to_str().unwrap(), &post.text()];
    let command = ask.map(|word| format!("'{}'", word.replace('\n', "\\n"))).join(" ");
    let waited = sandbox.send(worker, &format!("!shell {command}"));
    waited["assistantText"].as_str().unwrap().to_owned()
}

/// All that could change but for what the asking itself leaves: a turn of the worker under a key, and the note of the
/// refusal.
fn others(sandbox: &Sandbox, worker: &str) -> Vec<String> {
    let asking = |row: &String| row.starts_with(worker) || row.starts_with("key ");
    everything(sandbox).into_iter().filter(|row| !asking(row)).collect()
}

#[test]
fn from_below_a_worker_no_request_changes_anything() {
    let (sandbox, worker) = Sandbox::with_worker();
    for (number, path) in posts().iter().enumerate() {
        let post = prepare(&sandbox, path, number);
        let before = others(&sandbox, &worker);
        let said = answer(&sandbox, &worker, &post);
        assert!(said.contains("403 Forbidden") && said.contains("FORBIDDEN_FROM_WORKER"), "{path}: {said}");
        assert_eq!(others(&sandbox, &worker), before, "{path} was refused, and changed something");
    }
    let count = posts().len();
    let noted =
        sandbox.events(&worker).into_iter().filter(|event| event["type"] == "worker.forbidden").count();
    assert!(noted >= count, "{noted} of {count} attempts are journaled");
    sandbox.finish();
    say(&format!("faults: {count} requests refused from below a worker"));
}
