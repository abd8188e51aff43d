//! Another local user: what they can reach, and where a user's secrets are within their reach.

// Runs as root, which alone can become another user; otherwise it reports that clearly. Tests
// whose names end with `turns_red` prove that each check can fail (`cargo test --workspace --test
// e2e -- --ignored turns_red`).

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, say};
use subagent_tests::invariants::PROMPT_CANARY;

/// The id of another user. It exists on every system.
const OTHER: u32 = 65_534;
/// The value of a variable of the agent.
const VALUE_CANARY: &str = "value-canary-51c3";

/// Whether we can become another user.
fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        say(&format!("\n!!! SKIPPED: {test} needs root, to become another user !!!\n"));
    }
    root
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns a copy that can be started at once. If this process wrote it, a child of another test's
/// thread might still hold it open for writing.
fn copy(program: &str, to: &Path) {
    assert!(Command::new("cp").args([Path::new(program), to]).status().unwrap().success());
}

/// A sandbox that others may enter, like most homes, with a worker that has a
/// secret and received one.
struct OtherUserFixture {
    sandbox: TestSandbox,
    worker: String,
    stranger: PathBuf,
}

impl OtherUserFixture {
    fn new(sabotage: &str) -> Self {
        let mut sandbox = TestSandbox::new();
        sandbox.set_env("SUBAGENT_LOG", "trace");
        sandbox.set_env("RUST_LOG", "trace");
        sandbox.set_env("SUBAGENT_SABOTAGE", sabotage);
        sandbox.set_env("AGENT_API_KEY", VALUE_CANARY);
        for folder in [sandbox.path().to_owned(), sandbox.file("run"), sandbox.workspace()] {
            mode(&folder, 0o755);
        }
        let stranger = sandbox.file("stranger");
        copy(&sandbox.executable("stranger"), &stranger);
        mode(&stranger, 0o755);
        sandbox.init();
        let worker = sandbox.start("demo");
        let _ = sandbox.send(&worker, &format!("!say {PROMPT_CANARY}"));
        Self { sandbox, worker, stranger }
    }

    /// Returns what another user gets by an attempt; `None` if it is refused.
    fn tries(&self, attempt: &[&str]) -> Option<String> {
        let mut command = Command::new(&self.stranger);
        command.args(attempt).env_clear().stdin(Stdio::null()).uid(OTHER).gid(OTHER);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("no such attempt"), "{attempt:?}");
        output.status.success().then_some(said)
    }

    fn socket(&self) -> PathBuf {
        self.sandbox.daemon_info().unwrap().socket
    }

    fn runtime_socket(&self) -> PathBuf {
        self.sandbox.show(&self.worker)["runtimeSocket"].as_str().unwrap().into()
    }
}

/// Returns all files and folders below this one, and itself.
fn all_below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        for entry in fs::read_dir(path).unwrap() {
            found.extend(all_below(&entry.unwrap().path()));
        }
    }
    found
}

fn holds(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    memchr::memmem::find(&bytes, text.as_bytes()).is_some()
}

/// Returns what another user can access. This must be nothing, and must not depend on
/// a single folder's mode.
fn reached(place: &OtherUserFixture) -> Vec<String> {
    let (state, sockets) = (place.sandbox.state_dir().to_owned(), place.sandbox.file("run/subagent"));
    let mut found = Vec::new();
    for path in all_below(&state).into_iter().chain(all_below(&sockets)) {
        let meta = path.symlink_metadata().unwrap();
        let name = path.to_str().unwrap();
        if meta.mode() & 0o077 != 0 || meta.uid() != nix::unistd::geteuid().as_raw() {
            found.push(format!("{name} has mode {:o} and owner {}", meta.mode(), meta.uid()));
        }
        for attempt in ["read", "list", "connect"] {
            if place.tries(&[attempt, name]).is_some() {
                found.push(format!("another user can {attempt} {name}"));
            }
        }
    }
    found
}

