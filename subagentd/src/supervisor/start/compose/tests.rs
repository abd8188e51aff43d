//! Tasks of a stored worker and of a manager, composed from files.

use std::fs;

use serde_json::{Value, json};
use subagent_config::{Environment, discovery};
use subagent_protocol::api::{StartWorker, TASK_SERVER, TaskMode, TaskOverrides};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::options::OptionValue;
use subagent_protocol::sandbox::{FileSystem, Layers, Network, Sandbox, SandboxSpec};
use tempfile::TempDir;

use super::*;
use crate::supervisor::Supervisor;
use crate::supervisor::start::delegation as issued;
use crate::supervisor::start::start_worker;
use crate::supervisor::testing::{caller, choice, folder, init, own_process, setup};

const CONFIG: &str = "\
launchers:
  one:
    command: /bin/true
    env: {KEY: of-one}
    mcpServers: {shared: {command: shared-mcp}}
  two:
    command: /bin/true
    args: [--acp]
    mode: plan
    tiers: {strong: large}
    mcpServers: {extra: {command: extra-mcp, env: {HAS: '${HOME}'}}}
permissions: {read: allow}
delegation: {maxTasks: 9}
";
const REVIEWER: &str = "\
---
description: Reviews
launcher: two
model: strong
mcpServers: [extra, {inline: {command: inline-mcp}}]
maxSteps: 3
background: true
preApproved: read
permission: {edit: ask, task: {explore: allow}}
---
Review it.
";

struct ComposeFixture {
    dir: TempDir,
    supervisor: Supervisor,
}

impl ComposeFixture {
    async fn new() -> Self {
        let dir = folder();
        let agents = dir.path().join(".agents/agents");
        fs::create_dir_all(&agents).unwrap();
        fs::create_dir(dir.path().join(".subagent")).unwrap();
        fs::write(dir.path().join(".subagent/config.yaml"), CONFIG).unwrap();
        fs::write(agents.join("reviewer.md"), REVIEWER).unwrap();
        fs::write(agents.join("boss.md"), "---\ndescription: d\nmode: primary\n---\n").unwrap();
        fs::write(agents.join("broken.md"), "---\ndescription: d\ndisallowed_tools: Bash\n---\n").unwrap();
        fs::write(agents.join("eager.md"), "---\ndescription: d\npermissionMode: yolo\n---\n").unwrap();
        let own = "---\ndescription: d\nmcpServers: {subagent: {command: deploy-mcp}}\n---\n";
        fs::write(agents.join("server.md"), own).unwrap();
        let supervisor = Supervisor::open(setup(dir.path())).await.unwrap();
        init(&supervisor, dir.path(), own_process(), None).await.unwrap();
        Self { dir, supervisor }
    }

    fn env(&self) -> Environment {
        let vars = [("HOME".into(), self.dir.path().into()), ("SHELL_HAS".into(), "it".into())];
        Environment::new(vars, self.dir.path())
    }

    /// Starts a worker that may delegate, with these denied tools, in debug mode.
    async fn parent(&self, deny: &[&str], change: impl FnOnce(&mut StartWorker)) -> Parent {
        let env = self.env();
        let loaded = discovery::load(None, None, &env).unwrap();
        let wanted = start::StartChoices {
            launcher: Some("one".to_owned()),
            label: "Release".to_owned(),
            debug_mode: true,
            detached: false,
            rules: rules::Flags {
                deny: deny.iter().map(|&rule| rule.to_owned()).collect(),
                ..Default::default()
            },
            ..start::StartChoices::default()
        };
        let place = StartContext {
            loaded: &loaded,
            workspace: self.dir.path(),
            cwd: self.dir.path().to_owned(),
            env: &env,
            choice: choice(self.dir.path()),
            umask: 0o27,
            nofile: Some(99),
        };
        let mut request = Composition::of(wanted, place).unwrap().request().unwrap();
        change(&mut request);
        let started = start_worker(&self.supervisor, caller(None), request).await.unwrap();
        assert!(started.delegates);
        let row = self.supervisor.row(started.worker_id.as_str()).await.unwrap();
        crate::supervisor::start::compose::parent::parent(&self.supervisor, row, TaskPurpose::Tasks)
            .await
            .unwrap()
    }

