//! Valid and hostile definition files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::*;
use crate::environment::Environment;
use crate::memory::Scope;
use crate::policy::{Position, RuleAction};

fn reading(bytes: impl AsRef<[u8]>) -> Result<Reading, DefinitionProblem> {
    read(bytes.as_ref(), "stem", DefinitionSource::Project(PathBuf::from("/w/stem.md")))
}

#[track_caller]
fn definition(bytes: impl AsRef<[u8]>) -> Definition {
    match reading(bytes) {
        Ok(Reading::Definition(definition)) => *definition,
        other => panic!("no definition: {other:?}"),
    }
}

#[track_caller]
fn problem(bytes: impl AsRef<[u8]>) -> (Option<(u64, u64)>, String) {
    let problem = reading(bytes).expect_err("cannot be read");
    (problem.at.map(|Position { line, column }| (line, column)), problem.message)
}

fn rules(definition: &Definition) -> Vec<String> {
    definition.rules.iter().map(|rule| format!("{}: {}", rule.text(), rule.action)).collect()
}

fn tools(definition: &Definition) -> Vec<String> {
    definition.tools.iter().map(Rule::text).collect()
}

fn keys(problems: &[DefinitionProblem]) -> Vec<&str> {
    problems.iter().filter_map(|problem| problem.key.as_deref()).collect()
}

#[test]
fn a_definition_has_all_its_keys() {
    let ours = definition(include_str!("cases/ours.md"));
    assert_eq!((ours.name.as_str(), ours.launcher.as_deref()), ("reviewer", Some("codex")));
    assert_eq!((ours.mode, ours.model.as_deref()), (AgentMode::All, Some("strong")));
    assert_eq!(
        rules(&ours),
        [
            "task: deny",
            "*: ask",
            "read: allow",
            "execute: ask",
            "execute(cargo test*): allow",
            "execute(git push*): deny",
            "task: deny",
            "task(explore): allow",
            "WebFetch: deny",
        ]
    );
    let at = ours.rules[4].at.unwrap();
    assert_eq!((at.line, at.column), (10, 23), "rules know where they stand");
    assert_eq!((ours.max_steps, ours.timeout_seconds), (Some(30), Some(0.0)));
    assert_eq!((ours.caller_is_agent, ours.result_max_tokens), (true, Some(100)));
    assert!(
        matches!(&ours.mcp_servers[..], [McpServerRef::Named(docs), McpServerRef::Inline(issues, _)] if docs == "docs" && issues == "issues")
    );
    assert_eq!(ours.prompt, "Review.");
    assert!(ours.refusals.is_empty() && ours.notes.is_empty(), "{ours:?}");
}

#[test]
fn what_cannot_be_known_of_a_server_is_said() {
    for servers in ["[docs, {x: {command: y, required: true}}]", "{docs: , x: {command: y, required: true}}"]
    {
        let found = definition(format!("---\ndescription: d\nmcpServers: {servers}\n---\nP\n"));
        assert_eq!(
            (&found.required_servers[..], keys(&found.notes)),
            (&["x".to_owned()][..], vec!["mcpServers"])
        );
    }
    let found = definition("---\ndescription: d\nmcpServers: [{x: {command: y, required: false}}]\n---\nP\n");
    assert!(found.required_servers.is_empty() && found.notes.is_empty(), "{found:?}");
}

#[test]
fn files_of_claude_code_load() {
    let claude = definition(include_str!("cases/claude.md"));
    assert_eq!(claude.name, "test-runner");
    assert!(claude.description.contains("Context: the user"), "a colon in a text is no YAML and is taken");
    assert_eq!(
        tools(&claude),
        ["Read", "Grep", "Bash(cargo test *)", "mcp__github__get_issue", "mcp__wiki__*"]
    );
    assert_eq!(rules(&claude), ["task: deny"], "listing allows nothing");
    assert_eq!((claude.model.as_deref(), claude.max_steps), (Some("sonnet"), Some(7)));
    assert_eq!(claude.permission_mode.as_deref(), Some("acceptEdits"));
    assert_eq!(claude.skills, ["rust", "testing"]);
    assert_eq!(keys(&claude.notes), ["color"]);
    assert_eq!(claude.notes[1].at, Some(Position { line: 3, column: 1 }));
    assert_eq!(claude.unknown["color"], "green");
}