/// Returns what the sockets answer to another user who can connect.
fn answered(place: &OtherUserFixture) -> Vec<String> {
    let folder = place.sandbox.file("run/subagent");
    let (daemon, runtime) = (place.socket(), place.runtime_socket());
    mode(&folder, 0o711);
    for socket in [&daemon, &runtime] {
        mode(socket, 0o666);
        assert!(
            place.tries(&["connect", socket.to_str().unwrap()]).is_some(),
            "the socket must be reachable"
        );
    }
    let http = "GET /v1/workers HTTP/1.1\\nHost: localhost\\nSubagent-Protocol: 1\\n\\n";
    let hello = r#"{"t":"hello","protocol":1,"generation":0,"desired":"run"}"#.to_owned() + "\n";
    let mut found = Vec::new();
    for (socket, text) in [(&daemon, http), (&runtime, hello.as_str())] {
        if let Some(answer) = place.tries(&["ask", socket.to_str().unwrap(), text]) {
            found.push(format!("{} answers another user: {answer}", socket.display()));
        }
    }
    mode(&folder, 0o700);
    for socket in [&daemon, &runtime] {
        mode(socket, 0o600);
    }
    found
}

/// Returns what the command lines of our processes reveal.
fn on_command_lines(place: &OtherUserFixture) -> Vec<String> {
    let mut found = Vec::new();
    let processes = place.sandbox.processes();
    assert!(processes.len() >= 4, "daemon, runtime, guard and agent: {processes:?}");
    for process in processes {
        let command_line = format!("/proc/{}/cmdline", process.pid);
        let Some(said) = place.tries(&["read", &command_line]) else { continue };
        for secret in [VALUE_CANARY, PROMPT_CANARY] {
            if said.contains(secret) {
                found.push(format!("the command line of {process:?} holds {secret}: {said}"));
            }
        }
        if place.tries(&["read", &format!("/proc/{}/environ", process.pid)]).is_some() {
            found.push(format!("another user can read the environment of {process:?}"));
        }
    }
    found
}

/// Checks the files of the checkout. Files outside the state directory are not secret. The state
/// directory contains no value of a variable and no token, and its logs contain no prompt.
fn in_files(place: &OtherUserFixture) -> Vec<String> {
    let state = place.sandbox.state_dir();
    let token = place.sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let token = token["owner"]["token"].as_str().unwrap().to_owned();
    let mut found = Vec::new();
    let mut seen = (false, false);
    for path in all_below(&place.sandbox.workspace()) {
        let is_log = path.starts_with(state.join("logs"));
        let is_private = path.starts_with(state) && !is_log;
        seen.0 |= is_log && holds(&path, " DEBUG ");
        seen.1 |= is_private && holds(&path, PROMPT_CANARY);
        for (secret, is_fine) in [(VALUE_CANARY, false), (token.as_str(), false), (PROMPT_CANARY, is_private)]
        {
            if !is_fine && holds(&path, secret) {
                found.push(format!("{} holds {secret}", path.display()));
            }
        }
    }
    assert!(seen.0 && seen.1, "the log must be detailed, and the prompt stored: {seen:?}");
    found
}

/// Returns what `--json` prints without need.
fn in_output(place: &OtherUserFixture) -> Vec<String> {
    let worker = place.worker.as_str();
    let commands: [&[&str]; 16] = [
        &["worker", "list"],
        &["worker", "show", worker],
        &["worker", "logs", worker],
        &["daemon", "status"],
        &["daemon", "logs"],
        &["controller", "status"],
        &["controller", "recover"],
        &["launcher", "list"],
        &["launcher", "show", "demo"],
        &["launcher", "probe", "demo"],
        &["role", "list"],
        &["prompt", "render"],
        &["doctor"],
        &["worker", "inspect", worker],
        &["worker", "handoff", "--worker-id", worker],
        &["worker", "restart", worker],
    ];
    let mut found = Vec::new();
    for command in commands {
        let output = place.sandbox.run(command);
        assert!(output.status.code() == Some(0), "{output}");
        // An owner who inspects a worker sees its messages.
        let shows_prompts = command.contains(&"inspect");
        for (secret, is_fine) in [(VALUE_CANARY, false), (PROMPT_CANARY, shows_prompts)] {
            if !is_fine && (output.stdout.contains(secret) || output.stderr.contains(secret)) {
                found.push(format!("`{}` prints {secret}", output.command));
            }
        }
    }
    let watched = place.sandbox.command("subagent").args(["watch", "--worker-id", worker, "--ndjson"]).run();
    assert!(watched.stdout.contains(PROMPT_CANARY) && !watched.stdout.contains(VALUE_CANARY), "{watched}");
    found
}

