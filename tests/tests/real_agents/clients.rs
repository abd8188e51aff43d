//! `subagent mcp` in the clients of `docs/delegation.md`, added as described there and run as by a
//! person, without a worker around them: a model submits a task and gets its result.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;

use serde_json::{Value, json};
use subagent_tests::harness::{Command, TestSandbox, executables, wait_until};
use subagent_tests::model_server::{Asked, ModelRequest, ModelServer};
use subagent_tests::real_agent::RealAgent;

use super::world::DEADLINE;

/// A variable in the environment of a client, whose name and value must not leak.
const HANDED_ON: (&str, &str) = ("SCOUT_API_KEY", "handed-on");

/// Maximum number of runs of a client whose server is slow on a busy machine.
const MAX_TRIES: usize = 4;

/// What the document says of a client that declines forms.
const DECLINES: &str = "yes; it declines each by itself";

fn document() -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs").join("delegation.md");
    fs::read_to_string(document).unwrap()
}

/// The document's row of a client: the parts in backticks of each cell.
struct ClientRow(Vec<Vec<String>>);

impl ClientRow {
    fn of(title: &str) -> Self {
        let text = document();
        let row = text.lines().find_map(|line| line.strip_prefix(&format!("| {title} | "))).unwrap();
        let code = |cell: &str| {
            cell.split('`').skip(1).step_by(2).map(|code| code.replace("NAME", HANDED_ON.0)).collect()
        };
        Self(row.split(" | ").map(code).collect())
    }

    /// Returns how it is added; for a file, its required content.
    fn adding(&self) -> &[String] {
        &self.0[0]
    }

    /// Returns how it is run without permission requests.
    fn running(&self) -> &str {
        &self.0[1][0]
    }
}

/// Returns what the document says about forms of servers in this client.
fn forms(title: &str) -> String {
    let text = document();
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("| {title} | "))).unwrap();
    row.trim_end_matches(" |").rsplit(" | ").next().unwrap().to_owned()
}

/// Returns a shell of a user who has this agent and `subagent`.
fn shell(sandbox: &TestSandbox, agent: &RealAgent, line: &str) -> Command {
    let bin = agent.home().join("bin");
    let path = format!("{}:{}:{}", bin.display(), executables().folder().display(), agent.env["PATH"]);
    let mut shell = sandbox.command("bash").args(["-euc", line]).deadline(DEADLINE);
    for (name, value) in &agent.env {
        shell = shell.env(name, value);
    }
    shell.env("PATH", path).env(HANDED_ON.0, HANDED_ON.1)
}