#[test]
fn files_of_opencode_load() {
    let opencode = definition(include_str!("cases/opencode.md"));
    assert_eq!((opencode.name.as_str(), opencode.mode), ("stem", AgentMode::Subagent));
    assert!(opencode.tools.is_empty(), "true says nothing");
    assert_eq!(
        rules(&opencode),
        [
            "task: deny",
            "edit: deny",
            "bash: ask",
            "bash(git diff): allow",
            "bash(git log*): allow",
            "webfetch: deny",
            "write: deny",
            "edit: deny",
        ]
    );
    assert_eq!((&opencode.unknown["temperature"], opencode.max_steps), (&serde_json::json!(0.1), Some(9)));
}

#[test]
fn marks_of_windows_and_of_editors_do_no_harm() {
    let unix = definition("---\ndescription: d\ntools: Read\n---\nA\n\nB\n");
    for text in [
        "\u{feff}---\ndescription: d\ntools: Read\n---\nA\n\nB\n",
        "---\r\ndescription: d\r\ntools: Read\r\n---\r\nA\r\n\r\nB\r\n",
        "---  \ndescription: d\ntools: Read\n---\t\nA\n\nB",
        "---\ndescription:\td\ntools:\tRead\n...\nA\n\nB\n",
    ] {
        let other = definition(text);
        assert_eq!((&other.prompt, &other.description), (&unix.prompt, &unix.description), "{text:?}");
        assert_eq!(tools(&other), tools(&unix), "{text:?}");
    }
}

#[test]
fn what_cannot_be_read_is_reported_with_its_line() {
    for (text, at, why) in [
        ("---\ndescription: d\n", Some((1, 1)), "no closing `---`"),
        ("---\ndescription: d\ntools:\n\t- Read\n---\n", Some((4, 1)), ""),
        ("---\ndescription: d\nmode: boss\n---\n", Some((3, 1)), "must be primary, subagent, all"),
        ("---\ndescription: d\n\npermission:\n  read: perhaps\n---\n", Some((5, 3)), "says `perhaps`"),
        (
            "---\ndescription: d\npermission:\n  execute:\n    ls: allow\n    rm: 3\n---\n",
            Some((6, 5)),
            "permission.execute",
        ),
        ("---\ndescription: d\npermission: {Frobnicate: deny}\n---\n", Some((3, 14)), "deny nothing"),
        ("---\ndescription: d\nname: a b\n---\n", Some((3, 1)), "must be 1 to 64 letters"),
        ("---\ndescription: d\ntools: {Read: 1}\n---\n", Some((3, 9)), "true or false"),
        ("---\ndescription: d\ndisallowedTools: {bash: true}\n---\n", Some((3, 1)), "a list of names"),
        ("---\ndescription: d\nskills: {rust: true}\n---\n", Some((3, 1)), "a list of names"),
        ("---\ndescription: d\npreApproved: {bash: true}\n---\n", Some((3, 1)), "a list of names"),
        ("---\ndescription: d\ntools: 'Bash(ls'\n---\n", Some((3, 1)), "no `)`"),
        ("---\ndescription: d\nmaxSteps: 0\n---\n", Some((3, 1)), "a whole number"),
        ("---\ndescription: d\nmcpServers: [{x: {type: pigeon}}]\n---\n", Some((3, 1)), "stdio, http or sse"),
        ("---\n- a\n---\n", None, "must be a mapping"),
        ("---\ndescription: [d]\n---\n", Some((2, 1)), "must be a string"),
        ("---\na: 1\na: 2\n---\n", Some((3, 1)), "duplicate"),
    ] {
        let (found, message) = problem(text);
        assert_eq!(found.map(|(line, _)| line), at.map(|(line, _)| line), "{text:?}: {message}");
        if let (Some((_, column)), Some((_, wanted))) = (found, at) {
            assert!(column == wanted || why.is_empty(), "{text:?}: column {column}: {message}");
        }
        assert!(message.contains(why), "{text:?}: {message}");
    }
    assert_eq!(
        problem(b"---\ndescription: \xff\n---\n"),
        (Some((2, 14)), "is not UTF-8 text; save the file as UTF-8".to_owned())
    );
    assert!(problem("---\ndescription: \0\n---\n").1.contains("NUL"));
    assert!(problem("x".repeat(MAX_BYTES + 1)).1.contains("larger than"));
}