/// Follows links in the places where we write: a state directory that is open to all users contains
/// links to another file.
fn through_links(sabotage: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in [
        "daemon.lock",
        "start.lock",
        ".daemon.json.new",
        "daemon.json",
        ".socket-folder.new",
        "socket-folder",
        "logs/subagentd.log",
        "sockets",
    ] {
        let mut sandbox = TestSandbox::new();
        sandbox.set_env("SUBAGENT_SABOTAGE", sabotage);
        let state = sandbox.file("open");
        sandbox.set_state_dir(&state);
        mode(sandbox.path(), 0o755);
        fs::create_dir_all(state.join("logs")).unwrap();
        for folder in [state.clone(), state.join("logs")] {
            mode(&folder, 0o777);
        }
        let victim = sandbox.file("victim");
        fs::write(&victim, "precious").unwrap();
        let stranger = sandbox.file("stranger");
        copy(&sandbox.executable("stranger"), &stranger);
        let link = match name {
            "sockets" => {
                mode(&sandbox.file("run"), 0o777);
                sandbox.file("run/subagent")
            }
            name => state.join(name),
        };
        let mut planting = Command::new(&stranger);
        planting.args([Path::new("link"), &victim, &link]).uid(OTHER).gid(OTHER);
        assert!(planting.status().unwrap().success());
        // It does not matter here whether it starts or refuses.
        let started = sandbox.run(&["daemon", "start"]);
        let now = fs::read_to_string(&victim).unwrap_or_default();
        if now != "precious" {
            found.push(format!("through {name} the victim became {now:?}\n{started}"));
        }
        let _ = sandbox.run(&["daemon", "stop"]);
        mode(&sandbox.file("run"), 0o700);
        let _ = fs::remove_file(&link);
        sandbox.finish();
    }
    found
}