/// Installs the command that its users type.
fn install(agent: &RealAgent) {
    let words: Vec<String> = agent.typed.iter().map(|word| format!("'{}'", word.display())).collect();
    let (bin, script) = (agent.home().join("bin"), format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")));
    fs::create_dir_all(&bin).unwrap();
    let file = bin.join(agent.name);
    fs::write(&file, script).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Adds `subagent` to it, as the document describes.
fn add(sandbox: &TestSandbox, agent: &RealAgent, row: &ClientRow) {
    let code = row.adding();
    if agent.name == "opencode" {
        let file = sandbox.workspace().join("opencode.json");
        return fs::write(file, format!("{{{}}}", code[0])).unwrap();
    }
    let _ = shell(sandbox, agent, &code[0]).run().text();
    if agent.name == "codex" {
        let file = agent.home().join(".codex/config.toml");
        let config = fs::read_to_string(&file).unwrap();
        let table = code.iter().find(|code| code.starts_with('[')).unwrap();
        let keys: Vec<&String> = code.iter().filter(|code| code.contains(" = ")).collect();
        assert_eq!(config.matches(table.as_str()).count(), 1, "{config}");
        let lines: String = keys.iter().map(|key| format!("\n{key}")).collect();
        fs::write(file, config.replace(table, &format!("{table}{lines}"))).unwrap();
    }
}

/// Puts a `subagent` before the real one that keeps what a client writes to its server.
fn record_what_it_says(sandbox: &TestSandbox, agent: &RealAgent) {
    let words = [sandbox.file_name("said-to-mcp"), sandbox.executable("subagent")];
    let [said, real] = words.each_ref().map(|word| shell_words::quote(word));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = mcp ]; then tee -a {said} | {real} \"$@\"; else exec {real} \"$@\"; fi\n"
    );
    let file = agent.home().join("bin/subagent");
    fs::write(&file, script).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A client with its server, and a user who can run it without permission requests.
struct ClientWorld {
    models: ModelServer,
    sandbox: TestSandbox,
    agent: RealAgent,
    row: ClientRow,
}

impl ClientWorld {
    fn new(name: &'static str, title: &str) -> Self {
        let (models, sandbox, row) =
            (ModelServer::start().unwrap(), TestSandbox::new(), ClientRow::of(title));
        let agent = RealAgent::new(name, &models);
        install(&agent);
        let _ = sandbox.command("git").args(["init", "-q"]).run().text();
        if name == "codex" {
            // It does not pass on `XDG_RUNTIME_DIR`: a daemon started by its server has its
            // socket outside the sandbox.
            sandbox.init();
        }
        record_what_it_says(&sandbox, &agent);
        add(&sandbox, &agent, &row);
        Self { models, sandbox, agent, row }
    }

    /// What the client has written to its server.
    fn said(&self) -> Vec<Value> {
        let said = fs::read_to_string(self.sandbox.file("said-to-mcp")).unwrap();
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// What the client has done with a form of its server.
    fn answer(&self) -> Option<String> {
        let answer = |message: &Value| message["result"]["action"].as_str().map(str::to_owned);
        self.said().iter().find_map(answer)
    }

    /// Whether the client has said to its server that it shows forms.
    fn offers_forms(&self) -> bool {
        let said = self.said();
        let mut capabilities = said.iter().filter_map(|message| {
            let params = &message["params"];
            // From the revision of 2026-07-28 on, each request has them in place of `initialize`.
            let in_each = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            [&params["capabilities"], in_each].into_iter().find(|found| found.is_object())
        });
        let first = capabilities.next().unwrap();
        !first["elicitation"].is_null()
    }

    /// Runs the client with this prompt. Returns the output of its tools.
    fn run(&self, prompt: &str) -> Vec<String> {
        let line = self.row.running().replace("PROMPT", "\"$PROMPT\"");
        let once = || shell(&self.sandbox, &self.agent, &line).env("PROMPT", prompt).run();
        // Claude Code begins without a server that has not answered within some seconds.
        let has_server = |_: &usize| !once().text().contains("no tool subagent/");
        assert!((0..MAX_TRIES).find(has_server).is_some(), "it has never waited for its server");
        let results = |request: ModelRequest| match request.asked {
            Asked::ToolResult { output } => Some(output),
            _ => None,
        };
        self.models.requests().into_iter().filter_map(results).collect()
    }
}

fn tried(name: &'static str, title: &str) {
    if !RealAgent::is_installed(name) {
        return;
    }
    gives_a_task(name, title);
    manages_a_worker(name, title);
    lands_once(name, title);
    waits_for_an_answer(name, title);
}

/// Returns the first id of this kind in a text, with any quoting.
fn id(kind: &str, text: &str) -> String {
    let at = text.find(kind).unwrap_or_else(|| panic!("{kind} in {text}"));
    text[at..].chars().take_while(|char| char.is_ascii_alphanumeric() || *char == '_').collect()
}

/// It starts a worker, gets its question, answers it, gets the end, and stops the worker.
fn manages_a_worker(name: &'static str, title: &str) {
    let manager = ClientWorld::new(name, title);
    let models = &manager.models;
    let calls = |tool: &str, arguments: Value| format!("MCP: subagent/{tool} {arguments}");
    models.react(move |started| {
        let message = json!({"worker_id": id("w_", started), "message": "!ask execute make all\nbuilt"});
        calls("send_message", message)
    });
    let waits = move |result: &str| calls("wait_for", json!({"worker_ids": [id("w_", result)]}));
    models.react(waits);
    models.react(move |asked| {
        assert!(asked.contains("make all"), "{asked}");
        calls("answer_question", json!({"request_id": id("ap_", asked), "decision": "allow"}))
    });
    models.react(waits);
    models.react(move |ended| calls("stop_worker", json!({"worker_id": id("w_", ended)})));
    models.react(|stopped| format!("SAY: {stopped}"));
    let results = manager.run(&calls("start_worker", json!({"launcher": "demo", "label": "Fix"})));
    assert_eq!(results.len(), 6, "{results:#?}");
    assert!(results[4].contains("completed") && results[4].contains("built"), "{results:#?}");
    assert!(results[5].contains("stopped"), "{results:#?}");
    manager.sandbox.finish();
}

/// A task asks while the client waits for it. Without a user who answers its form, the owner answers.
fn waits_for_an_answer(name: &'static str, title: &str) {
    let manager = ClientWorld::new(name, title);
    let sandbox = &manager.sandbox;
    define_scout(sandbox);
    let task = json!({"agent": "scout", "description": "Ask", "prompt": "!ask execute make all\nfound it"});
    let results = thread::scope(|scope| {
        let client = scope.spawn(|| manager.run(&format!("MCP: subagent/task {task}")));
        let question = wait_until("the question of the task", DEADLINE, || {
            let open = sandbox.run(&["approval", "list"]);
            let open = open.status.success().then(|| open.data_of("inbox.listed"))?;
            Some(open["items"][0].clone()).filter(|question| question["requestId"].is_string())
        });
        if forms(title) == DECLINES {
            // Otherwise the owner may be quicker than the form.
            wait_until("what the client does with the form", DEADLINE, || manager.answer());
        }
        sandbox.approve(question["workerId"].as_str().unwrap(), &question["requestId"], "allow").data();
        client.join().unwrap()
    });
    let [result] = &results[..] else { panic!("one call, and one result: {results:?}") };
    assert!(result.contains("found it"), "{result}");
    let answer = manager.answer();
    let cell = match (manager.offers_forms(), answer.as_deref()) {
        (false, _) => "no",
        (true, None) => "yes, in a protocol without requests of servers",
        (true, Some("decline")) => DECLINES,
        (true, Some(other)) => panic!("{title} answers a form by itself: {other}"),
    };
    assert_eq!(cell, forms(title), "docs/delegation.md, {title}");
    manager.sandbox.finish();
}

/// It starts a worker in a worktree, has it change a file, and lands the change twice: there is one commit.
fn lands_once(name: &'static str, title: &str) {
    let manager = ClientWorld::new(name, title);
    let ClientWorld { models, sandbox, .. } = &manager;
    let git = |line: &str| {
        let line = format!("git -c user.name=me -c user.email=me@example.com {line}");
        sandbox.command("sh").args(["-euc", &line]).run().text().trim().to_owned()
    };
    git("commit -q --allow-empty -m first");
    for key in ["user.name me", "user.email me@example.com"] {
        git(&format!("config {key}"));
    }
    let calls = |tool: &str, arguments: Value| format!("MCP: subagent/{tool} {arguments}");
    let worker = Arc::new(OnceLock::new());
    let land = {
        let worker = Arc::clone(&worker);
        move || calls("land", json!({"worker_id": worker.get(), "message": "Add a"}))
    };
    models.react(move |started| {
        let message = json!({"worker_id": id("w_", started), "message": "!edit create a.txt one"});
        let _ = worker.set(id("w_", started));
        calls("send_message", message)
    });
    models.react(move |sent| calls("wait_for", json!({"worker_ids": [id("w_", sent)]})));
    let again = land.clone();
    models.react(move |ended| {
        assert!(ended.contains("completed"), "{ended}");
        land()
    });
    models.react(move |_| again());
    models.react(|landed| format!("SAY: {landed}"));
    let results = manager.run(&calls("start_worker", json!({"launcher": "demo", "worktree": true})));
    assert_eq!(results.len(), 5, "{results:#?}");
    assert!(results[3].contains("a.txt") && !results[4].contains("a.txt"), "{results:#?}");
    assert_eq!(git("log --format=%s"), "Add a\nfirst");
    manager.sandbox.finish();
}

fn define_scout(sandbox: &TestSandbox) {
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("scout.md"), "---\ndescription: Finds things\nlauncher: demo\n---\n").unwrap();
}

fn gives_a_task(name: &'static str, title: &str) {
    let manager = ClientWorld::new(name, title);
    let ClientWorld { sandbox, agent, .. } = &manager;
    define_scout(sandbox);
    if name == "claude" {
        // For the others, the packages' versions are their own.
        let version = shell(sandbox, agent, "claude --version").run();
        assert!(document().contains(version.text().split(' ').next().unwrap()), "{version}");
    }
    let script = format!("!env {}\nfound it", HANDED_ON.0);
    let task = json!({"agent": "scout", "description": "Look around", "prompt": script});
    let prompt = format!("MCP: subagent/task {task}");
    let results = manager.run(&prompt);
    let [result] = &results[..] else { panic!("there must be one call and one result: {results:?}") };
    assert!(result.contains("<task_result agent=\"scout\" name=\"Look around\" id=\"w_"), "{result}");
    assert!(result.contains(&format!(">{}found it</task_result>", HANDED_ON.1)), "{result}");
    // Some end their servers with all descendants; background processes must survive that.
    assert!(sandbox.find_daemon().is_some_and(|daemon| daemon.lives()), "it must not end with its client");
    let tasks = sandbox.run(&["task", "list"]).data_of("task.listed");
    assert_eq!((&tasks["count"], &tasks["items"][0]["status"]), (&json!(1), &json!("completed")), "{tasks}");
    manager.sandbox.finish();
}

#[test]
fn claude_code_gives_a_task_and_manages_a_worker_through_its_server() {
    tried("claude", "Claude Code");
}

#[test]
fn codex_gives_a_task_and_manages_a_worker_through_its_server() {
    tried("codex", "Codex");
}

#[test]
fn gemini_cli_gives_a_task_and_manages_a_worker_through_its_server() {
    tried("gemini", "Gemini CLI");
}

#[test]
fn opencode_gives_a_task_and_manages_a_worker_through_its_server() {
    tried("opencode", "OpenCode");
}