#[test]
fn a_file_without_a_description_is_another_file() {
    for text in ["# Readme\n", "", "---\n---\nx", "---\nname: x\n---\n", "---\ndescription: ''\n---\n"] {
        assert!(matches!(reading(text), Ok(Reading::Other(_))), "{text:?}");
    }
    for key in ["disable", "disabled"] {
        let text = format!("---\ndescription: d\n{key}: true\n---\n");
        assert!(matches!(reading(&text), Ok(Reading::Other(_))), "{key}");
    }
}

#[test]
fn what_this_version_does_not_do_refuses_the_start() {
    for line in [
        "sand_box: {filesystem: shared_ro}",
        "hook: {PreToolUse: []}",
        "disallowedTools: Frobnicate",
        "tools: {mymcp_x: false}",
        "permissions: {edit: deny, execute: deny}",
        "disallowed_tools: Bash",
        "disallowed-tools: Bash",
        "disallowedtools: Bash",
        "Tools: Read",
        "permission_mode: plan",
        "Isolation: worktree",
        "prompt: Review.",
    ] {
        let refused = definition(format!("---\ndescription: d\n{line}\n---\n"));
        assert_eq!(refused.refusals.len(), 1, "{line}");
        let at = refused.refusals[0].at.map(|at| at.line);
        assert_eq!(at, Some(3), "{line}");
    }
    for line in [
        "filesystem: shared_rw",
        "filesystem: shared_ro",
        "filesystem: isolated",
        "hooks: {}",
        "memory:",
        "writeBack: auto",
        "writeBack: none",
        "isolation: none",
        "isolation: worktree",
        "memory: ''",
    ] {
        assert!(definition(format!("---\ndescription: d\n{line}\n---\n")).refusals.is_empty(), "{line}");
    }
}

#[test]
fn a_memory_has_a_scope_and_a_number_of_lines() {
    let memory = |lines: &str| definition(format!("---\ndescription: d\n{lines}\n---\n")).memory;
    let of = |scope, lines| Some(MemorySettings { scope, lines });
    assert_eq!(memory("memory: user"), of(Scope::User, 200));
    assert_eq!(memory("memory: project\nmemoryLines: 5"), of(Scope::Project, 5));
    assert_eq!(memory("memory: local"), of(Scope::Local, 200));
    for none in ["memory:", "memory: ''", "memory: none", "memory: false", "memoryLines: 5"] {
        assert_eq!(memory(none), None, "{none}");
    }
    for (wrong, key) in [
        ("memory: team", "memory"),
        ("memory: true", "memory"),
        ("memory: [user]", "memory"),
        ("memory: user\nmemoryLines: 0", "memoryLines"),
        ("memoryLines: many", "memoryLines"),
        ("memory: user\nmemoryLines: 10001", "memoryLines"),
    ] {
        let problem = reading(format!("---\ndescription: d\n{wrong}\n---\n")).expect_err(wrong);
        assert_eq!(problem.key.as_deref(), Some(key), "{wrong}: {problem}");
    }
}