    fn place(&self) -> TaskPlace {
        let variable = |(name, value): (&str, &str)| (Bytes64(name.into()), Bytes64(value.into()));
        TaskPlace {
            sandbox: None,
            placement: None,
            choice: choice(self.dir.path()),
            workspace: self.dir.path().to_owned(),
            cwd: self.dir.path().to_owned(),
            config: None,
            user_config: None,
            launcher: Some("one".to_owned()),
            agents: None,
            env: [("HOME", self.dir.path().to_str().unwrap()), ("SUBAGENT_CTL_TOKEN", "t")]
                .map(variable)
                .to_vec(),
            umask: 0o22,
            nofile: None,
        }
    }
}

fn task(agent: Option<&str>) -> RunTask {
    serde_json::from_value(json!({"agent": agent, "prompt": "p", "name": "Look"})).unwrap()
}

fn variable(request: &StartWorker, name: &str) -> Option<String> {
    let found = request.env.iter().find(|(known, _)| known.0 == name.as_bytes())?;
    Some(String::from_utf8(found.1.0.clone()).unwrap())
}

fn rules_of(policy: &PolicySpec) -> Vec<Vec<String>> {
    let text = |rule: &PolicyRule| format!("{} {}", rule.rule, rule.action);
    policy.layers.iter().map(|layer| layer.rules.iter().map(text).collect()).collect()
}

