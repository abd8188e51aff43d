//! The config file: both syntaxes, every error with its exact details, and `config init`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox};

/// Returns the error of a config file with this content; its details without the path.
#[track_caller]
fn refused(sandbox: &TestSandbox, content: impl AsRef<[u8]>) -> Value {
    fs::write(sandbox.config_file(), content).unwrap();
    let mut error = sandbox.run(&["role", "list"]).error("CONFIG_PARSE_ERROR");
    assert_eq!(error["retryable"], false);
    let details = error["details"].as_object_mut().unwrap();
    assert_eq!(details.remove("path"), Some(sandbox.config_file().to_str().into()), "{error}");
    error["details"].take()
}

#[test]
fn a_wrong_container_or_type_is_named_by_its_field() {
    let sandbox = TestSandbox::new();
    let launcher = |rest: Value| {
        let mut launcher = json!({"command": "x"});
        launcher.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"launchers": {"N": launcher}})
    };
    for (document, details) in [
        (json!([1]), json!({"field": "root"})),
        (json!("text"), json!({"field": "root"})),
        (json!({"launchers": [1]}), json!({"field": "launchers"})),
        (json!({"launchers": {"N": "x"}}), json!({"field": "launchers.N"})),
        (json!({"launchers": {"N": null}}), json!({"field": "launchers.N"})),
        (launcher(json!({"backend": null})), json!({"field": "launchers.N.backend"})),
        (json!({"roleHints": {"N": null}}), json!({"field": "roleHints.N"})),
        (json!({"roleDefaults": {"promptLanguage": null}}), json!({"field": "roleDefaults.promptLanguage"})),
        (json!({"launchers": []}), json!({"field": "launchers"})),
        (json!({"launchers": false}), json!({"field": "launchers"})),
        (json!({"roleHints": 0}), json!({"field": "roleHints"})),
        (json!({"roleDefaults": ""}), json!({"field": "roleDefaults"})),
        (launcher(json!({"backend": "acp"})), json!({"field": "launchers.N.backend"})),
        (launcher(json!({"args": "x"})), json!({"field": "launchers.N.args"})),
        (launcher(json!({"args": ["x", 7]})), json!({"field": "launchers.N.args", "index": 1})),
        (launcher(json!({"env": ["x"]})), json!({"field": "launchers.N.env"})),
        (launcher(json!({"env": {"K": 7}})), json!({"field": "launchers.N.env", "key": "K"})),
        (json!({"launchers": {"N": {}}}), json!({"launcher": "N"})),
        (json!({"launchers": {"N": {"command": " "}}}), json!({"launcher": "N"})),
        (json!({"launchers": {"N": {"command": ["x"]}}}), json!({"launcher": "N"})),
        (json!({"roleDefaults": [1]}), json!({"field": "roleDefaults"})),
        (json!({"roleDefaults": {"promptLanguage": 1}}), json!({"field": "roleDefaults.promptLanguage"})),
        (
            json!({"roleDefaults": {"responseLanguage": []}}),
            json!({"field": "roleDefaults.responseLanguage"}),
        ),
        (json!({"roleHints": [1]}), json!({"field": "roleHints"})),
        (json!({"roleHints": {"N": "x"}}), json!({"field": "roleHints.N"})),
        (json!({"roleHints": {"N": {"preferredLauncher": 1}}}), json!({"roleHint": "N"})),
        (json!({"roleHints": {"N": {"promptLanguage": 1}}}), json!({"roleHint": "N"})),
        (json!({"roleHints": {"N": {"responseLanguage": 1}}}), json!({"roleHint": "N"})),
        (json!({"roleHints": {"N": {"delegationHint": {}}}}), json!({"roleHint": "N"})),
        (
            json!({"roleHints": {"N": {"recommendedSkills": "x"}}}),
            json!({"field": "roleHints.N.recommendedSkills"}),
        ),
        (
            json!({"roleHints": {"N": {"recommendedSkills": ["a", " "]}}}),
            json!({"roleHint": "N", "index": 1}),
        ),
        (json!({"roleHints": {"N": {"recommendedSkills": [1]}}}), json!({"roleHint": "N", "index": 0})),
        (json!({"defaults": "x"}), json!({"field": "defaults"})),
        (json!({"defaults": {"launcher": 1}}), json!({"field": "defaults.launcher"})),
        (json!({"defaults": {"role": []}}), json!({"field": "defaults.role"})),
    ] {
        assert_eq!(refused(&sandbox, document.to_string()), details, "{document}");
    }
    sandbox.finish();
}

