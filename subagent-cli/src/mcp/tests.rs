//! Tests of the server with a client that sends JSON-RPC lines and a fake daemon.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_config::Environment;
use subagent_protocol::api::{CallableAgent, TASK_TOKEN};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::client::fake::{Act, Fake, FakeDaemonRequest};
use crate::command_line::TypedFlags;
use crate::output::OutputFormat;

mod away;
mod ends;

/// A deadline that no test reaches.
const FAR: Duration = Duration::from_secs(60);

fn ok(data: Value) -> Act {
    Act::Answer(200, json!({"schemaVersion": "v1", "ok": true, "type": "x", "data": data}))
}

fn refused(code: &str, message: &str) -> Act {
    let error = json!({"code": code, "message": message, "retryable": false, "details": {}});
    Act::Answer(409, json!({"ok": false, "error": error}))
}

fn task(status: &str, steps: u64) -> Value {
    json!({
        "taskId": "w_0123456789", "name": "Look around", "path": ["Look around"], "agent": "explore",
        "description": "Look around", "prompt": "Look.", "mode": "foreground", "status": status,
        "parent": "w_9876543210", "root": "w_9876543210", "depth": 1, "launcher": "demo", "model": null,
        "steps": steps, "toolCalls": steps, "cost": null, "tokens": null, "runs": 1, "error": null,
        "metadata": {}, "createdAt": "2026-11-21T20:29:42+00:00", "updatedAt": "2026-11-21T20:29:42+00:00", "startedAt": null,
        "completedAt": null,
    })
}

fn shown(status: &str, steps: u64, result: Option<&str>) -> Value {
    let mut shown = task(status, steps);
    shown["result"] = json!(result);
    shown["resultMaxTokens"] = json!(100);
    shown
}

fn agents(names: &[&str]) -> Value {
    let agents = names.iter().map(|name| json!({"name": name, "description": format!("Does {name}")}));
    json!({"workerId": "w_9876543210", "agents": agents.collect::<Vec<_>>()})
}

/// The default reactions of the fake daemon.
fn ordinary(seen: &FakeDaemonRequest) -> Act {
    match seen.line.as_str() {
        "GET /v1/tasks/agents" => ok(agents(&["explore", "plan"])),
        "GET /v1/workers/w_9876543210/events/latest" => ok(json!({"event": {"eventId": "ev_1"}})),
        "POST /v1/workers/w_9876543210/wait" => Act::Hang,
        other => panic!("unexpected request: {other}"),
    }
}

fn submitter(fake: &Fake, vars: &[(&str, &str)]) -> TaskSubmitter {
    let dir = fake.dir.path().to_str().unwrap();
    let own = [("SUBAGENT_STATE_DIR", dir), ("SUBAGENT_NO_AUTOSTART", "1"), ("HOME", dir)];
    let vars = own.iter().chain(vars).map(|(name, value)| ((*name).into(), (*value).into()));
    let env = Environment::new(vars, fake.dir.path());
    TaskSubmitter::new(
        &CliContext { env, format: OutputFormat::Text, typed: TypedFlags::default(), host: None },
        TaskPlacement::default(),
    )
}

/// A connection to the server.
struct McpSession {
    write: Option<DuplexStream>,
    lines: Lines<BufReader<DuplexStream>>,
    served: JoinHandle<Result<()>>,
    /// Requests the end like a signal.
    ask: Option<oneshot::Sender<()>>,
    heard: Vec<Value>,
    last: u64,
}

impl McpSession {
    async fn begin(submitter: TaskSubmitter) -> Self {
        let (write, read) = duplex(1 << 20);
        let (out, lines) = duplex(1 << 20);
        let (ask, asked) = oneshot::channel::<()>();
        let asked = async {
            if asked.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let served = tokio::spawn(serve((submitter, ToolOffer::default()), read, out, asked));
        let lines = BufReader::new(lines).lines();
        let mut session =
            Self { write: Some(write), lines, served, ask: Some(ask), heard: Vec::new(), last: 0 };
        let client = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        let server = session.ask("initialize", client).await;
        assert_eq!(server["result"]["serverInfo"]["name"], "subagent");
        assert_eq!(server["result"]["capabilities"]["tools"]["listChanged"], true);
        session.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session
    }

    async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.write.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.ask("tools/call", params).await
    }