#[tokio::test]
async fn m3_a_task_has_what_its_definition_says_and_of_its_parent_the_rest() {
    let world = ComposeFixture::new().await;
    let parent = world.parent(&["edit(secret/**)"], |_| ()).await;
    let composed = for_parent(&parent, &task(Some("Reviewer"))).unwrap();
    let worker = &composed.request;
    assert_eq!((composed.agent.as_deref(), composed.limits.max_tasks), (Some("reviewer"), 9));
    assert_eq!(
        (worker.launcher.name.as_str(), &worker.launcher.args[..]),
        ("two", &["--acp".to_owned()][..])
    );
    assert_eq!((worker.umask, worker.nofile, worker.label.as_str()), (0o27, Some(99), "Look"));
    assert_eq!((variable(worker, "KEY"), variable(worker, "SHELL_HAS").as_deref()), (None, Some("it")));
    assert_eq!(worker.mcp_servers.names(), ["shared", "extra", "inline"]);
    assert_eq!(worker.mcp_servers.0[1]["env"][0]["value"], world.dir.path().to_str().unwrap());
    assert_eq!(worker.options.mode.as_deref(), Some("plan"), "the config's, in which more is asked");
    let agent = worker.agent.as_ref().unwrap();
    assert_eq!((agent.model.as_deref(), agent.prompt.as_str()), (Some("large"), "Review it."));
    assert_eq!(agent.not_honoured, [], "all of it is carried out for a task");
    let policy = worker.policy.as_ref().unwrap();
    assert_eq!(rules_of(policy), [vec!["task deny", "edit ask", "task(explore) allow"], vec!["read allow"]]);
    let [above] = &policy.ancestors[..] else { panic!("{policy:?}") };
    assert_eq!((above.name.as_str(), &above.worker_id), ("Release", &parent.row.worker_id));
    assert!(above.layers.iter().flat_map(|layer| &layer.rules).any(|rule| rule.rule == "edit(secret/**)"));
    assert_eq!(policy.pre_approved.as_ref().map(Vec::len), Some(1));
    assert_eq!((composed.terms.max_steps, composed.mode), (3, TaskMode::Background));
    let delegation = worker.delegation.as_ref().unwrap();
    assert_eq!((&delegation.token_hash, delegation.limits), (&None, parent.delegation.limits));
    crate::supervisor::start::check(worker).unwrap();

    let general = for_parent(&parent, &task(Some("general"))).unwrap().request;
    assert_eq!((general.launcher.name.as_str(), &general.delegation), ("one", &None));
    assert_eq!(variable(&general, "KEY").as_deref(), Some("of-one"));
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn a_task_without_a_definition_is_as_its_parent_but_for_what_the_call_says() {
    let world = ComposeFixture::new().await;
    let change = |request: &mut StartWorker| {
        request.options.model = Some("small".to_owned());
        request.options.mode = Some("bold".to_owned());
        request.options.config_options.insert("effort".to_owned(), OptionValue::Text("high".to_owned()));
    };
    let parent = world.parent(&[], change).await;
    let plain = for_parent(&parent, &task(None)).unwrap();
    assert_eq!((plain.agent, &plain.request.agent), (None, &None));
    assert_eq!(plain.request.options, parent.spec.options);
    assert_eq!(rules_of(plain.request.policy.as_ref().unwrap()), [["task deny"]], "M4");
    assert_eq!(plain.request.delegation, None);
    assert_eq!(plain.request.mcp_servers, parent.kept.mcp_servers, "without the task server");
    let overrides = TaskOverrides {
        system_prompt: Some("Be brief.".to_owned()),
        model: Some("large".to_owned()),
        disallowed_tools: vec!["fetch".to_owned()],
        ..TaskOverrides::default()
    };
    let said = for_parent(&parent, &RunTask { overrides, ..task(None) }).unwrap().request;
    let agent = said.agent.unwrap();
    assert_eq!((agent.level.as_str(), agent.prompt.as_str()), ("caller", "Be brief."));
    assert_eq!((agent.model.as_deref(), said.options.model), (Some("large"), None));
    assert_eq!(said.options.mode.as_deref(), Some("bold"));
    assert_eq!(rules_of(&said.policy.unwrap()), [["task deny", "fetch deny"]]);
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn m3_a_call_and_a_manager_name_what_a_task_may_reach() {
    let world = ComposeFixture::new().await;
    let parent = world.parent(&[], |_| ()).await;
    let read_only = TaskOverrides { filesystem: Some(FileSystem::SharedRo), ..TaskOverrides::default() };
    assert_eq!(for_parent(&parent, &task(None)).unwrap().request.sandbox, None);
    let asked = RunTask { overrides: read_only.clone(), ..task(None) };
    let sandbox = for_parent(&parent, &asked).unwrap().request.sandbox.unwrap();
    assert_eq!((sandbox.filesystem, sandbox.write.len()), (FileSystem::SharedRo, 0));
    let place = TaskPlace { sandbox: Some("shared_rw".to_owned()), ..world.place() };
    let sandbox = for_manager(&place, &task(Some("general"))).unwrap().request.sandbox.unwrap();
    assert_eq!(sandbox.write, [world.dir.path().canonicalize().unwrap()]);
    let sandbox = for_manager(&place, &asked).unwrap().request.sandbox.unwrap();
    assert_eq!((sandbox.filesystem, sandbox.write.len()), (FileSystem::SharedRo, 0), "it takes away");
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn a_task_has_the_memory_of_its_definition_and_never_that_of_its_parent() {
    let world = ComposeFixture::new().await;
    let base = world.dir.path().canonicalize().unwrap();
    let text = "---\ndescription: d\nmemory: project\nfilesystem: shared_ro\n---\nTest.\n";
    fs::write(base.join(".agents/agents/noter.md"), text).unwrap();
    let own = base.join(".agents/agent-memory/noter");
    let mut parent = world.parent(&[], |_| ()).await;
    let above = base.join(".agents/agent-memory/boss");
    parent.spec.policy.as_mut().unwrap().memory = Some(above.clone());
    let composed = [
        for_parent(&parent, &task(Some("noter"))).unwrap(),
        for_manager(&world.place(), &task(Some("noter"))).unwrap(),
    ];
    for request in composed.map(|composed| composed.request) {
        assert_eq!(request.policy.as_ref().unwrap().memory.as_ref(), Some(&own));
        assert_eq!(request.sandbox.as_ref().unwrap().write, std::slice::from_ref(&own));
        assert!(own.is_dir() && request.agent.as_ref().unwrap().prompt.contains("There are no notes yet."));
        crate::supervisor::start::check(&request).unwrap();
    }
    fs::write(own.join("MEMORY.md"), "Use make.\n").unwrap();
    let prompt = for_parent(&parent, &task(Some("noter"))).unwrap().request.agent.unwrap().prompt;
    assert!(prompt.starts_with("Test.\n\n<agent_memory>") && prompt.contains("\n| Use make.\n"), "{prompt}");
    let plain = for_parent(&parent, &task(Some("general"))).unwrap().request;
    assert_eq!((plain.policy.unwrap().memory, plain.sandbox), (None, None));
    let kept = SandboxSpec {
        name: None,
        filesystem: FileSystem::SharedRo,
        write: vec![above, base.join("target")],
        read: None,
        hide: Vec::new(),
        network: Network::All,
        hosts: Vec::new(),
    };
    parent.spec.sandbox = Some(Sandbox { spec: kept, layers: Layers::default() });
    let confined = for_parent(&parent, &task(Some("general"))).unwrap().request.sandbox.unwrap();
    assert_eq!(confined.write, [base.join("target")]);
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn m6_whom_a_task_cannot_be_given_to_is_said() {
    let world = ComposeFixture::new().await;
    let parent = world.parent(&["task(plan)", "task(reviewer)", "task(e*)", "task(server)"], |_| ()).await;
    let names = |parent: &Parent| -> Vec<String> {
        callable(parent).unwrap().into_iter().map(|agent| agent.name).collect()
    };
    assert_eq!(names(&parent), ["general", "summary", "title", "worker"], "all that are not denied");
    let parent = world.parent(&[], |request| {
        let policy = request.policy.as_mut().unwrap();
        let rule = |rule: &str, action: &str| PolicyRule {
            rule: rule.to_owned(),
            action: action.to_owned(),
            line: None,
            column: None,
        };
        let layer = policy.layers.last_mut().unwrap();
        layer.rules = vec![rule("task", "allow"), rule("task(plan)", "deny"), rule("task(worker)", "ask")];
    });
    let parent = parent.await;
    let names = names(&parent);
    assert_eq!(names, ["eager", "explore", "general", "reviewer", "server", "summary", "title", "worker"]);
    let fails = |agent: &str, code: Code| {
        let error = for_parent(&parent, &task(Some(agent))).map(|_| ()).unwrap_err();
        assert_eq!((error.code, &error.details["agent"]), (code, &json!(agent)), "{error}");
        Value::Object(error.details)
    };
    assert_eq!(fails("absent", Code::AgentNotFound)["available"], json!(names));
    assert_eq!(fails("boss", Code::AgentNotASubagent)["mode"], "primary");
    assert_eq!(fails("plan", Code::TaskNotPermitted)["rule"], "task(plan): deny");
    assert_eq!(fails("broken", Code::AgentNotUsable)["key"], "disallowed_tools");
    assert_eq!(fails("server", Code::AgentNotUsable)["mcpServer"], TASK_SERVER);
    let details = fails("eager", Code::AgentNotUsable);
    assert_eq!((&details["key"], &details["mode"]), (&json!("permissionMode"), &json!("yolo")));
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn m5_files_are_read_anew_for_each_task_and_nothing_of_a_task_follows_them() {
    let world = ComposeFixture::new().await;
    let parent = world.parent(&[], |_| ()).await;
    let before = for_parent(&parent, &task(Some("reviewer"))).unwrap();
    let file = world.dir.path().join(".agents/agents/reviewer.md");
    fs::write(file, "---\ndescription: d\nmaxSteps: 7\n---\nOther.\n").unwrap();
    let after = for_parent(&parent, &task(Some("reviewer"))).unwrap();
    assert_eq!((before.terms.max_steps, after.terms.max_steps), (3, 7));
    assert_eq!(after.request.delegation, None, "it says nothing of tasks any more");
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn m3_a_server_of_a_definition_takes_the_place_of_none_of_the_parents() {
    let world = ComposeFixture::new().await;
    let change = |request: &mut StartWorker| {
        request.mcp_servers.0.push(json!({"name": "inline", "command": "other", "args": [], "env": []}));
    };
    let parent = world.parent(&[], change).await;
    let error = for_parent(&parent, &task(Some("reviewer"))).map(drop).unwrap_err();
    assert_eq!(
        (error.code, &error.details["mcpServer"]),
        (Code::AgentNotUsable, &json!("inline")),
        "{error}"
    );
    // An identical server is allowed.
    let mut same = world.parent(&[], |_| ()).await;
    same.kept.mcp_servers = for_parent(&same, &task(Some("reviewer"))).unwrap().request.mcp_servers;
    let again = for_parent(&same, &task(Some("reviewer"))).unwrap().request.mcp_servers;
    assert_eq!(again.names(), same.kept.mcp_servers.names());
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn m5_a_config_that_was_not_there_at_the_start_counts_for_no_task() {
    let world = ComposeFixture::new().await;
    let mut parent = world.parent(&[], |_| ()).await;
    assert!(for_parent(&parent, &task(Some("reviewer"))).is_ok());
    parent.delegation.config = None;
    let error = for_parent(&parent, &task(Some("reviewer"))).map(drop).unwrap_err();
    assert_eq!(error.code, Code::LauncherNotFound, "a later config does not count: {error}");
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_config_blocks_no_reader() {
    let world = ComposeFixture::new().await;
    let parent = world.parent(&[], |_| ()).await;
    let config = world.dir.path().join(".subagent/config.yaml");
    fs::remove_file(&config).unwrap();
    nix::unistd::mkfifo(&config, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // This open end would block a reader without a limit.
    let _open = fs::OpenOptions::new().read(true).write(true).open(&config).unwrap();
    let found = [
        callable(&parent).map(drop),
        for_parent(&parent, &task(None)).map(drop),
        for_manager(&world.place(), &task(None)).map(drop),
    ];
    for found in found {
        let error = found.unwrap_err();
        assert_eq!(error.code, Code::ConfigParseError);
        assert!(error.message.contains("not a regular file"), "{error}");
    }
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn a_managers_task_is_a_worker_that_he_starts() {
    let world = ComposeFixture::new().await;
    let composed = for_manager(&world.place(), &task(Some("reviewer"))).unwrap();
    let worker = &composed.request;
    assert_eq!((worker.launcher.name.as_str(), composed.limits.max_tasks), ("two", 9));
    assert_eq!(variable(worker, "SUBAGENT_CTL_TOKEN"), None);
    assert_eq!(worker.mcp_servers.names(), ["extra", "inline"]);
    let policy = worker.policy.as_ref().unwrap();
    assert_eq!((policy.ancestors.len(), policy.pre_approved.as_ref().map(Vec::len)), (0, Some(1)));
    assert!(worker.delegation.is_some());
    crate::supervisor::start::check(worker).unwrap();
    let plain = for_manager(&world.place(), &task(None)).unwrap().request;
    assert_eq!((plain.launcher.name.as_str(), plain.agent, plain.delegation), ("one", None, None));
    let mut elsewhere = world.place();
    elsewhere.cwd = "relative".into();
    let error = for_manager(&elsewhere, &task(None)).map(|_| ()).unwrap_err();
    assert_eq!(error.details["field"], "manager");
    world.supervisor.shutdown(false).await.unwrap();
}

#[tokio::test]
async fn a_token_is_kept_with_the_environment_and_its_hash_is_stored() {
    let world = ComposeFixture::new().await;
    let parent = world.parent(&[], |_| ()).await;
    let given = issued::servers(&parent.kept, true, Some(&world.supervisor.shared.setup));
    assert_eq!(given.0.last().unwrap()["args"], json!(["mcp", "--prefix"]));
    let given = issued::servers(&parent.kept, false, Some(&world.supervisor.shared.setup));
    let server = given.0.last().unwrap();
    assert_eq!((&server["name"], &server["args"]), (&json!(TASK_SERVER), &json!(["mcp"])));
    let token = server["env"][0]["value"].as_str().unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(parent.delegation.token_hash, Some(issued::TaskToken::hash(token)));
    assert!(!parent.row.spec.contains(token) && !format!("{:?}", parent.kept.task_token).contains(token));
    let (spec, kept) = issued::again(&parent.spec, Default::default()).unwrap();
    assert_ne!(kept.task_token, parent.kept.task_token);
    assert_ne!(spec.delegation.unwrap().token_hash, parent.delegation.token_hash);
    world.supervisor.shutdown(false).await.unwrap();
}