#[test]
fn wrong_syntax_is_located() {
    let sandbox = TestSandbox::new();
    for (content, line) in [
        (&b"launchers: [\n"[..], None),
        (b"{\"launchers\": ]", Some(1)),
        (b"launchers:\n\tcodex:\n", Some(2)),
        (b"defaults: {}\ndefaults: {}\n", Some(2)),
        (b"{\"defaults\": {},\n\"defaults\": {}}", Some(2)),
        (b"launchers:\n  a: {command: x, command: y}\n", Some(2)),
        (b"a: 1\n---\nb: 2\n", None),
        (b"a: \xff\n", Some(1)),
        (b"\xff\xfea\x00", Some(1)),
        (b"a: .nan\n", None),
    ] {
        let mut details = refused(&sandbox, content);
        let shown = String::from_utf8_lossy(content).into_owned();
        assert!(details["error"].as_str().is_some_and(|error| !error.is_empty()), "{shown}: {details}");
        if let Some(line) = line {
            assert_eq!(details["line"], line, "{shown}: {details}");
        }
        let keys: Vec<String> = details.as_object_mut().unwrap().keys().cloned().collect();
        assert!(
            keys.iter().all(|key| ["error", "line", "column"].contains(&key.as_str())),
            "{shown}: {keys:?}"
        );
    }
    sandbox.finish();
}

#[test]
fn depth_and_size_have_an_end() {
    let sandbox = TestSandbox::new();
    for content in
        ["[".repeat(200_000), "{\"a\":".repeat(200_000), "- ".repeat(200_000), " ".repeat(2_000_000)]
    {
        assert!(refused(&sandbox, content)["error"].is_string());
    }
    sandbox.finish();
}

#[test]
fn json_and_yaml_mean_the_same() {
    let sandbox = TestSandbox::new();
    for content in [
        r#"{"launchers": {"a": {"command": "x", "args": ["-y", "z"]}}, "unknown": [1], "defaults": {"more": {}}}"#,
        "{\n\t\"launchers\": {\"a\": {\"command\": \"x\", \"args\": [\"-y\", \"z\"]}}\n}",
        "launchers: {a: {command: x, args: [-y, z]}}",
        "\u{feff}# a comment\r\nlaunchers:\r\n  a:\r\n    command: 'x'\r\n    args:\r\n      - \"-y\"\r\n      - z # end\r\n",
        "launchers:\n   a:\n      command: >-\n        x\n      args: [\"-y\", z]\nother: ~\n",
    ] {
        fs::write(sandbox.config_file(), content).unwrap();
        let data = sandbox.run(&["launcher", "show", "a"]).data_of("launcher.shown");
        assert_eq!((&data["command"], &data["args"]), (&json!("x"), &json!(["-y", "z"])), "{content}");
    }
    for content in ["", "null", "~", "{}", "# nothing\n", "launchers:\nroleHints:\ndefaults:\n"] {
        fs::write(sandbox.config_file(), content).unwrap();
        let data = sandbox.run(&["launcher", "list"]).data_of("launcher.listed");
        assert_eq!((&data["items"], &data["configLoaded"]), (&json!([]), &json!(true)), "{content}");
    }
    sandbox.finish();
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.file("folder")).unwrap();
    // Opening succeeds and reading fails, also for root.
    for path in [sandbox.file_name("folder"), "/proc/self/mem".to_owned()] {
        for command in [&["launcher", "list"][..], &["role", "list"], &["prompt", "render"]] {
            let error = sandbox.subagent(command).args(["--config", &path]).run().error("CONFIG_PARSE_ERROR");
            let details = error["details"].as_object().unwrap();
            assert_eq!(details.keys().collect::<Vec<_>>(), ["error", "path"], "{error}");
        }
    }
    fs::remove_file(sandbox.config_file()).unwrap();
    fs::create_dir(sandbox.config_file()).unwrap();
    let error = sandbox.run(&["launcher", "list"]).error("CONFIG_PARSE_ERROR");
    assert_eq!(error["details"]["path"], sandbox.config_file().to_str().unwrap());
    sandbox.finish();
}

#[test]
fn config_init_writes_the_users_file_once() {
    let sandbox = TestSandbox::new();
    let path = sandbox.file_name("home/.config/subagent/config.yaml");
    let init = |args: &[&str]| sandbox.subagent(&["config", "init"]).args(args).run();
    let data = init(&[]).data_of("config.initialized");
    assert_eq!(data, json!({"path": path, "scope": "user", "overwritten": false}));
    let error = init(&["--scope", "USER "]).error("CONFIG_ALREADY_EXISTS");
    assert_eq!(error["details"], json!({"path": path}));
    let data = init(&["--force"]).data_of("config.initialized");
    assert_eq!(data, json!({"path": path, "scope": "user", "overwritten": true}));
    let text = sandbox.command("subagent").args(["config", "init", "--force"]).run();
    assert_eq!(text.text(), format!("configPath: {path}\nscope: user\n"));
    let template = fs::read_to_string(&path).unwrap();
    for part in [
        "launchers:",
        "roleDefaults:",
        "roleHints:",
        "defaults:",
        "command: npx",
        "@zed-industries/codex-acp",
        "@zed-industries/claude-agent-acp",
        "@google/gemini-cli",
        "@github/copilot-language-server",
        "@kirodotdev/cli",
        "--experimental-acp",
        "command: opencode",
        "- acp",
        "- \"cline\"",
        "- \"--acp\"",
    ] {
        assert!(template.contains(part), "{part}");
    }
    let launchers = sandbox.command("subagent").args(["launcher", "list", "--config", &path]).run();
    let names = ["claude-code", "cline", "codex", "gemini", "github-copilot", "kiro", "opencode"];
    assert_eq!(launchers.text().lines().collect::<Vec<_>>(), names);
    let roles = sandbox.command("subagent").args(["role", "list", "--config", &path]).run();
    assert_eq!(roles.text(), "data_scientist\ndeveloper\nresearch_analyst\nreviewer\nux_designer\n");
    sandbox.finish();
}

