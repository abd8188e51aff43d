//! Every request with an effect, enumerated from the description of the API, so
//! that none is forgotten.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Response, TestSandbox, try_request, wait_until};

mod schedules;
mod triggers;
mod worktrees;

/// `POST` requests without an effect on an owner's data, or not of an owner, with the reason.
const EXEMPT: [(&str, &str); 9] = [
    ("/v1/daemon/health", "checks, and restarts what a command has started"),
    ("/v1/daemon/stop", "ends the daemon: it cannot be repeated"),
    ("/v1/workers/{worker}/wait", "only waits"),
    ("/v1/tasks/{task}/wait", "only waits"),
    ("/v1/wait", "only waits"),
    ("/v1/panel/sessions", "only asks whether a process may act as an owner"),
    ("/v1/worktrees/{worktree}/setup", "runs commands of the owner again, which may be repeated"),
    ("/v1/notifications/test", "sends a test to the user; nothing is stored"),
    (
        "/v1/workers/{worker}/child-sessions/cancel",
        "notifies the agent; nothing is stored, and a repetition is harmless",
    ),
];

/// Removes everything that is old enough.
const PRUNE: &str = "/v1/prune";

/// One request that can be sent any number of times.
pub(crate) struct Post {
    /// The path in the description of the API.
    pub(crate) path: &'static str,
    line: String,
    body: Value,
    /// The members of the data that every repetition must return unchanged; empty means all.
    pub(crate) same: &'static [&'static str],
    effect: Effect,
}

/// The effect of a request.
pub(crate) enum Effect {
    /// This query counts the effects.
    Rows(&'static str),
    /// It writes this file. A second time it is an error.
    File(PathBuf),
}

impl From<&'static str> for Effect {
    fn from(query: &'static str) -> Self {
        Self::Rows(query)
    }
}

impl From<PathBuf> for Effect {
    fn from(file: PathBuf) -> Self {
        Self::File(file)
    }
}

/// Returns the paths that accept `POST`.
pub(crate) fn posts() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let api: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let paths = api["paths"].as_object().unwrap().iter();
    let change =
        |item: &Value| ["post", "put", "patch", "delete"].iter().any(|method| item.get(method).is_some());
    let all: BTreeSet<String> =
        paths.filter(|(_, item)| change(item)).map(|(path, _)| path.clone()).collect();
    for (path, _) in EXEMPT {
        assert!(all.contains(path), "{path} is gone");
    }
    all.into_iter().filter(|path| EXEMPT.iter().all(|(exempt, _)| exempt != path)).collect()
}

/// Returns `count` queued messages of a separate worker.
fn queued(sandbox: &TestSandbox, count: usize) -> Vec<String> {
    let worker = sandbox.start("demo");
    let sent = sandbox.send_no_wait(&worker, "!sleep 3600000");
    let open = sent["turnId"].as_str().unwrap();
    // The record of the dispatch is stored after the answer.
    wait_until("the message to be dispatched", Duration::from_secs(30), || {
        (sandbox.run(&["turn", "show", open]).data()["dispatched"] != "no").then_some(())
    });
    let queue =
        || sandbox.sending(&worker, "later").args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    (0..count).map(|_| queue()["turnId"].as_str().unwrap().to_owned()).collect()
}

/// Returns a task of this sandbox's manager.
fn task(sandbox: &TestSandbox, name: &str, prompt: &str) -> Value {
    let workspace = sandbox.workspace().canonicalize().unwrap();
    let place = json!({
        "workspaceKey": workspace, "workspace": workspace, "cwd": workspace, "launcher": "demo", "env": [], "umask": 18,
    });
    json!({"name": name, "prompt": prompt, "manager": place})
}