#[test]
fn the_prompt_of_an_entry_is_a_text_and_nothing_else() {
    let entry = |prompt: serde_json::Value| {
        let entry = serde_json::json!({"description": "d", "prompt": prompt});
        super::read::of_entry("x", &entry, DefinitionSource::Command)
    };
    for prompt in [serde_json::json!(["a", "b"]), serde_json::json!({"a": 1}), serde_json::json!(1)] {
        let problem = entry(prompt).expect_err("no prompt");
        assert_eq!(problem.key.as_deref(), Some("prompt"), "{problem}");
    }
    for (prompt, wanted) in [(serde_json::json!("P"), "P"), (serde_json::Value::Null, "")] {
        match entry(prompt) {
            Ok(Reading::Definition(read)) => {
                assert_eq!((read.prompt.as_str(), read.refusals.len()), (wanted, 0));
            }
            other => panic!("{other:?}"),
        }
    }
    let below = definition("---\ndescription: d\nprompt: x\n---\nReview.\n");
    assert_eq!((below.prompt.as_str(), below.refusals.len()), ("Review.", 0), "what is below counts");
}

struct AgentsFolderFixture {
    dir: tempfile::TempDir,
}

impl AgentsFolderFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        for (path, name) in files {
            world.put(path, format!("---\ndescription: {path}\nname: {name}\n---\np\n"));
        }
        world
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn find(&self, given: &str) -> Catalog {
        let vars = [("HOME".into(), self.dir.path().join("home").into_os_string())];
        let env = Environment::new(vars, self.dir.path());
        let given =
            if given.is_empty() { GivenAgents::default() } else { GivenAgents::parse(given).unwrap() };
        Catalog::find(&given, &self.dir.path().join("ws"), &env)
    }
}

fn described(catalog: &Catalog, name: &str) -> String {
    catalog.named(name).unwrap().definition.description.clone()
}