    async fn next(&mut self) -> Value {
        let line = timeout(FAR, self.lines.next_line()).await.expect("an answer in time").unwrap();
        serde_json::from_str(&line.expect("the server has not ended")).unwrap()
    }

    /// Reads until the answer to a request; records other messages.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            match self.next().await {
                found if found["id"] == id => return found,
                other => self.heard.push(other),
            }
        }
    }

    async fn hear(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(|heard| heard["method"] == method) {
                return self.heard.remove(at);
            }
            let next = self.next().await;
            self.heard.push(next);
        }
    }

    /// Closes the client's end and waits for the server's.
    async fn end(mut self) {
        self.write = None;
        timeout(FAR, self.served).await.expect("it ends").unwrap().unwrap();
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {answer}"))
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Returns the daemon's requests about tasks.
fn lines(fake: &Fake) -> Vec<String> {
    let seen = fake.seen().into_iter().map(|seen| seen.line);
    seen.filter(|line| line.contains("/v1/tasks") && !line.ends_with("/agents")).collect()
}

async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let look = async {
        loop {
            match found() {
                Some(found) => return found,
                None => tokio::task::yield_now().await,
            }
        }
    };
    timeout(FAR, look).await.expect("it comes in time")
}

const CALL: &str = r#"{"agent": "explore", "prompt": "Look.", "description": "Look around"}"#;

fn call() -> Value {
    serde_json::from_str(CALL).unwrap()
}

/// The tool definitions equal the stored ones. `UPDATE_MCP_TOOLS=1` writes them.
#[test]
fn the_tools_have_the_schemas_that_are_written_down() {
    let agent = |name: &str, background| CallableAgent {
        name: name.to_owned(),
        description: format!("Does what\n{name} does."),
        background,
    };
    let agents = [agent("explore", false), agent("nightly", true)];
    let (worker, manager) = (tools::tools(&agents, true), tools::tools(&agents, false));
    let found = serde_json::json!({"forTheAgentOfAWorker": worker, "forAManager": manager});
    let found = format!("{found:#}\n");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mcp/tools.json");
    if std::env::var_os("UPDATE_MCP_TOOLS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "UPDATE_MCP_TOOLS=1 writes them anew");
}

#[tokio::test]
async fn an_agent_is_offered_the_agents_that_it_may_call() {
    let fake = Fake::playing(ordinary);
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "secret")])).await;
    let listed = session.ask("tools/list", json!({})).await;
    assert_eq!(names(&listed), ["task", "spawn_subagent", "get_subagents", "message_subagent"]);
    let schema = &listed["result"]["tools"][0]["inputSchema"];
    assert_eq!(schema["properties"]["agent"]["enum"], json!(["explore", "plan"]));
    assert!(fake.seen()[0].header("x-subagent-task-token") == Some("secret"));
    session.end().await;
}

#[tokio::test]
async fn without_an_agent_to_call_the_tools_that_give_tasks_are_left_out() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "GET /v1/tasks/agents" => ok(agents(&[])),
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    assert_eq!(names(&session.ask("tools/list", json!({})).await), ["get_subagents", "message_subagent"]);
    session.end().await;
}

