//! Commands without a daemon, and wrong usage, with the built executable: stdout, stderr
//! and the exit code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, including its helpers")]

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use subagent_tests::harness::executables;

/// A private home and working directory.
struct PrivateHomeFixture {
    _dir: tempfile::TempDir,
    home: PathBuf,
    cwd: PathBuf,
}

#[must_use]
struct LocalOutput {
    stdout: String,
    stderr: String,
    code: i32,
}

impl PrivateHomeFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (home, cwd) = (base.join("home"), base.join("work"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&cwd).unwrap();
        Self { _dir: dir, home, cwd }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(executables().path("subagent"));
        command
            .args(args)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin")
            .env("SUBAGENT_NO_AUTOSTART", "1")
            .current_dir(&self.cwd)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> LocalOutput {
        output(self.command(args))
    }

    fn config(&self, text: &str) -> String {
        let path = self.cwd.join("config.yaml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn output(mut command: Command) -> LocalOutput {
    let found = command.output().unwrap();
    LocalOutput {
        stdout: String::from_utf8(found.stdout).unwrap(),
        stderr: String::from_utf8(found.stderr).unwrap(),
        code: found.status.code().unwrap(),
    }
}

impl LocalOutput {
    /// Returns the only document on stdout.
    #[track_caller]
    fn document(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert_eq!(self.stdout.matches('\n').count(), 1, "one line: {}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    #[track_caller]
    fn data(&self, kind: &str) -> Value {
        let mut document = self.document(0);
        assert_eq!((&document["schemaVersion"], &document["ok"]), (&json!("v1"), &json!(true)));
        assert_eq!(document["type"], kind);
        assert_eq!(self.stderr, "");
        document["data"].take()
    }

    #[track_caller]
    fn error(&self, code: &str) -> Value {
        let mut document = self.document(1);
        assert_eq!((&document["ok"], &document["type"]), (&json!(false), &json!("error")));
        assert_eq!(document["error"]["code"], code, "{document}");
        assert_eq!(self.stderr, "");
        document["error"].take()
    }
}

const CONFIG: &str = "\
launchers:
  shell:
    command: sh -c
    args: [\"exit 0\"]
    env: {TOKEN: very-secret, ABC: x}
  missing:
    command: no-such-agent-anywhere --acp
  dir:
    command: /usr
";

#[test]
fn config_init_writes_once_and_the_result_is_listed() {
    let place = PrivateHomeFixture::new();
    let path = place.home.join(".config/subagent/config.yaml");
    let expected = json!({"path": path, "scope": "user", "overwritten": false});
    assert_eq!(place.run(&["config", "init", "--json"]).data("config.initialized"), expected);
    let error = place.run(&["config", "init", "--json"]).error("CONFIG_ALREADY_EXISTS");
    assert_eq!(error["details"]["path"], path.to_str().unwrap());
    let again = place.run(&["config", "init", "--force"]);
    assert_eq!((again.code, again.stdout), (0, format!("configPath: {}\nscope: user\n", path.display())));
    let listed = place.run(&["launcher", "list", "--json"]).data("launcher.listed");
    assert_eq!((&listed["configLoaded"], &listed["configPath"]), (&json!(true), &json!(path)));
    let names: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["claude-code", "cline", "codex", "gemini", "github-copilot", "kiro", "opencode"]);
    assert_eq!(listed["count"], 7);
}

#[test]
fn config_init_for_a_project_and_with_a_wrong_scope() {
    let place = PrivateHomeFixture::new();
    let data = place.run(&["config", "init", "--scope", " PROJECT ", "--json"]).data("config.initialized");
    assert_eq!(data["path"], place.cwd.join(".subagent/config.yaml").to_str().unwrap());
    assert_eq!(data["scope"], "project");
    let error = place.run(&["config", "init", "--scope", "world", "--json"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["scope"], "world");
}

#[test]
fn no_config_is_an_empty_one() {
    let place = PrivateHomeFixture::new();
    let listed = place.run(&["launcher", "list"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, "(no launchers configured)\n"));
    let data = place.run(&["launcher", "list", "--json"]).data("launcher.listed");
    assert_eq!((&data["configLoaded"], &data["items"]), (&json!(false), &json!([])));
}

#[test]
fn launcher_show_hides_the_values_of_variables() {
    let place = PrivateHomeFixture::new();
    let config = place.config(CONFIG);
    let shown = place.run(&["launcher", "show", "shell", "--config", &config, "--json"]);
    assert!(!shown.stdout.contains("very-secret"));
    let expected = json!({
        "name": "shell", "backend": {"kind": "acp-stdio"}, "command": "sh -c", "args": ["exit 0"],
        "env": {"ABC": "<set>", "TOKEN": "<set>"}, "handshake": null,
    });
    assert_eq!(shown.data("launcher.shown"), expected);
    let text = place.run(&["launcher", "show", "shell", "--config", &config]);
    let expected = "name: shell\nbackend: {\"kind\": \"acp-stdio\"}\ncommand: sh -c\nargs: [\"exit 0\"]\nenv: {\"ABC\": \"<set>\", \"TOKEN\": \"<set>\"}\n";
    assert_eq!(text.stdout, expected);
    let error =
        place.run(&["launcher", "show", "nope", "--config", &config, "--json"]).error("LAUNCHER_NOT_FOUND");
    assert_eq!((&error["details"]["name"], &error["details"]["launcher"]), (&json!("nope"), &json!("nope")));
}

#[test]
fn launcher_probe_shows_what_would_be_started() {
    let place = PrivateHomeFixture::new();
    let config = place.config(CONFIG);
    let probe = |name: &str| {
        place.run(&["launcher", "probe", name, "--config", &config, "--json"]).data("launcher.probed")
    };
    let found = probe("shell");
    assert_eq!((&found["available"], &found["commandWasTokenized"]), (&json!(true), &json!(true)));
    assert_eq!(
        (&found["effectiveCommand"], &found["effectiveArgs"]),
        (&json!("sh"), &json!(["-c", "exit 0"]))
    );
    assert_eq!(found["envKeys"], json!(["ABC", "TOKEN"]));
    assert!(found["resolvedCommandPath"].as_str().unwrap().starts_with('/'));
    for name in ["missing", "dir"] {
        let found = probe(name);
        assert_eq!(
            (&found["available"], &found["resolvedCommandPath"]),
            (&json!(false), &Value::Null),
            "{name}"
        );
    }
    let text = place.run(&["launcher", "probe", "missing", "--config", &config]);
    let expected = "missing: missing\ncommand: no-such-agent-anywhere --acp\neffectiveCommand: no-such-agent-anywhere\neffectiveArgs: [\"--acp\"]\nresolvedPath:\n";
    assert_eq!(text.code, 0);
    assert!(text.stdout.starts_with(expected), "{}", text.stdout);
}

#[test]
fn a_broken_or_missing_config_is_reported_with_its_path() {
    let place = PrivateHomeFixture::new();
    let config = place.config("launchers: [\n");
    let error = place.run(&["launcher", "list", "--config", &config, "--json"]).error("CONFIG_PARSE_ERROR");
    assert_eq!(error["details"]["path"], config);
    let error =
        place.run(&["launcher", "list", "--config", "none.yaml", "--json"]).error("CONFIG_PARSE_ERROR");
    assert!(error["details"]["error"].is_string());
}

#[test]
fn errors_for_people_are_on_stderr() {
    let place = PrivateHomeFixture::new();
    let shown = place.run(&["launcher", "show", "nope"]);
    assert_eq!((shown.code, shown.stdout.as_str()), (1, ""));
    assert!(shown.stderr.starts_with("LAUNCHER_NOT_FOUND: "), "{}", shown.stderr);
}

#[test]
fn what_is_wrong_with_the_input_is_reported_before_anything_is_asked() {
    let place = PrivateHomeFixture::new();
    for (args, code, text) in [
        (&["worker", "list"] as &[&str], "WORKSPACE_ROOT_NOT_FOUND", "no workspace"),
        (&["send", "--worker-id", "w_1", "--text", "a", "--text-stdin"], "INVALID_INPUT", "exactly one"),
        (&["send", "--worker-id", "w_1"], "INVALID_INPUT", "no text"),
        (&["send", "--text", "a"], "INVALID_INPUT", "no worker"),
        (&["send", "--worker-id", "w", "--text", "a", "--wait-until", "nope"], "INVALID_ARGUMENT", "nope"),
        (
            &["send", "--worker-id", "w", "--text", "a", "--cwd", ".", "--blocks", "{"],
            "INVALID_INPUT",
            "--blocks",
        ),
        (&["send", "--input", "-", "--text-stdin"], "INVALID_INPUT", "stdin"),
        (&["wait", "--worker-id", "w", "--until", "x", "--timeout-seconds", "0"], "INVALID_ARGUMENT", "x"),
        (&["approve", "--worker-id", "w"], "INVALID_INPUT", "no permission request"),
        (&["watch", "--worker-id", "w", "--ndjson"], "INVALID_ARGUMENT", "--ndjson"),
        (&["controller", "init", "--print-env"], "INVALID_ARGUMENT", "--print-env"),
        (&["worker", "start", "--cwd", "none"], "INVALID_ARGUMENT", "none"),
        (&["controller", "init", "--cwd", "."], "DAEMON_NOT_RUNNING", "SUBAGENT_NO_AUTOSTART"),
        (&["worker", "show", "", "--cwd", "."], "WORKER_NOT_FOUND", "worker"),
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let error = place.run(&args).error(code);
        assert!(error["message"].as_str().unwrap().contains(text), "{args:?}: {error}");
    }
    assert!(!place.cwd.join(".subagent").exists(), "a refused command must leave nothing behind");
}

#[test]
fn a_key_and_its_flag_are_a_duplicate() {
    let place = PrivateHomeFixture::new();
    fs::write(place.cwd.join("in.json"), r#"{"workerId": null, "text": "x"}"#).unwrap();
    let error =
        place.run(&["send", "--input", "in.json", "--worker-id", "w", "--json"]).error("INVALID_INPUT");
    assert_eq!(error["details"], json!({"field": "workerId", "flag": "worker_id"}));
}

#[test]
fn wrong_usage_exits_with_2_and_json_gets_an_envelope_too() {
    let place = PrivateHomeFixture::new();
    let plain = place.run(&["worker", "show"]);
    assert_eq!((plain.code, plain.stdout.as_str()), (2, ""));
    assert!(plain.stderr.contains("Usage:"), "{}", plain.stderr);
    for args in [
        &["send", "--nope", "--json"] as &[&str],
        &["worker", "--json"],
        &["send", "--wait-timeout-seconds", "-1", "--json"],
    ] {
        let output = place.run(args);
        let document = output.document(2);
        assert_eq!(document["error"]["code"], "INVALID_ARGUMENT", "{document}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn version_and_help_are_on_stdout() {
    let place = PrivateHomeFixture::new();
    let version = place.run(&["--version"]);
    assert_eq!((version.code, version.stderr.as_str()), (0, ""));
    assert!(version.stdout.starts_with("subagent "), "{}", version.stdout);
    let help = place.run(&["send", "--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.contains("--wait-until"));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let place = PrivateHomeFixture::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child =
        place.command(&["launcher", "list", "--json"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
}

#[test]
fn the_daemons_command_line() {
    let place = PrivateHomeFixture::new();
    let subagentd = |args: &[&str]| {
        let mut command = Command::new(executables().path("subagentd"));
        command.args(args).env_clear().env("HOME", &place.home).current_dir(&place.cwd).stdin(Stdio::null());
        output(command)
    };
    assert_eq!(subagentd(&["status", "--json"]).error("WORKSPACE_ROOT_NOT_FOUND")["retryable"], false);
    fs::create_dir(place.cwd.join(".git")).unwrap();
    let state_dir = place.cwd.join(".subagent/state");
    let expected = json!({
        "schemaVersion": "v1", "running": false, "stateDir": state_dir,
        "statusFile": state_dir.join("subagentd-status.json"),
    });
    assert_eq!(subagentd(&["status", "--json"]).document(1), expected);
    assert_eq!(subagentd(&["status"]).stdout, "subagentd not initialized\n");
    let stopped = subagentd(&["stop", "--json"]).data("daemon.stopped");
    assert_eq!(stopped, json!({"stopped": false, "pid": null, "workers": false, "reason": "NOT_RUNNING"}));
    assert_eq!(subagentd(&["run", "--heartbeat-seconds", "0"]).code, 2);
    assert!(!state_dir.exists(), "a question must leave nothing behind");
}