/// Whether a daemon uses a socket folder created by another user of this machine.
fn in_a_foreign_folder(sabotage: &str) -> Vec<String> {
    let sandbox = TestSandbox::new();
    mode(sandbox.path(), 0o755);
    let programs = sandbox.file("programs");
    fs::create_dir(&programs).unwrap();
    for name in ["subagent", "subagentd", "subagent-runtime", "stranger"] {
        copy(&sandbox.executable(name), &programs.join(name));
    }
    let home = sandbox.file("home");
    // An unused user id, derived from this process, so that no two tests share it.
    let user = 1_000_000 + std::process::id();
    chown(&home, Some(user), Some(user)).unwrap();
    fs::create_dir(home.join(".git")).unwrap();
    let folder = PathBuf::from(format!("/tmp/subagent-{user}"));
    let mut making = Command::new(programs.join("stranger"));
    making.args([Path::new("mkdir"), &folder]).uid(OTHER).gid(OTHER);
    assert!(making.status().unwrap().success());
    let run = |args: &[&str]| {
        let mut command = Command::new(programs.join("subagent"));
        command.args(args).env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin");
        command
            .env("SUBAGENT_SABOTAGE", sabotage)
            .env("TEST_SANDBOX_ID", sandbox.path().file_name().unwrap());
        command.current_dir(&home).stdin(Stdio::null()).uid(user).gid(user);
        let output = command.output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let refused = run(&["daemon", "start", "--json"]);
    let reported = refused["error"]["code"] == "RUNTIME_DIR_UNSAFE";
    let left = fs::read_dir(&folder).unwrap().count();
    let _ = run(&["daemon", "stop", "--json"]);
    fs::remove_dir_all(&folder).unwrap();
    let problem = format!("the folder of another user was used ({left} files in it): {refused:#}");
    if reported && left == 0 { Vec::new() } else { vec![problem] }
}

#[test]
fn another_user_reaches_no_file_folder_or_socket() {
    if is_root("another_user_reaches_no_file_folder_or_socket") {
        let place = OtherUserFixture::new("");
        assert_eq!(reached(&place), [""; 0]);
        place.sandbox.finish();
    }
}

#[test]
fn an_open_socket_answers_no_other_user() {
    if is_root("an_open_socket_answers_no_other_user") {
        let place = OtherUserFixture::new("");
        assert_eq!(answered(&place), [""; 0]);
        place.sandbox.finish();
    }
}

#[test]
fn command_lines_and_environments_reveal_nothing_to_other_users() {
    if is_root("command_lines_and_environments_reveal_nothing_to_other_users") {
        let place = OtherUserFixture::new("");
        assert_eq!(on_command_lines(&place), [""; 0]);
        place.sandbox.finish();
    }
}

#[test]
fn no_file_of_the_checkout_holds_a_secret() {
    let place = OtherUserFixture::new("");
    assert_eq!(in_files(&place), [""; 0]);
    place.sandbox.finish();
}

#[test]
fn no_command_prints_a_value_or_needlessly_a_prompt() {
    let place = OtherUserFixture::new("");
    assert_eq!(in_output(&place), [""; 0]);
    place.sandbox.finish();
}

#[test]
fn a_planted_link_leads_nowhere() {
    if is_root("a_planted_link_leads_nowhere") {
        assert_eq!(through_links(""), [""; 0]);
    }
}

#[test]
fn a_planted_folder_for_the_sockets_is_refused() {
    if is_root("a_planted_folder_for_the_sockets_is_refused") {
        assert_eq!(in_a_foreign_folder(""), [""; 0]);
    }
}

/// The output of another user's `subagent doctor` about a user's workspace.
#[test]
fn what_doctor_may_not_look_at_is_reported_and_not_taken_for_nothing() {
    if !is_root("doctor for another user") {
        return;
    }
    let place = OtherUserFixture::new("");
    let program = place.sandbox.file("subagent");
    copy(&place.sandbox.executable("subagent"), &program);
    let state = place.sandbox.state_dir().to_owned();
    let looked = |id: &str| {
        let mut command = Command::new(&program);
        command.args(["doctor", "--json", "--cwd"]).arg(place.sandbox.workspace());
        command.env_clear().env("HOME", "/").current_dir("/").stdin(Stdio::null()).uid(OTHER).gid(OTHER);
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["data"]["findings"].as_array().unwrap().clone();
        let reported = |finding: &Value| finding["id"] == id && finding["status"] != "ok";
        assert!(findings.iter().any(reported), "{id}: {report:#}");
        findings
    };
    let hidden = ["processes.look", "database.look", "journals.look", "disk.look", "permissions.stateDir"];
    for id in hidden.into_iter().chain(["processes.daemon"]) {
        let findings = looked(id);
        let claims = |finding: &&Value| {
            let seen = finding["seen"].as_str().unwrap();
            ["none runs", "there is none yet", "there are none yet", "there is no state dir"]
                .iter()
                .any(|claim| seen.starts_with(claim))
        };
        assert_eq!(findings.iter().find(claims), None);
    }
    // A folder that can be listed, with unreadable files and folders.
    mode(&state, 0o755);
    for id in ["processes.daemon", "database.sound", "journals.look", "permissions.look"] {
        let _ = looked(id);
    }
    mode(&state, 0o700);
    place.sandbox.finish();
}

fn turns_red(sabotage: &str, check: fn(&OtherUserFixture) -> Vec<String>) {
    if is_root(sabotage) {
        let place = OtherUserFixture::new(sabotage);
        let found = check(&place);
        assert!(!found.is_empty(), "{sabotage}: nothing was noticed");
        // A broken product may violate an invariant. The sandbox is dropped, which ends everything.
    }
}

#[test]
#[ignore = "breaks the product on purpose"]
fn an_open_state_dir_turns_red() {
    turns_red("state.world", reached);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn an_open_socket_turns_red() {
    turns_red("socket.world", reached);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn a_socket_for_everybody_turns_red() {
    turns_red("peer.any_user", answered);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn values_on_a_command_line_turns_red() {
    turns_red("argv.values", on_command_lines);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn a_prompt_in_the_log_turns_red() {
    turns_red("log.prompt", in_files);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn values_in_the_database_turns_red() {
    turns_red("database.values", in_files);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn values_in_the_output_turns_red() {
    turns_red("view.values", in_output);
}

#[test]
#[ignore = "breaks the product on purpose"]
fn a_link_that_is_followed_turns_red() {
    if is_root("link.follow") {
        assert!(!through_links("link.follow").is_empty());
    }
}

#[test]
#[ignore = "breaks the product on purpose"]
fn a_foreign_folder_that_is_taken_turns_red() {
    if is_root("runtime_dir.foreign") {
        assert!(!in_a_foreign_folder("runtime_dir.foreign").is_empty());
    }
}