#[test]
fn of_fifty_that_are_run_at_once_one_writes_it_and_every_forced_one_does() {
    let sandbox = TestSandbox::new();
    let path = sandbox.file_name("ws/at-once.yaml");
    let at_once = |flags: &[&str]| -> Vec<Output> {
        let init = || sandbox.subagent(&["config", "init", "--path", &path]).args(flags);
        // All of them share two cores.
        let running: Vec<_> = (0..50).map(|_| init().deadline(Duration::from_secs(180)).spawn()).collect();
        running.into_iter().map(subagent_tests::harness::Running::output).collect()
    };
    let (won, lost): (Vec<_>, Vec<_>) = at_once(&[]).into_iter().partition(|output| output.status.success());
    assert_eq!(won.len(), 1);
    for output in lost {
        assert_eq!(output.error("CONFIG_ALREADY_EXISTS")["details"], json!({"path": path}));
    }
    let whole = fs::read(&path).unwrap();
    for output in at_once(&["--force"]) {
        assert_eq!(output.data_of("config.initialized")["overwritten"], true);
    }
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(sandbox.run(&["launcher", "list", "--config", &path]).data()["count"], 7);
    let left = fs::read_dir(sandbox.workspace()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        !left.into_iter().any(|name| name.to_string_lossy().contains("-new-")),
        "no other file may be left"
    );
    sandbox.finish();
}

#[test]
fn a_link_is_followed_also_to_where_nothing_is() {
    let sandbox = TestSandbox::new();
    let (link, end) = (sandbox.file_name("ws/link.yaml"), sandbox.file_name("dots/c.yaml"));
    std::os::unix::fs::symlink("../dots/c.yaml", &link).unwrap();
    let init = ["config", "init", "--path", &link, "--force"];
    let data = sandbox.run(&init[..4]).error("CONFIG_ALREADY_EXISTS")["details"].take();
    assert_eq!(data, json!({"path": link}));
    for overwritten in [false, true] {
        let data = sandbox.run(&init).data_of("config.initialized");
        assert_eq!(data, json!({"path": end, "scope": "user", "overwritten": overwritten}));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && sandbox.file("dots/c.yaml").is_file());
    }
    sandbox.finish();
}

#[test]
fn config_init_finds_its_target() {
    let sandbox = TestSandbox::new();
    let init = |args: &[&str]| {
        let command = sandbox.subagent(&["config", "init"]).args(args).env("SUBAGENT_CONFIG", "~/mine.yaml");
        command.run().data_of("config.initialized")
    };
    fs::create_dir(sandbox.file("other")).unwrap();
    let other = sandbox.file_name("other");
    for (args, path, scope) in [
        (&[][..], "home/mine.yaml", "user"),
        (&["--scope", " Project", "--cwd", &other], "other/.subagent/config.yaml", "project"),
        (&["--path", "new/deep/file.yaml", "--scope", "project"], "ws/new/deep/file.yaml", "project"),
        (&["--path", "~/x.yaml"], "home/x.yaml", "user"),
    ] {
        let expected = json!({"path": sandbox.file_name(path), "scope": scope, "overwritten": false});
        assert_eq!(init(args), expected);
        assert!(sandbox.file(path).is_file());
    }
    // The workspace has one already.
    let error = sandbox.run(&["config", "init", "--scope", "project"]).error("CONFIG_ALREADY_EXISTS");
    assert_eq!(error["details"]["path"], sandbox.config_file().to_str().unwrap());
    let error = sandbox.run(&["config", "init", "--scope", "world"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"], json!({"scope": "world"}));
    sandbox.finish();
}

#[test]
fn a_target_that_cannot_be_written_is_an_error() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.file("file"), "").unwrap();
    fs::create_dir(sandbox.file("folder")).unwrap();
    fs::create_dir(sandbox.file("closed")).unwrap();
    fs::set_permissions(sandbox.file("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    let mut paths = vec![sandbox.file_name("file/config.yaml"), "/proc/self/config.yaml".to_owned()];
    if !nix::unistd::geteuid().is_root() {
        paths.push(sandbox.file_name("closed/config.yaml"));
    }
    for path in paths {
        let error = sandbox.run(&["config", "init", "--path", &path]).error("CONFIG_UNWRITABLE");
        assert!(error["details"]["error"].is_string(), "{error}");
    }
    let path = sandbox.file_name("folder");
    let error = sandbox.run(&["config", "init", "--path", &path, "--force"]).error("CONFIG_UNWRITABLE");
    assert_eq!(error["details"]["path"], path);
    assert!(sandbox.file("folder").is_dir());
    sandbox.finish();
}