/// Returns the id of a submitted one.
fn given(sandbox: &TestSandbox, name: &str, prompt: &str) -> String {
    let socket = sandbox.daemon_info().unwrap().socket;
    let body = task(sandbox, name, prompt).to_string();
    let given = try_request(&socket, &["POST /v1/tasks HTTP/1.1"], &body).unwrap().json();
    given["data"]["taskId"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned()
}

/// Returns the request to this path, with a separate worker as its target.
pub(crate) fn prepare(sandbox: &TestSandbox, path: &str, number: usize) -> Post {
    let workspace = sandbox.workspace().canonicalize().unwrap();
    let me = sandbox.daemon();
    let owner = json!({"pid": me.pid, "startTime": me.start_time});
    let worker = || sandbox.start("demo");
    match path {
        "/v1/workers" => Post::new(
            "/v1/workers",
            "/v1/workers",
            json!({
                "workspaceKey": workspace, "role": "", "cwd": workspace, "label": "", "env": [], "umask": 18,
                "launcher": {
                    "name": "demo", "backendKind": "acp-stdio", "program": sandbox.executable("subagent"),
                    "args": ["demo-agent"],
                },
            }),
            &["workerId"],
            "SELECT count(*) FROM workers",
        ),
        "/v1/workers/{worker}/turns" => Post::new(
            "/v1/workers/{worker}/turns",
            &format!("/v1/workers/{}/turns", worker()),
            json!({"text": format!("!touch {}", sandbox.file_name(&format!("key-{number}")))}),
            &[],
            "SELECT count(*) FROM turns",
        ),
        "/v1/workers/{worker}/approvals/{request}" => {
            let waited = sandbox.send(&worker(), "!ask execute it");
            let (worker, request) =
                (waited["workerId"].as_str().unwrap(), waited["requestId"].as_str().unwrap());
            Post::new(
                "/v1/workers/{worker}/approvals/{request}",
                &format!("/v1/workers/{worker}/approvals/{request}"),
                json!({"decision": "allow"}),
                &["decision", "optionId", "eventId"],
                "SELECT count(*) FROM events WHERE type = 'approval.decided'",
            )
        }
        "/v1/workers/{worker}/approvals" => {
            let waited = sandbox.send(&worker(), "!ask execute it");
            let worker = waited["workerId"].as_str().unwrap();
            Post::new(
                "/v1/workers/{worker}/approvals",
                &format!("/v1/workers/{worker}/approvals"),
                json!({"decision": "allow"}),
                &["count", "decided"],
                "SELECT count(*) FROM events WHERE type = 'approval.decided'",
            )
        }
        "/v1/rules/{rule}/remove" => {
            let waited = sandbox.send(&worker(), "!ask execute it");
            let (worker, request) =
                (waited["workerId"].as_str().unwrap(), waited["requestId"].as_str().unwrap());
            let args =
                ["approve", "--worker-id", worker, "--request", request, "--decision", "allow", "--always"];
            let decided = sandbox.run(&args).data_of("approval.decided");
            let _ = sandbox.turn_end(&waited);
            Post::new(
                "/v1/rules/{rule}/remove",
                &format!("/v1/rules/{}/remove", decided["always"]["ruleId"].as_str().unwrap()),
                json!({}),
                &["ruleId"],
                "SELECT 1 - count(*) FROM owner_rules",
            )
        }
        "/v1/workers/{worker}/elicitations/{request}" => {
            let question =
                r#"!elicit {"mode": "form", "message": "m", "requestedSchema": {"type": "object"}}"#;
            let waited = sandbox.send(&worker(), question);
            let (worker, request) =
                (waited["workerId"].as_str().unwrap(), waited["requestId"].as_str().unwrap());
            Post::new(
                "/v1/workers/{worker}/elicitations/{request}",
                &format!("/v1/workers/{worker}/elicitations/{request}"),
                json!({"action": "accept", "content": {}}),
                &["action", "eventId"],
                "SELECT count(*) FROM events WHERE type = 'elicitation.answered'",
            )
        }
        "/v1/turns/{turn}/drop" => Post::new(
            "/v1/turns/{turn}/drop",
            &format!("/v1/turns/{}/drop", queued(sandbox, 1)[0]),
            json!({}),
            &[],
            "SELECT count(*) FROM events WHERE type = 'turn.dropped'",
        ),
        "/v1/turns/{turn}/move" => Post::new(
            "/v1/turns/{turn}/move",
            &format!("/v1/turns/{}/move", queued(sandbox, 2)[1]),
            json!({"to": 1}),
            &[],
            "SELECT count(*) FROM events WHERE type = 'turn.moved'",
        ),
        "/v1/turns/{turn}/retry" => {
            let worker = worker();
            let failed = sandbox.send_fails(&worker, "!error -32603 no luck", "BACKEND_RPC_ERROR");
            Post::new(
                "/v1/turns/{turn}/retry",
                &format!("/v1/turns/{}/retry", failed["turnId"].as_str().unwrap()),
                json!({}),
                &[],
                "SELECT count(*) FROM turns",
            )
        }
        "/v1/workers/{worker}/queue/resume" => {
            let worker = worker();
            let gate = sandbox.gate(&format!("resume-{number}"));
            let text = format!("{}\n!error -32603 no luck", gate.directive());
            let accepted = sandbox.send_no_wait(&worker, &text);
            let queue = ["--queue", "--no-wait"];
            sandbox.sending(&worker, "next").args(queue).run().data_of("turn.queued");
            gate.open();
            let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "queue.paused");
            Post::new(
                "/v1/workers/{worker}/queue/resume",
                &format!("/v1/workers/{worker}/queue/resume"),
                json!({}),
                &[],
                "SELECT count(*) FROM events WHERE type = 'queue.resumed'",
            )
        }
        "/v1/workers/{worker}/cancel" => {
            let accepted = sandbox.send_no_wait(&worker(), "!say begun\n!sleep 3600000");
            let worker = accepted["workerId"].as_str().unwrap();
            let _ = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
            Post::new(
                "/v1/workers/{worker}/cancel",
                &format!("/v1/workers/{worker}/cancel"),
                json!({"reason": "of no use"}),
                &["turnId"],
                "SELECT count(*) FROM events WHERE type = 'turn.canceled'",
            )
        }
        "/v1/workers/{worker}/handoffs" => Post::new(
            "/v1/workers/{worker}/handoffs",
            &format!("/v1/workers/{}/handoffs", worker()),
            json!({}),
            &["snapshotId", "handoffPath"],
            "SELECT count(*) FROM handoffs",
        ),
        "/v1/workers/{worker}/restart" => Post::new(
            "/v1/workers/{worker}/restart",
            &format!("/v1/workers/{}/restart", worker()),
            json!({}),
            &["workerId"],
            "SELECT count(*) FROM events WHERE type = 'worker.restarted'",
        ),
        "/v1/workers/{worker}/options" => Post::new(
            "/v1/workers/{worker}/options",
            &format!("/v1/workers/{}/options", worker()),
            json!({"mode": "bold"}),
            &[],
            "SELECT count(*) FROM workers WHERE spec ->> '$.options.mode' = 'bold'",
        ),
        "/v1/workers/{worker}/name" => Post::new(
            "/v1/workers/{worker}/name",
            &format!("/v1/workers/{}/name", worker()),
            json!({"name": format!("renamed-{number}")}),
            &["name", "previous"],
            "SELECT count(*) FROM workers WHERE name LIKE 'renamed-%'",
        ),
        "/v1/tasks" => Post::new(
            "/v1/tasks",
            "/v1/tasks",
            task(sandbox, &format!("task {number}"), "!say well"),
            &["taskId", "name"],
            "SELECT count(*) FROM tasks",
        ),
        "/v1/tasks/{task}/messages" => {
            let task = given(sandbox, &format!("told {number}"), "!say well");
            wait_until("the agent of the task to end", Duration::from_secs(30), || {
                let events = sandbox.events(&task);
                events.iter().any(|event| event["type"] == "worker.hibernated").then_some(())
            });
            Post::new(
                "/v1/tasks/{task}/messages",
                &format!("/v1/tasks/{task}/messages"),
                json!({"message": "!say more"}),
                &["taskId", "message"],
                "SELECT coalesce(sum(runs), 0) FROM tasks",
            )
        }
        "/v1/tasks/{task}/cancel" => {
            let task = given(sandbox, &format!("canceled {number}"), "!say begun\n!sleep 60000");
            wait_until("the task to run", Duration::from_secs(30), || {
                let events = sandbox.events(&task);
                events.iter().any(|event| event["type"] == "progress.message").then_some(())
            });
            Post::new(
                "/v1/tasks/{task}/cancel",
                &format!("/v1/tasks/{task}/cancel"),
                json!({"reason": "of no use"}),
                &["taskId"],
                "SELECT count(*) FROM tasks WHERE ending = 'cancelled'",
            )
        }
        "/v1/workers/{worker}/budget" => Post::new(
            "/v1/workers/{worker}/budget",
            &format!("/v1/workers/{}/budget", worker()),
            json!({"turns": 1000}),
            &[],
            "SELECT count(*) FROM events WHERE type = 'budget.changed' AND payload ->> '$.scope' = 'worker'",
        ),
        "/v1/budgets" => Post::new(
            "/v1/budgets",
            "/v1/budgets",
            json!({"workspaceKey": workspace, "limits": {"turns": 1_000_000}}),
            &["controllerId"],
            "SELECT coalesce(sum(account ->> '$.revision'), 0) FROM accounts WHERE scope = 'controller'",
        ),
        "/v1/workers/{worker}/stop" => Post::new(
            "/v1/workers/{worker}/stop",
            &format!("/v1/workers/{}/stop", worker()),
            json!({}),
            &["workerId", "stoppedAt"],
            "SELECT count(*) FROM events WHERE type = 'worker.stopped'",
        ),
        "/v1/workers/{worker}/remove" => {
            let worker = worker();
            sandbox.recorder().attempt(&["worker", "rm", &worker].map(str::to_owned));
            Post::new(
                "/v1/workers/{worker}/remove",
                &format!("/v1/workers/{worker}/remove"),
                json!({"force": true}),
                &[],
                "SELECT count(*) FROM removed_workers",
            )
        }
        PRUNE => {
            // Only one worker exists for it.
            sandbox.run(&["prune", "--older-than", "0s"]).data_of("state.pruned");
            sandbox.run(&["worker", "stop", &worker()]).data_of("worker.stopped");
            Post::new(
                PRUNE,
                PRUNE,
                json!({"olderThanSeconds": 0}),
                &[],
                "SELECT count(*) FROM removed_workers",
            )
        }
        "/v1/prune/tasks" => {
            let task = given(sandbox, &format!("pruned-{number}"), "done");
            sandbox.run(&["task", "wait", &task]).data_of("task.waited");
            // Nothing of it continues by itself then.
            sandbox.run(&["worker", "stop", &task]).data_of("worker.stopped");
            let database = rusqlite::Connection::open(sandbox.state_dir().join("state.db")).unwrap();
            database.busy_timeout(Duration::from_secs(30)).unwrap();
            let archive = "UPDATE tasks SET archived_at = completed_at WHERE worker = (SELECT id FROM workers WHERE worker_id = ?1)";
            assert_eq!(database.execute(archive, [&task]).unwrap(), 1);
            sandbox.recorder().attempt(&["worker", "rm", &task].map(str::to_owned));
            Post::new(
                "/v1/prune/tasks",
                "/v1/prune/tasks",
                json!({}),
                &[],
                "SELECT count(*) FROM removed_workers",
            )
        }
        "/v1/daemon/backup" => {
            let path = sandbox.file(&format!("backup-{number}"));
            Post::new("/v1/daemon/backup", "/v1/daemon/backup", json!({"path": &path}), &[], path)
        }
        "/v1/controllers" => Post::new(
            "/v1/controllers",
            "/v1/controllers",
            json!({"workspaceKey": sandbox.file(&format!("other-{number}")), "owner": owner}),
            &["controllerId", "workspaceKey"],
            "SELECT count(*) FROM controllers",
        ),
        "/v1/controllers/attach" => {
            sandbox.run(&["controller", "release", "--force"]).data_of("controller.released");
            Post::new(
                "/v1/controllers/attach",
                "/v1/controllers/attach",
                json!({"workspaceKey": workspace, "owner": owner, "takeover": true}),
                &["controllerId", "workspaceKey"],
                // Its result contains a secret and is not stored. A repetition grants the same
                // caller's ownership again and revokes the earlier grant.
                "SELECT count(*) FROM owners o JOIN controllers c ON c.id = o.controller
                 WHERE o.released_at IS NULL AND c.workspace_key NOT LIKE '%/other-%'",
            )
        }
        "/v1/controllers/release" => {
            sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
            Post::new(
                "/v1/controllers/release",
                "/v1/controllers/release",
                json!({"workspaceKey": workspace, "force": true}),
                &[],
                "SELECT count(*) FROM owners WHERE released_at IS NOT NULL",
            )
        }
        "/v1/hooks/trust" => Post::new(
            "/v1/hooks/trust",
            "/v1/hooks/trust",
            json!({"file": sandbox.file(&format!("hooks-{number}")), "sha256": "0".repeat(64)}),
            &[],
            "SELECT count(*) FROM hook_trust",
        ),
        "/v1/hooks/trust/remove" => {
            let file = sandbox.file(&format!("hooks-{number}.yaml"));
            let hooks = "hooks: {Stop: [{hooks: [{type: command, command: 'true'}]}]}\n";
            fs::write(&file, hooks).unwrap();
            sandbox.run(&["hook", "trust", file.to_str().unwrap(), "--yes"]).data_of("hook.trusted");
            Post::new(
                "/v1/hooks/trust/remove",
                "/v1/hooks/trust/remove",
                json!({"file": file}),
                &[],
                "SELECT -count(*) FROM hook_trust",
            )
        }
        path if path.starts_with("/v1/schedules") => schedules::prepare(sandbox, path, number),
        path if path.starts_with("/v1/triggers") => triggers::prepare(sandbox, path, number),
        path if path.starts_with("/v1/worktrees/") => worktrees::prepare(sandbox, path, number),
        path => panic!("{path} has an effect and is not tested: add its request"),
    }
}