#[tokio::test]
async fn a_foreground_task_reports_how_far_it_is_and_gives_its_result() {
    let mut waits = 0;
    let fake = Fake::playing(move |seen| match seen.line.as_str() {
        "POST /v1/tasks" => ok(task("queued", 0)),
        "POST /v1/tasks/w_0123456789/wait" => {
            waits += 1;
            match waits {
                1 => ok(shown("running", 1, None)),
                2 => refused("WAIT_TIMEOUT", "nothing has changed"),
                _ => ok(shown("completed", 2, Some("Found it."))),
            }
        }
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    let answer = session.call("task", call()).await;
    assert_eq!(
        text(&answer),
        r#"<task_result agent="explore" name="Look around" id="w_0123456789">Found it.</task_result>"#
    );
    assert_eq!(answer["result"]["isError"], false);
    let reported: Vec<_> = session.heard.iter().map(|heard| &heard["params"]).collect();
    let expected = ["queued", "running, 1 tool call", "running, 1 tool call"];
    for (at, (reported, expected)) in reported.iter().zip(expected).enumerate() {
        let message = format!("Look around: {expected}");
        assert_eq!(
            **reported,
            json!({"progressToken": "p", "progress": (at + 1) as f64, "message": message})
        );
    }
    assert_eq!(reported.len(), 3);
    let seen = fake.seen();
    let asked = seen.iter().find(|seen| seen.line == "POST /v1/tasks").unwrap();
    assert_eq!(asked.body, json!({"agent": "explore", "prompt": "Look.", "description": "Look around"}));
    assert_eq!(asked.header("x-subagent-task-token"), Some("t"));
    let known: Vec<_> =
        seen.iter().filter(|seen| seen.line.ends_with("89/wait")).map(|seen| &seen.body["known"]).collect();
    assert_eq!(*known[0], json!({"status": "queued", "steps": 0}));
    assert_eq!(*known[2], json!({"status": "running", "steps": 1}));
    session.end().await;
}

#[tokio::test]
async fn a_background_task_returns_at_once_in_the_form_of_its_tool() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "POST /v1/tasks" => {
            let mut task = task("queued", 0);
            task["mode"] = seen.body["mode"].clone();
            ok(task)
        }
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    let mut arguments = call();
    arguments["background"] = true.into();
    let answer = session.call("task", arguments).await;
    assert_eq!(text(&answer), r#"{"id":"w_0123456789","name":"Look around","status":"queued"}"#);
    let arguments = json!({"name": "N", "task": "t", "mode": "background"});
    let answer = session.call("spawn_subagent", arguments).await;
    assert_eq!(text(&answer), r#"{"name":"Look around","subagent_id":"w_0123456789","status":"queued"}"#);
    session.end().await;
    assert_eq!(lines(&fake), ["POST /v1/tasks", "POST /v1/tasks"], "no wait, and nothing is canceled");
}

#[tokio::test]
async fn a_call_that_is_canceled_cancels_its_task() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "POST /v1/tasks" => ok(task("queued", 0)),
        "POST /v1/tasks/w_0123456789/wait" => Act::Hang,
        "POST /v1/tasks/w_0123456789/cancel" => ok(task("cancelled", 0)),
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    let id = session.request("tools/call", json!({"name": "task", "arguments": call()})).await;
    until(|| lines(&fake).iter().any(|line| line.ends_with("/wait")).then_some(())).await;
    let params = json!({"requestId": id, "reason": "not needed"});
    session.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    until(|| lines(&fake).iter().any(|line| line.ends_with("/cancel")).then_some(())).await;
    session.end().await;
}

#[tokio::test]
async fn the_end_of_stdin_cancels_waited_tasks_and_ends_the_server() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "POST /v1/tasks" => ok(task("queued", 0)),
        "POST /v1/tasks/w_0123456789/wait" => Act::Hang,
        "POST /v1/tasks/w_0123456789/cancel" => ok(task("cancelled", 0)),
        _ => ordinary(seen),
    });
    for signal in [false, true] {
        let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
        session.ask("tools/list", json!({})).await;
        let before = lines(&fake).len();
        session.request("tools/call", json!({"name": "task", "arguments": call()})).await;
        until(|| lines(&fake)[before..].iter().any(|line| line.ends_with("/wait")).then_some(())).await;
        if signal {
            session.ask.take().unwrap().send(()).unwrap();
            timeout(FAR, session.served).await.expect("it ends").unwrap().unwrap();
        } else {
            session.end().await;
        }
        let canceled = lines(&fake).iter().filter(|line| line.ends_with("/cancel")).count();
        assert_eq!(canceled, 1 + usize::from(signal));
    }
}

