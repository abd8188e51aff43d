//! Generated requests for each operation of `docs/openapi.json`: every one is answered in time,
//! with a response from the description, and never with an error caused by the daemon.

mod stop;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jsonschema::Validator;
use serde_json::{Value, json};
use subagent_tests::harness::{Random, Response, TestSandbox, answer, say, times};
use values::Values;

/// Time limit of each request.
const ANSWERED: Duration = Duration::from_secs(30);
/// Number of requests per operation.
const REQUESTS: usize = 20;
/// It ends the daemon, so it has a test of its own.
const STOP: &str = "POST /v1/daemon/stop";

struct ApiOperation {
    method: String,
    path: String,
    description: Value,
    responses: BTreeMap<String, Validator>,
}

impl ApiOperation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

fn document() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn operations(document: &Value) -> Vec<ApiOperation> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, description) in methods.as_object().unwrap() {
            let responses = description["responses"].as_object().unwrap().iter().map(|(status, response)| {
                let content = response["content"].as_object().unwrap().values().next().unwrap();
                let mut schema = content["schema"].clone();
                schema["components"] = document["components"].clone();
                (status.clone(), jsonschema::validator_for(&schema).unwrap())
            });
            operations.push(ApiOperation {
                method: method.to_uppercase(),
                path: path.clone(),
                responses: responses.collect(),
                description: description.clone(),
            });
        }
    }
    operations
}

/// A controller with workers, and their names for use in requests.
struct OpenApiFixture {
    sandbox: TestSandbox,
    socket: PathBuf,
    handle: Vec<String>,
    workers: Vec<Value>,
    turns: Vec<Value>,
    requests: Vec<Value>,
    tasks: Vec<Value>,
}

impl OpenApiFixture {
    fn new() -> Self {
        let sandbox = TestSandbox::new();
        sandbox.init();
        let socket = sandbox.daemon_info().unwrap().socket;
        let folder = sandbox.workspace().join(".agents/agents");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("scout.md"), "---\ndescription: Looks around\nlauncher: demo\n---\n").unwrap();
        let lists = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (handle, workers, turns, requests, tasks) = lists;
        let mut world = Self { sandbox, socket, handle, workers, turns, requests, tasks };
        world.refresh();
        world
    }

    /// Reads what the last requests may have changed: the owner, and workers that
    /// were stopped or removed.
    fn refresh(&mut self) {
        let attached = self.sandbox.run(&["controller", "attach", "--takeover"]).data();
        let owner = &attached["owner"];
        let text = |key: &str| match &owner[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.handle.clear();
        for (field, header, variable) in [
            ("controllerId", "subagent-controller-id", "SUBAGENT_CTL_ID"),
            ("epoch", "subagent-controller-epoch", "SUBAGENT_CTL_EPOCH"),
            ("token", "subagent-controller-token", "SUBAGENT_CTL_TOKEN"),
        ] {
            self.handle.push(format!("{header}: {}", text(field)));
            self.sandbox.set_env(variable, text(field));
        }
        self.give();
        let listed = self.sandbox.run(&["worker", "list"]).data();
        let is_task = |worker: &Value| self.tasks.contains(&worker["workerId"]);
        let lives = |worker: &&Value| {
            worker["state"] != "stopped" && worker["launcher"] == "demo" && !is_task(worker)
        };
        let live = listed["items"].as_array().unwrap().iter().filter(lives).count();
        for _ in live..2 {
            let _ = self.sandbox.start("demo");
        }
        let listed = self.sandbox.run(&["worker", "list"]).data();
        let mut items = listed["items"].as_array().unwrap().clone();
        for worker in &items {
            // Any request may be the one that removes it.
            let wish = ["worker", "rm", &as_text(&worker["workerId"])].map(str::to_owned);
            self.sandbox.recorder().attempt(&wish);
        }
        items.retain(|worker| !self.tasks.contains(&worker["workerId"]));
        items.truncate(4);
        self.workers = items;
        self.ask();
    }

    /// Submits a task, unless earlier requests have used up its resources.
    fn give(&mut self) {
        let given =
            self.sandbox.run(&["task", "run", "--agent", "scout", "--background", "--text", "!say done"]);
        if given.status.success() {
            self.tasks.push(given.data()["taskId"].clone());
        }
    }

    /// Makes a worker ask a question, unless earlier requests have used up its budget
    /// or filled its queue.
    fn ask(&mut self) {
        let worker = as_text(&self.workers[0]["workerId"]);
        let sent = self.sandbox.sending(&worker, "!ask make it").args(["--queue", "--no-wait"]).run();
        if sent.status.success() {
            self.turns.push(sent.data()["turnId"].clone());
        }
        let asked = self.sandbox.run(&["approval", "list"]).data();
        self.requests
            .extend(asked["items"].as_array().unwrap().iter().map(|asked| asked["requestId"].clone()));
    }

    fn known(&self) -> BTreeMap<&'static str, Vec<Value>> {
        let of = |key: &str| self.workers.iter().map(|worker| worker[key].clone()).collect::<Vec<_>>();
        let (workspace, file) = (self.sandbox.workspace(), self.sandbox.file("made-by-a-request"));
        let mut launcher = json!({"name": "demo", "backendKind": "acp-stdio", "args": []});
        launcher["program"] = self.sandbox.executable("subagent").into();
        launcher["args"] = json!(["demo-agent"]);
        let short = || vec![json!(1), json!(0.2), json!(-1), json!("x")];
        let newest = |of: &[Value]| of.iter().rev().take(5).cloned().collect::<Vec<_>>();
        let mut known = BTreeMap::from([
            ("turn", newest(&self.turns)),
            ("request", newest(&self.requests)),
            ("task", newest(&self.tasks)),
            ("decision", vec![json!("allow"), json!("deny"), json!("cancel")]),
            ("worker", of("workerId")),
            ("workerId", of("workerId")),
            ("controllerId", of("controllerId")),
            ("hintedControllerId", of("controllerId")),
            ("workspaceKey", vec![json!(workspace)]),
            ("workspace", vec![json!(workspace)]),
            ("cwd", vec![json!(workspace)]),
            ("additionalDirectories", vec![json!([]), json!([workspace])]),
            ("path", vec![json!(file)]),
            ("handoffsDir", vec![json!(self.sandbox.file("handoffs"))]),
            ("launcher", vec![launcher]),
            ("follow", vec![json!("false")]),
            ("umask", vec![json!(0o22), json!(u32::MAX)]),
            ("timeoutSeconds", short()),
            ("timeoutMs", vec![json!(1), json!(200), json!(-1), json!("x")]),
        ]);
        known.retain(|_, values| !values.is_empty());
        known
    }
}