/// Removed data is deleted at a later time: it is excluded from the start.
const KEPT: &str = "
    CREATE TEMP VIEW workers AS SELECT * FROM main.workers WHERE removed_at IS NULL;
    CREATE TEMP VIEW turns AS SELECT * FROM main.turns WHERE worker IN (SELECT id FROM workers);
    CREATE TEMP VIEW events AS SELECT * FROM main.events WHERE worker IN (SELECT id FROM workers);
    CREATE TEMP VIEW handoffs AS SELECT * FROM main.handoffs WHERE worker IN (SELECT id FROM workers);";

impl Post {
    pub(crate) fn new(
        path: &'static str,
        target: &str,
        body: Value,
        same: &'static [&'static str],
        effect: impl Into<Effect>,
    ) -> Self {
        Self { path, line: format!("POST {target} HTTP/1.1"), body, same, effect: effect.into() }
    }

    /// Changes a member of its body.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.body[name] = value;
    }

    /// Returns the inode of the file that it has written.
    pub(crate) fn file(&self) -> Option<u64> {
        match &self.effect {
            Effect::Rows(_) => None,
            Effect::File(file) => fs::metadata(file).ok().map(|meta| meta.ino()),
        }
    }

    /// Prepares a change that only a second execution would make.
    pub(crate) fn tempt(&self, sandbox: &TestSandbox) {
        if self.path == PRUNE {
            sandbox.run(&["worker", "stop", &sandbox.start("demo")]).data_of("worker.stopped");
        }
    }

    /// Returns it as text, without a handle.
    pub(crate) fn text(&self) -> String {
        let body = self.body.to_string();
        format!("{}\nHost: localhost\nContent-Length: {}\nConnection: close\n\n{body}", self.line, body.len())
    }

    /// Sends it with these headers; `None` if no daemon answered.
    pub(crate) fn send(&self, sandbox: &TestSandbox, headers: &[String]) -> Option<Response> {
        let head: Vec<&str> =
            std::iter::once(self.line.as_str()).chain(headers.iter().map(String::as_str)).collect();
        let answer = try_request(&sandbox.daemon_info()?.socket, &head, &self.body.to_string())?;
        if let Some(token) = answer.json()["data"]["owner"]["token"].as_str() {
            sandbox.recorder().keep_secret(token);
        }
        Some(answer)
    }

    /// Returns the part of a response that must never change.
    pub(crate) fn essence(&self, answer: &Value) -> Value {
        assert_eq!(answer["ok"], true, "{}: {answer}", self.path);
        match self.same {
            [] => answer["data"].clone(),
            same => same.iter().map(|name| ((*name).to_owned(), answer["data"][*name].clone())).collect(),
        }
    }

    /// Returns how often it had an effect.
    pub(crate) fn count(&self, sandbox: &TestSandbox) -> i64 {
        let query = match &self.effect {
            Effect::Rows(query) => query,
            Effect::File(file) => return i64::from(file.exists()),
        };
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database =
            rusqlite::Connection::open_with_flags(sandbox.state_dir().join("state.db"), flags).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        database.execute_batch(KEPT).unwrap();
        database.query_row(query, [], |row| row.get(0)).unwrap()
    }
}