#[test]
fn the_nearest_definition_of_a_name_counts_and_says_what_it_hides() {
    let world = AgentsFolderFixture::new(&[
        ("ws/.agents/agents/a.md", "x"),
        ("ws/.agents/subagents/b.md", "X"),
        ("ws/.claude/agents/c.md", "only-claude"),
        ("home/.config/subagent/agents/d.md", "x"),
        ("home/.claude/agents/e.md", "y"),
        ("home/.claude/agents/f.md", "explore"),
    ]);
    let catalog = world.find("");
    assert_eq!(catalog.names(), ["explore", "general", "plan", "summary", "title", "worker", "x", "y"]);
    assert_eq!(described(&catalog, "X"), "ws/.agents/agents/a.md", "names have no case");
    assert_eq!(described(&catalog, "explore"), "home/.claude/agents/f.md");
    let x = catalog.named("x").unwrap();
    let levels: Vec<&str> = x.hides.iter().map(|hidden| hidden.source.level()).collect();
    assert_eq!(levels, ["project", "user"]);
    assert!(x.definition.notes[0].message.contains("not used"), "two of one level are reported");
    let given = r#"{"x": {"description": "given", "prompt": "P", "tools": ["Read"]}}"#;
    let catalog = world.find(given);
    let x = catalog.named("x").unwrap();
    assert_eq!((x.definition.description.as_str(), x.definition.prompt.as_str()), ("given", "P"));
    assert_eq!((x.definition.source.level(), x.hides.len()), ("command", 3));
    assert!(GivenAgents::parse("[]").is_err() && GivenAgents::parse(r#"{"a": 1, "a": 2}"#).is_err());
}

#[test]
fn the_folder_of_claude_code_counts_only_without_ours() {
    let world = AgentsFolderFixture::new(&[("ws/.claude/agents/c.md", "c")]);
    assert_eq!(described(&world.find(""), "c"), "ws/.claude/agents/c.md");
    fs::create_dir_all(world.dir.path().join("ws/.agents/subagents")).unwrap();
    assert!(world.find("").named("c").is_err());
}

#[test]
fn a_file_that_cannot_be_read_stands_in_the_way_of_what_it_would_hide() {
    let world = AgentsFolderFixture::new(&[("home/.claude/agents/x.md", "x")]);
    let broken = world.put("ws/.agents/agents/x.md", "---\ndescription: [\n---\n");
    let catalog = world.find("");
    let refused = catalog.named("x").unwrap_err().unwrap();
    assert_eq!(refused.source, DefinitionSource::Project(broken));
    assert!(catalog.named("none").unwrap_err().is_none());
    // A refused file of lower precedence has no effect.
    let world = AgentsFolderFixture::new(&[("ws/.agents/agents/x.md", "x")]);
    world.put("home/.claude/agents/x.md", "---\ndescription: [\n---\n");
    assert!(world.find("").named("x").is_ok());
}

#[test]
fn it_does_so_too_at_the_same_level_and_under_a_name_that_its_file_does_not_have() {
    const BROKEN: &str = "---\ndescription: d\nmaxSteps: 0\n---\n";
    for (broken, hidden) in [
        ("ws/.agents/agents/x.md", "ws/.agents/subagents/x.md"),
        ("ws/.agents/agents/a.md", "ws/.agents/agents/x.md"),
        ("home/.config/subagent/agents/x.md", "home/.claude/agents/x.md"),
    ] {
        let world = AgentsFolderFixture::new(&[(hidden, "x")]);
        let named = BROKEN.replace("maxSteps", "name: X\nmaxSteps");
        let broken = world.put(broken, named);
        let catalog = world.find("");
        let refused = catalog.named("x").unwrap_err().unwrap();
        assert_eq!(refused.source.path(), Some(&broken), "{hidden}");
        assert_eq!(catalog.found.iter().filter(|found| found.behind.is_some()).count(), 1, "{hidden}");
    }
    let world = AgentsFolderFixture::new(&[]);
    world.put("ws/.agents/agents/01.md", "---\ndescription: d\nname: explore\nmaxSteps: 0\n---\n");
    assert!(world.find("").named("explore").unwrap_err().is_some(), "also of those that come along");
    // A file without a readable name has the name of its file.
    for name in ["name: a b\n", "name: [\n", ""] {
        let world = AgentsFolderFixture::new(&[("home/.claude/agents/x.md", "x")]);
        let text = BROKEN.replace("maxSteps", &format!("{name}maxSteps"));
        let _ = world.put("ws/.agents/agents/x.md", text);
        assert!(world.find("").named("x").unwrap_err().is_some(), "{name}");
    }
    // Earlier files of the same level are not affected.
    let world = AgentsFolderFixture::new(&[("ws/.agents/agents/x.md", "x")]);
    let _ = world.put("ws/.agents/subagents/x.md", BROKEN);
    assert!(world.find("").named("x").unwrap().behind.is_none());
}

#[test]
fn the_other_files_of_a_folder_are_read_and_fast() {
    let world = AgentsFolderFixture::new(&[]);
    for number in 0..600 {
        world.put(&format!("ws/.agents/agents/agent-{number:03}.md"), "---\ndescription: d\n---\np\n");
    }
    let folder = world.dir.path().join("ws/.agents/agents");
    symlink("loop.md", folder.join("loop.md")).unwrap();
    symlink("..", folder.join("a-folder.md")).unwrap();
    symlink("agent-001.md", folder.join("a-link.md")).unwrap();
    nix::unistd::mkfifo(&folder.join("a-pipe.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(folder.join("a-large.md"), vec![b'x'; MAX_BYTES + 1]).unwrap();
    fs::write(folder.join("a-picture.md"), b"\x89PNG\xff").unwrap();
    let begun = Instant::now();
    let catalog = world.find("");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let refused: Vec<&str> = catalog.refused.iter().map(|refused| refused.name.as_str()).collect();
    assert_eq!(refused, ["a-folder", "a-large", "a-picture", "a-pipe"]);
    // The link counts as a file with its own name.
    assert_eq!(
        catalog.found.len(),
        folder::MAX_FILES - 4 + 6,
        "{} and those that come along",
        folder::MAX_FILES
    );
    assert!(catalog.others.iter().any(|(_, problem)| problem.message.contains("more than 500")));
}

#[test]
fn a_loop_of_links_is_reported() {
    let world = AgentsFolderFixture::new(&[]);
    let file = world.put("ws/.agents/agents/ok.md", "---\ndescription: d\n---\n");
    symlink("loop.md", file.with_file_name("loop.md")).unwrap();
    let catalog = world.find("");
    assert_eq!(catalog.refused[0].name, "loop");
    assert!(catalog.named("ok").is_ok());
}

#[test]
fn skills_are_read_whole_and_a_missing_one_is_named() {
    let world = AgentsFolderFixture::new(&[]);
    world.put("ws/.agents/skills/rust/SKILL.md", "\u{feff}Use cargo.\n");
    world.put("home/.claude/skills/old/SKILL.md", "Old.");
    world.put("ws/.agents/agents/near/SKILL.md", "Near.");
    let env = Environment::new([("HOME".into(), world.dir.path().join("home").into_os_string())], "/");
    let load = |skills: &str| {
        let mut read = definition(format!("---\ndescription: d\nskills: {skills}\n---\n"));
        read.source = DefinitionSource::Project(world.dir.path().join("ws/.agents/agents/x.md"));
        skills::load(&read, &world.dir.path().join("ws"), &env)
    };
    let texts: Vec<String> =
        load("[rust, old, ./near]").unwrap().into_iter().map(|skill| skill.text).collect();
    assert_eq!(texts, ["Use cargo.", "Old.", "Near."]);
    for missing in ["none", "..", "rust, none"] {
        assert!(load(missing).unwrap_err().contains("there is no skill"), "{missing}");
    }
    world.put("ws/.agents/agents/x.md", "---\ndescription: d\nskills: rust, none\n---\n");
    let mut catalog = world.find("");
    catalog.look_at_files(&world.dir.path().join("ws"), &env);
    let refused = &catalog.named("x").unwrap().definition.refusals;
    assert_eq!((refused.len(), keys(refused)), (1, vec!["skills"]));
    world.put("ws/.agents/agents/x.md", "---\ndescription: d\nmemory: project\n---\n");
    for (link, expected) in [(false, vec![]), (true, vec!["memory"])] {
        if link {
            symlink("/", world.dir.path().join("ws/.agents/agent-memory")).unwrap();
        }
        let mut catalog = world.find("");
        catalog.look_at_files(&world.dir.path().join("ws"), &env);
        assert_eq!(keys(&catalog.named("x").unwrap().definition.refusals), expected);
    }
    fs::write(world.dir.path().join("ws/.agents/skills/rust/SKILL.md"), vec![b'x'; MAX_BYTES + 1]).unwrap();
    assert!(load("rust").unwrap_err().contains("larger"));
}

#[test]
fn files_that_are_named_are_read_alone() {
    let world = AgentsFolderFixture::new(&[("ws/x.md", "x"), ("ws/more/y.md", "y")]);
    let at = |path: &str| world.dir.path().join(path);
    let catalog = Catalog::of_paths(&[at("ws/x.md"), at("ws/more"), at("none.md")]);
    assert_eq!(catalog.names(), ["x", "y"]);
    assert_eq!(catalog.refused.len(), 1);
    assert_eq!(Catalog::of_paths(&[Path::new("/dev/null").to_owned()]).refused.len(), 1);
}

#[test]
fn m4_tasks_are_denied_unless_the_definition_allows_them() {
    use crate::policy::{
        BaseFolders, Layer, LayerKind, Node, Policy, ToolCallDescription, ToolList, real_path,
    };
    let judged = |front: &str, call: serde_json::Value| {
        let definition = definition(format!("---\ndescription: d\n{front}\n---\n"));
        let layer = |kind, rules| Layer { kind, source: None, rules };
        let config = Rule::parse("task", RuleAction::Allow).unwrap();
        let layers =
            vec![layer(LayerKind::Definition, definition.rules), layer(LayerKind::Config, vec![config])];
        let node =
            Node::new("n", layers).with_tools(vec![ToolList { source: None, tools: definition.tools }]);
        Policy { places: BaseFolders::default(), chain: vec![node] }
            .decide(&ToolCallDescription::of(&call), &real_path)
            .action
    };
    let answer = |front: &str, agent: &str| {
        judged(front, serde_json::json!({"name": "Task", "rawInput": {"subagent_type": agent}}))
    };
    for call in [
        serde_json::json!({"kind": "think", "name": "task"}),
        serde_json::json!({"kind": "think", "_meta": {"x": {"toolName": "task"}}}),
        // Some agents omit the name of the tool.
        serde_json::json!({"kind": "other", "title": "task", "rawInput": {"subagent_type": "x"}}),
        serde_json::json!({"title": "t", "rawInput": {"subagent_type": "x"}}),
    ] {
        let all = "permission: {'*': allow}";
        assert_eq!(judged(all, call.clone()), RuleAction::Deny, "{call}");
        assert_eq!(judged("permission: {task: allow}", call.clone()), RuleAction::Allow, "{call}");
    }
    for call in [
        // A specific kind or a tool name decides. The argument `agent` can mean anything.
        serde_json::json!({"kind": "search", "rawInput": {"subagent_type": "x"}}),
        serde_json::json!({"kind": "other", "name": "mcp__a__b", "rawInput": {"subagent_type": "x"}}),
        serde_json::json!({"kind": "other", "rawInput": {"agent": "x"}}),
    ] {
        assert_eq!(judged("permission: {'*': allow}", call.clone()), RuleAction::Allow, "{call}");
    }
    assert_eq!(answer("mode: all", "x"), RuleAction::Deny, "the config alone does not");
    assert_eq!(answer("permission: full", "x"), RuleAction::Deny);
    assert_eq!(answer("permission: {task: {x: allow}}", "x"), RuleAction::Allow);
    assert_eq!(answer("permission: {task: {x: allow}}", "y"), RuleAction::Deny);
    assert_eq!(answer("tools: Task", "x"), RuleAction::Deny, "listing allows nothing");
    assert_eq!(
        answer("tools: Read\npermission: {task: allow}", "x"),
        RuleAction::Deny,
        "and what is not listed is denied"
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_definition_another_file_or_a_problem(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = reading(&bytes);
        let _ = reading([b"---\n", &bytes[..], b"\n---\nx"].concat());
    }

    #[test]
    fn any_damage_of_a_definition_is_read_or_reported(at in 0..700_usize, byte in proptest::num::u8::ANY, cut in 0..800_usize) {
        let mut bytes = include_bytes!("cases/ours.md").to_vec();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(cut);
        if let Err(problem) = reading(&bytes) {
            proptest::prop_assert!(!problem.message.is_empty() && problem.message.len() < 1000);
        }
    }

    #[test]
    fn any_value_of_a_key_is_read_or_reported(key in proptest::sample::select(vec!["name", "tools", "permission", "skills", "mcpServers", "hooks", "maxSteps", "model", "preApproved", "resultSchema", "filesystem", "sandbox"]), value in "(\\PC|[\\[\\]{}:,&*!|>'\"%#\\-\\t ]){0,40}") {
        let _ = reading(format!("---\ndescription: d\n{key}: {value}\n---\n"));
    }
}