/// Encodes a text as part of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the address of a request, with its parameters.
fn address(values: &mut Values<'_>, operation: &ApiOperation) -> String {
    let mut path = operation.path.clone();
    let mut query = Vec::new();
    for parameter in operation.description["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let in_path = parameter["in"] == "path";
        if !in_path && name != "follow" && values.chance(2) {
            continue;
        }
        let mut text = as_text(&values.value(name, &parameter["schema"], 0));
        text.truncate(text.floor_char_boundary(2_000));
        if in_path {
            let text = if text.is_empty() { "x".to_owned() } else { text };
            path = path.replace(&format!("{{{name}}}"), &encoded(&text));
        } else if name == "follow" && text == "true" {
            // A follower has no end.
        } else {
            query.push(format!("{name}={}", encoded(&text)));
        }
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

fn body(values: &mut Values<'_>, operation: &ApiOperation) -> String {
    let schema = &operation.description["requestBody"]["content"]["application/json"]["schema"];
    if schema.is_null() {
        return String::new();
    }
    if values.chance(30) {
        return (*values.random.pick(&["[]", "[1]", "null", "1", "\"x\"", "{]", "{", "\u{0}"])).to_owned();
    }
    let mut body = values.value("", schema, 0).to_string();
    if body.len() > 10 && values.chance(30) {
        let half = body.floor_char_boundary(body.len() / 2);
        body.truncate(half);
    }
    body
}

/// Sends a request, mostly with the owner's handle; `None` without an answer.
fn send(world: &OpenApiFixture, values: &mut Values<'_>, head: &str, body: &str) -> Option<Response> {
    let mut lines = vec![head.to_owned(), "subagent-protocol: 1".to_owned()];
    if !values.chance(20) {
        lines.push("Content-Type: application/json".to_owned());
    }
    if !values.chance(10) {
        lines.extend(world.handle.clone());
    }
    if values.chance(3) {
        lines.push(format!("idempotency-key: key-{}", values.random.below(30)));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    answer(&world.socket, &lines, body)
}

/// Returns what is wrong with a response.
fn wrong(operation: &ApiOperation, response: &Response, took: Duration) -> Option<String> {
    if took >= ANSWERED {
        return Some(format!("it took {took:?}"));
    }
    let described = if response.status == 200 { "200" } else { "default" };
    let validator = &operation.responses[described];
    let is_stream = response.status == 200 && operation.path.ends_with("/events");
    let documents: Vec<&str> = if is_stream { response.body.lines().collect() } else { vec![&response.body] };
    for text in documents {
        let Ok(document) = serde_json::from_str::<Value>(text) else {
            return Some(format!("not JSON: {text:?}"));
        };
        // A later error is the last line of a stream.
        if is_stream && document["ok"] == false {
            continue;
        }
        if let Err(error) = validator.validate(&document) {
            return Some(format!("{} at {}", error, error.instance_path()));
        }
    }
    let code =
        if response.status == 200 { String::new() } else { as_text(&response.json()["error"]["code"]) };
    let fault = match response.status {
        200..500 => false,
        502 => {
            !(code.starts_with("BACKEND_")
                || code.starts_with("PLACEMENT_")
                || ["RUNTIME_LOST", "AUTH_REQUIRED"].contains(&code.as_str()))
        }
        504 => !["WAIT_TIMEOUT", "WAIT_NO_PROGRESS", "BACKEND_TIMEOUT"].contains(&code.as_str()),
        _ => true,
    };
    fault.then(|| "it is the fault of the daemon".to_owned())
}

#[test]
fn no_generated_request_finds_a_fault() {
    let document = document();
    let mut operations = operations(&document);
    operations.retain(|operation| operation.name() != STOP);
    let mut world = OpenApiFixture::new();
    let mut values =
        Values { random: Random::announced(), document: &document, known: world.known(), optional: 2 };
    let (mut faults, mut seen) = (BTreeSet::new(), BTreeMap::<String, BTreeSet<u16>>::new());
    for _ in 0..times(REQUESTS) {
        for operation in &operations {
            values.optional = *values.random.pick(&[2, 4, 20]);
            let head = format!("{} {} HTTP/1.1", operation.method, address(&mut values, operation));
            let body = body(&mut values, operation);
            let asked = Instant::now();
            let Some(response) = send(&world, &mut values, &head, &body) else {
                faults.insert(format!("no answer after {:?}\n  {head}\n  {body}", asked.elapsed()));
                continue;
            };
            seen.entry(operation.name()).or_default().insert(response.status);
            // Another owner has the workers: the remaining requests would only be refused.
            if response.status == 200 && operation.name().starts_with("POST /v1/controllers") {
                world.refresh();
                values.known = world.known();
            }
            if let Some(why) = wrong(operation, &response, asked.elapsed()) {
                let text: String = response.body.chars().take(600).collect();
                faults.insert(format!("{why}\n  {head}\n  {body}\n  {} {text}", response.status));
            }
        }
        world.refresh();
        values.known = world.known();
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    let never: Vec<_> =
        seen.iter().filter(|(_, statuses)| !statuses.contains(&200)).map(|(name, _)| name).collect();
    say(&format!("operations without a success: {never:?}"));
    let of_tasks: Vec<_> = never.iter().filter(|name| name.contains("/tasks/{task}")).collect();
    assert!(of_tasks.is_empty(), "no request about a task succeeded: {of_tasks:?}");
    assert!(never.len() < operations.len() / 2, "too many requests were refused: {never:?}");
    world.sandbox.run(&["worker", "list"]).data();
    world.sandbox.finish();
}

#[test]
fn an_empty_launcher_is_wrong_input() {
    let world = OpenApiFixture::new();
    let workspace = world.sandbox.workspace();
    for field in ["name", "backendKind", "program"] {
        let mut launcher =
            json!({"name": "demo", "backendKind": "acp-stdio", "program": "/bin/true", "args": []});
        launcher[field] = " ".into();
        let body = json!({"workspaceKey": workspace, "workspace": workspace, "cwd": workspace, "launcher": launcher, "role": "", "label": "x", "env": [], "umask": 18}).to_string();
        let mut lines = vec![
            "POST /v1/workers HTTP/1.1".to_owned(),
            "subagent-protocol: 1".to_owned(),
            "Content-Type: application/json".to_owned(),
        ];
        lines.extend(world.handle.clone());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let response = answer(&world.socket, &lines, &body).expect("an answer");
        let error = &response.json()["error"];
        assert_eq!((response.status, &error["code"]), (400, &json!("INVALID_ARGUMENT")), "{error}");
        assert_eq!(error["details"]["field"], format!("launcher.{field}"), "{error}");
    }
    world.sandbox.finish();
}