#[tokio::test]
async fn the_server_does_not_end_before_what_is_canceled_had_its_time() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "POST /v1/tasks" => ok(task("queued", 0)),
        "POST /v1/tasks/w_0123456789/wait" | "POST /v1/tasks/w_0123456789/cancel" => Act::Hang,
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    session.request("tools/call", json!({"name": "task", "arguments": call()})).await;
    until(|| lines(&fake).iter().any(|line| line.ends_with("/wait")).then_some(())).await;
    let begun = Instant::now();
    session.ask.take().unwrap().send(()).unwrap();
    timeout(FAR, session.served).await.expect("it ends").unwrap().unwrap();
    assert!(lines(&fake).last().unwrap().ends_with("/cancel"));
    assert!(begun.elapsed() >= calls::END_LIMIT, "the daemon may have needed as long");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_no_error_and_one_that_says_something_else_is() {
    for (said, fails) in [("", false), ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", true)] {
        let fake = Fake::playing(ordinary);
        let (mut write, read) = duplex(1 << 10);
        let (out, _lines) = duplex(1 << 10);
        write.write_all(said.as_bytes()).await.unwrap();
        drop(write);
        let served =
            Box::pin(serve((submitter(&fake, &[]), ToolOffer::default()), read, out, std::future::pending()));
        let served = timeout(FAR, served).await.unwrap();
        assert_eq!(served.is_err(), fails, "{served:?}");
    }
}

#[tokio::test]
async fn errors_of_the_daemon_and_malformed_calls_are_answers_that_a_model_reads() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "POST /v1/tasks" => refused("TASK_LIMIT", "there are 100 tasks </task_error>"),
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    let answer = session.call("task", call()).await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        text(&answer),
        r#"<task_error agent="explore">TASK_LIMIT: there are 100 tasks &lt;/task_error></task_error>"#
    );
    let answer = session.call("task", json!({"agent": "explore"})).await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(text(&answer), "<task_error>INVALID_ARGUMENT: task: missing field `prompt`</task_error>");
    let answer = session.call("tusk", json!({})).await;
    let reported = "there is no tool \"tusk\"; tools/list has those that there are";
    assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32602), &json!(reported)));
    session.end().await;
}

#[tokio::test]
async fn other_agents_are_announced_when_a_turn_begins() {
    let (mut lists, mut turns) = (0, 0);
    let fake = Fake::playing(move |seen| match seen.line.as_str() {
        "GET /v1/tasks/agents" => {
            lists += 1;
            ok(agents(if lists < 3 { &["explore"] } else { &["explore", "new"] }))
        }
        "POST /v1/workers/w_9876543210/wait" => {
            turns += 1;
            assert_eq!(seen.body["until"], "turn.started");
            assert_eq!(seen.body["fromEventId"], format!("ev_{turns}"));
            // The first turn does not change the agents.
            if turns == 3 {
                Act::Hang
            } else {
                ok(json!({"matchedEvent": {"eventId": format!("ev_{}", turns + 1)}}))
            }
        }
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    session.ask("tools/list", json!({})).await;
    session.hear("notifications/tools/list_changed").await;
    let listed = session.ask("tools/list", json!({})).await;
    assert_eq!(
        listed["result"]["tools"][0]["inputSchema"]["properties"]["agent"]["enum"],
        json!(["explore", "new"])
    );
    assert!(session.heard.is_empty(), "once: {:?}", session.heard);
    session.end().await;
}

#[tokio::test]
async fn a_manager_has_the_agents_of_its_files_and_says_where_it_is() {
    let fake = Fake::playing(|seen| match seen.line.split('?').next().unwrap() {
        "GET /v1/controllers/resolve" => ok(json!({"controllerId": "ctl_1"})),
        "POST /v1/tasks" => refused("TASK_NAME_TAKEN", "there is one"),
        other => panic!("{other}"),
    });
    let mut session = McpSession::begin(submitter(&fake, &[("SECRET", "s")])).await;
    let agents = |listed: &Value| {
        let names = &listed["result"]["tools"][0]["inputSchema"]["properties"]["agent"]["enum"];
        names.as_array().unwrap().clone()
    };
    let before = agents(&session.ask("tools/list", json!({})).await);
    assert_eq!(before, ["explore", "general", "plan", "summary", "title", "worker"]);
    let folder = fake.dir.path().join(".agents/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("reviewer.md"), "---\ndescription: Reviews\n---\nReview.").unwrap();
    std::fs::write(folder.join("boss.md"), "---\ndescription: Leads\nmode: primary\n---\nLead.").unwrap();
    let answer = session.call("task", call()).await;
    assert!(text(&answer).contains(">TASK_NAME_TAKEN: there is one<"), "{answer}");
    session.hear("notifications/tools/list_changed").await;
    assert!(agents(&session.ask("tools/list", json!({})).await).contains(&json!("reviewer")));
    let seen = fake.seen();
    let place = &seen.iter().find(|seen| seen.line == "POST /v1/tasks").unwrap().body["manager"];
    let here = fake.dir.path().canonicalize().unwrap();
    assert_eq!((&place["cwd"], &place["workspace"]), (&json!(here), &json!(here)));
    assert_eq!(place["workspaceKey"], json!(here));
    assert!(seen.iter().all(|seen| seen.header("x-subagent-task-token").is_none()));
    session.end().await;
}

#[tokio::test]
async fn tasks_are_looked_at_and_talked_to() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "GET /v1/tasks" => {
            let mut others = [task("completed", 0), task("lost", 0), task("running", 0)];
            for (at, other) in others.iter_mut().enumerate() {
                other["name"] = format!("T{at}").into();
            }
            ok(json!({"items": others, "count": 3}))
        }
        "GET /v1/tasks/Look%20around" => ok(shown("running", 3, None)),
        "GET /v1/tasks/done" => ok(shown("completed", 3, Some(&"word ".repeat(200)))),
        "POST /v1/tasks/w_0123456789/wait" => {
            assert!(seen.body["timeoutMs"].as_u64().unwrap() <= 1);
            refused("WAIT_TIMEOUT", "nothing has changed")
        }
        "POST /v1/tasks/done/messages" => {
            let mut answer = task("queued", 0);
            answer["message"] = "resumed".into();
            assert_eq!(seen.body, json!({"message": "Go on.", "cancel": false, "allowFresh": false}));
            ok(answer)
        }
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    for (filter, expected) in [("all", "T0 T1 T2"), ("running", "T2"), ("completed", "T0"), ("failed", "T1")]
    {
        let answer = session.call("get_subagents", json!({"status_filter": filter})).await;
        let found: Vec<Value> = serde_json::from_str(text(&answer)).unwrap();
        let names: Vec<_> = found.iter().map(|task| task["name"].as_str().unwrap()).collect();
        assert_eq!(names.join(" "), expected, "{filter}");
        let keys: Vec<_> = found[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["id", "name", "task", "status", "created_at", "model"]);
    }
    let one = json!({"name_or_id": "Look around", "wait_seconds": 0.001});
    let found: Value = serde_json::from_str(text(&session.call("get_subagents", one).await)).unwrap();
    assert_eq!(
        found,
        json!({
            "id": "w_0123456789", "name": "Look around", "task": "Look.", "status": "running", "result": null,
            "error": null, "iterations": 3, "tools_used": 3,
        })
    );
    let done = session.call("get_subagents", json!({"name_or_id": "done"})).await;
    assert!(text(&done).contains("[Output truncated: 250 tokens total"), "{done}");
    let reported = session.call("message_subagent", json!({"name_or_id": "done", "message": "Go on."})).await;
    assert!(text(&reported).contains("it had ended, and goes on with the message"), "{reported}");
    session.end().await;
}

#[tokio::test]
async fn a_task_that_goes_on_is_waited_for_and_is_the_agent_that_was_named() {
    let fake = Fake::playing(|seen| match seen.line.as_str() {
        "GET /v1/tasks/Look%20around" => ok(shown("completed", 3, Some("old"))),
        "POST /v1/tasks/w_0123456789/messages" => {
            assert_eq!(seen.body["mode"], "foreground");
            let mut answer = task("queued", 0);
            answer["message"] = "resumed".into();
            ok(answer)
        }
        "POST /v1/tasks/w_0123456789/wait" => ok(shown("completed", 1, Some("new"))),
        _ => ordinary(seen),
    });
    let mut session = McpSession::begin(submitter(&fake, &[(TASK_TOKEN, "t")])).await;
    let mut again = json!({"task_id": "Look around", "prompt": "More.", "description": "Look again"});
    assert!(text(&session.call("task", again.clone()).await).ends_with(">new</task_result>"));
    again["agent"] = "plan".into();
    let answer = session.call("task", again).await;
    assert!(text(&answer).contains("is one of the agent explore, not of plan"), "{answer}");
    session.end().await;
}
